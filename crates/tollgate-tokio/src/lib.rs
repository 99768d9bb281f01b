#![doc = include_str!("../README.md")]

mod guard;
mod key;
mod meter;
mod outbound;
mod pace;
mod random;
mod wait;

pub use guard::{Acquire, AcquireError, LeaseGuard, LeaseLost, WaitingAcquire};
pub use meter::{Meter, Metered, NotSettled, OnDrop, SettleGuard, Settled};
pub use outbound::{Outbound, OutboundBuilder, OutboundCall, OutboundError, OutboundStats, Permit};
pub use pace::{NotAdmitted, Pace, Paced};
pub use wait::{Admitted, TooLong, WaitError, WaitUpTo, Waiting, calls_waiting};
