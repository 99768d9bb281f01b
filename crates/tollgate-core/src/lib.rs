#![doc = include_str!("../README.md")]

pub mod algorithm;
mod call;
mod decision;
mod error;
mod evaluation;
mod fingerprint;
#[doc(hidden)]
pub mod inside;
mod key;
mod lease;
mod limit;
mod limiter;
mod one_or_many;
pub mod prelude;
mod quota;
mod request;
mod schedule;
#[cfg(feature = "serde")]
mod serde;
mod store;
mod text;
mod time;

pub use call::{
    Adjust, BlockCall, Call, CallId, Costs, Deciding, Left, Reserve, Reset, Settle, SettleError,
};
pub use decision::{Consumed, Decision, Denied, Receipt, Verdict, Verdicts};
pub use error::{ErrorKind, LimitError, StoreError};
pub use evaluation::Evaluation;
pub use fingerprint::Fingerprint;
pub use key::Key;
pub use lease::{
    Acquisition, ConcurrencyLimiter, FromLeaseAnswer, LONGEST_LEASE_ID, Lease, LeaseAnswer,
    LeaseCall, LeaseOperation, LeaseRequest, LeaseReset, LeaseState, LeaseStore, LeaseTerms,
    MAX_LEASES, NoLease, Occupancy, SyncLeaseStore,
};
pub use limit::Limit;
pub use limiter::RateLimiter;
pub use quota::Quota;
pub use request::{BlockSpan, Check, Checks, MAX_CHECKS, Operation, Request};
pub use schedule::{
    Answer, BatchPlacement, BatchRefusal, Event, LONGEST_EVENT_ID, MAX_EVENTS, MAX_EVENTS_PER_CALL,
    MAX_SCHEDULE_AMOUNT, Period, Placement, PlannedEvent, Reason, Refusable, Refusal, Schedule,
    ScheduleAnswer, ScheduleCall, ScheduleOperation, ScheduleQuota, ScheduleRequest, ScheduleReset,
    ScheduleState, ScheduleStore, ScheduleTerms, SyncScheduleStore, Weighted,
};
#[cfg(feature = "calendar")]
pub use schedule::{CalendarQuota, CalendarUnit};
pub use store::{Store, SyncStore};
pub use time::{MAX_EXACT, Timestamp, Wait};
