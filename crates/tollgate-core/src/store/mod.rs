//! What a backend implements, and what it is given and returns.
//!
//! To write a store, in this order:
//!
//! 1. Implement [`Store`](crate::Store), whose documentation lists what its methods must do; and
//!    [`SyncStore`](crate::SyncStore), if it decides without waiting.
//! 2. `decide` is given a [`Request`]: an [`Operation`] and one or several [`Check`]s, each of a
//!    limit, a key and a cost. Call [`Request::validate`] first, with [`Fingerprint::of`] or a
//!    [`Fingerprint`] of your own.
//! 3. Keep a [`State`] for each limit and key; a [`Partition`] is the part of the key that says
//!    where. [`Request::decide_on`] decides on the [`States`] of a request and updates them.
//! 4. If states must be inserted, make room between [`Request::evaluate`] and
//!    [`Evaluation::apply`].
//! 5. Return [`Verdicts`], one [`Verdict`] for each check. What was consumed is in their
//!    [`Receipt`], as [`Consumed`] amounts; [`Operation::Refund`] and
//!    [`Operation::Settle`] bring it back.
//! 6. `reset` is given [`Checks`], and deletes their states.
//! 7. If the states are decided on elsewhere, by a clock of which this process only knows about what it
//!    says, bring a [`Cover`]: the periods around that instant, for limits that count by a calendar. If
//!    the clock is in none of them, the answer is [`Uncovered`]: make another cover, and ask once more.
//!
//! To write a layer, a store around a store, forward each request to the store inside, or change it
//! first: its costs by [`Request::map_costs`], its receipt by [`Request::with_receipt`]. Change the
//! answer back by [`Verdicts::map_costs`]; [mark](Verdicts::marked) it if there are several stores
//! inside, and say where it is from by [`Verdicts::with_source`]. What needs no waiting is decided at once by
//! [`Store::begin`](crate::Store::begin).
//!
//! To call a store without a limiter, such as with keys of several kinds in one request, make a
//! [`Request`] and pass it to [`Store::decide`](crate::Store::decide).

mod begun;
mod bytes;
mod check;
pub(crate) mod evaluation;
mod fingerprint;
mod lateness;
mod operation;
pub(crate) mod receipt;
mod request;
mod source;
pub(crate) mod verdicts;

pub use crate::algorithm::{BlockSpan, State, States};
pub use crate::cover::{Cover, Uncovered};
pub use crate::key::Partition;
pub use crate::limit::Limits;
pub use crate::time::MAX_EXACT;
pub use begun::Begun;
pub use check::{Check, Checks, MAX_CHECKS};
pub use evaluation::Evaluation;
pub use fingerprint::Fingerprint;
pub use lateness::{Delays, Lateness};
pub use operation::{Operation, Prefetch};
pub use receipt::Consumed;
pub use request::Request;
pub use source::Source;
pub use verdicts::Verdicts;

pub use crate::verdict::Verdict;
pub(crate) use receipt::Receipt;

/// The future of a store's method, in the box that `async_trait` makes.
///
/// A layer that only passes a call on needs no second box around it:
///
/// ```
/// use async_trait::async_trait;
/// use tollgate_core::store::{BoxFuture, Checks, Request, Verdicts};
/// use tollgate_core::{Store, StoreError};
///
/// struct Wrapped<S>(S);
///
/// #[async_trait]
/// impl<S: Store> Store for Wrapped<S> {
///     fn decide<'a: 'f, 'f>(
///         &'a self,
///         request: Request<'a>,
///     ) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
///         self.0.decide(request)
///     }
///
///     async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
///         self.0.reset(checks).await
///     }
///
///     fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
///         self.0.supports(request)
///     }
/// }
/// ```
pub type BoxFuture<'f, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'f>>;
