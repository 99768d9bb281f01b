//! Property tests of the machines: agreement with naive definitions, and what is promised of all.

mod agreement;

mod histories;
mod naive;

mod promises;
