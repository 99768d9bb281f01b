//! Property tests of the state machines: agreement with naive definitions, and common promises.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod agreement;
mod composites;
mod extremes;
mod histories;
mod naive;
mod policy_changes;
mod promises;
