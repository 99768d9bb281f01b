#![doc = include_str!("../README.md")]

mod guard;
mod key;
mod pace;
mod random;
mod wait;

pub use guard::{Acquire, LeaseGuard, LeaseLost};
pub use pace::{NotAdmitted, Pace, Paced};
pub use wait::{Admitted, TooLong, WaitError, Waiting, Within};
