//! Property tests of the machines: agreement with naive definitions, and what is promised of all.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod agreement;
mod composites;
mod extremes;
mod histories;
mod naive;
mod policy_changes;
mod promises;
