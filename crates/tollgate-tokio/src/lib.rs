#![doc = include_str!("../README.md")]

mod guard;

pub use guard::{Acquire, LeaseGuard, LeaseLost};
