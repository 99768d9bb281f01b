//! The types that programs need, and all that these types take and return. Every backend crate
//! re-exports them, so that a program needs no other tollgate crate.
//!
//! ```
//! use tollgate_core::prelude::*;
//!
//! let limit = Limit::new("login", Gcra::new(Quota::per_minute(5))?)?;
//! assert_eq!(limit, "login=gcra:5/1m".parse()?);
//! # Ok::<(), LimitError>(())
//! ```

pub use crate::algorithm::{
    Algorithm, Block, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog,
};
pub use crate::call::{
    Adjust, BlockCall, Call, CallId, Costs, Deciding, Left, Reserve, Reset, Settle, SettleError,
};
pub use crate::decision::{Consumed, Decision, Denied, Receipt, Verdict, Verdicts};
pub use crate::error::{ErrorKind, LimitError, StoreError};
pub use crate::evaluation::Evaluation;
pub use crate::fingerprint::Fingerprint;
pub use crate::key::Key;
pub use crate::lease::{
    Acquisition, ConcurrencyLimiter, LONGEST_LEASE_ID, Lease, LeaseAnswer, LeaseCall,
    LeaseOperation, LeaseRequest, LeaseReset, LeaseStore, LeaseTerms, MAX_LEASES, NoLease,
    Occupancy, SyncLeaseStore,
};
pub use crate::limit::Limit;
pub use crate::limiter::RateLimiter;
pub use crate::quota::Quota;
pub use crate::request::{BlockSpan, Check, Checks, MAX_CHECKS, Operation, Request};
pub use crate::schedule::{
    BatchPlacement, BatchRefusal, Event, LONGEST_EVENT_ID, MAX_EVENTS, MAX_EVENTS_PER_CALL,
    MAX_SCHEDULE_AMOUNT, Period, Placement, PlannedEvent, Reason, Refusal, Schedule,
    ScheduleAnswer, ScheduleCall, ScheduleOperation, ScheduleQuota, ScheduleRequest, ScheduleReset,
    ScheduleStore, ScheduleTerms, SyncScheduleStore,
};
#[cfg(feature = "calendar")]
pub use crate::schedule::{CalendarQuota, CalendarUnit};
pub use crate::store::{Store, SyncStore};
pub use crate::time::{MAX_EXACT, Timestamp, Wait};
