//! Property tests of the state machines: agreement with second definitions, and common promises.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod agreement;
mod composites;
mod extremes;
mod histories;
mod policy_changes;
mod promises;
