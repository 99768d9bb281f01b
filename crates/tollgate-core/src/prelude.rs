//! The types that most programs need. Every backend crate re-exports them, so that a program needs
//! no other tollgate crate.
//!
//! ```
//! use tollgate_core::prelude::*;
//!
//! let limit = Limit::new("login", Gcra::new(Quota::per_minute(5))?)?;
//! assert_eq!(limit, "login=gcra:5/1m".parse()?);
//! # Ok::<(), LimitError>(())
//! ```

pub use crate::algorithm::{
    Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog,
};
pub use crate::call::RefundError;
pub use crate::decision::{Decision, Denied, Receipt, Verdict, Verdicts};
pub use crate::error::{ErrorKind, LimitError, StoreError};
pub use crate::key::Key;
pub use crate::lease::{
    Acquisition, ConcurrencyLimiter, Lease, LeaseStore, LeaseTerms, NoLease, SyncLeaseStore,
};
pub use crate::limit::Limit;
pub use crate::limiter::RateLimiter;
pub use crate::quota::Quota;
pub use crate::request::{Check, Request};
pub use crate::schedule::{
    BatchPlacement, Event, Placement, PlannedEvent, Reason, Refusal, Schedule, ScheduleQuota,
    ScheduleStore, SyncScheduleStore, Terms,
};
#[cfg(feature = "calendar")]
pub use crate::schedule::{CalendarQuota, CalendarUnit};
pub use crate::store::{Store, SyncStore};
pub use crate::time::{Timestamp, Wait};
