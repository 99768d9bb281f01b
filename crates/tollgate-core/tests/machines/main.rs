//! Property tests of the machines: agreement with naive definitions, and what is promised of all.

mod agreement;
mod composites;
mod extremes;
mod histories;
mod naive;
mod policy_changes;
mod promises;
