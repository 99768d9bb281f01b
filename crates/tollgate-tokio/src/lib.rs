#![doc = include_str!("../README.md")]

mod blocking;
mod costs;
#[doc(hidden)]
pub mod inside;
mod key;
mod late;
pub mod lease;
pub mod meter;
pub mod outbound;
pub mod pace;
mod queue;
mod random;
pub mod wait;

pub use blocking::Blocking;
pub use lease::guard::LeaseGuard;
pub use outbound::client::Outbound;
pub use wait::wait_up_to::WaitUpTo;
