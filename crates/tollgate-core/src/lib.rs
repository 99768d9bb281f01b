#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod algorithm;
mod bytes;
#[cfg(feature = "calendar")]
mod calendar;
mod call_id;
mod clock;
mod companion;
mod contract;
mod cover;
#[cfg(feature = "calendar")]
mod cycle;
mod decision;
mod error;
#[doc(hidden)]
pub mod inside;
#[cfg(any(feature = "chrono", feature = "jiff"))]
mod instants;
mod key;
pub mod lease;
mod limit;
mod limiter;
mod one_or_many;
mod quota;
pub mod schedule;
#[cfg(feature = "serde")]
mod serde;
pub mod store;
mod text;
mod time;
mod verdict;

pub use algorithm::named::*;
pub use call_id::CallId;
pub use clock::{Clock, ManualClock};
pub use contract::{Store, SyncStore};
#[cfg(feature = "calendar")]
pub use cycle::{CalendarCycle, CalendarUnit};
pub use decision::{Decision, Denied};
pub use error::{ErrorKind, LimitError, LimitErrorKind, StoreError};
pub use key::Key;
pub use limit::Limit;
pub use limiter::RateLimiter;
pub use quota::Quota;
pub use store::receipt::Receipt;
pub use time::{Timestamp, Wait};

/// The calls that a [`RateLimiter`] makes, for programs that store one or name its type, and
/// [`Companion`](call::Companion), for crates that make calls of their own, such as calls that wait.
pub mod call {
    pub use crate::companion::Companion;
    pub use crate::limiter::{
        Call, Change, Check, Consume, Consumes, Costs, Deciding, FromAnswer, Kind, Left, Once,
        Peek, Refund, Reserve, Settle, SettleError, Units,
    };
}
