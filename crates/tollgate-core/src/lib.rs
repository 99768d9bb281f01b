#![doc = include_str!("../README.md")]

pub mod algorithm;
mod decision;
mod error;
mod evaluation;
mod few;
mod fingerprint;
mod key;
mod limit;
mod limiter;
mod quota;
mod request;
mod store;
mod time;
#[cfg(feature = "wire")]
pub mod wire;

pub use decision::{Charge, Decision, Receipt, Verdict};
pub use error::{ErrorKind, LimitError, StoreError};
pub use evaluation::Evaluation;
pub use fingerprint::Fingerprint;
pub use key::Key;
pub use limit::Limit;
pub use limiter::{LimiterAt, RateLimiter};
pub use quota::Quota;
pub use request::{Check, MAX_CHECKS, Operation, Request};
pub use store::{Store, SyncStore};
pub use time::{MAX_EXACT, Timestamp, Wait};
