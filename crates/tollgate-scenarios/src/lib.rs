#![doc = include_str!("../README.md")]
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a panic is a failed test, and so is an error"
)]

pub mod batches;
pub mod clear;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod crowd;
pub mod diagnose;
pub mod extremes;
pub mod faults;
pub mod garbled;
pub mod leases;
pub mod lost;
pub mod published;
pub mod redacted;
pub mod refusals;
pub mod secured;
