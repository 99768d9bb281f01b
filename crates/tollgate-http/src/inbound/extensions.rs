//! What the layer leaves in the extensions of requests and responses.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tollgate_core::Limit;
use tollgate_core::Wait;
use tollgate_core::store::{Source, Verdict, Verdicts};
use tollgate_tokio::LeaseGuard;

use super::question::Question;

/// What the limits said about a request, in the extensions of the request and of its response: see
/// [`InboundLayer::insert_decision`](super::InboundLayer::insert_decision).
///
/// With the feature `axum`, handlers can extract it, as an `Option` if there are requests that no
/// store decides: those that are skipped or [allowed](super::ClientIp::allow), or that pass although
/// the store [fails](super::OnStoreFailure::Allow).
#[derive(Clone, Debug)]
pub struct Decided {
    verdicts: Arc<[(Limit, Verdict)]>,
    is_allowed: bool,
    remaining: u64,
    retry_after: Wait,
    source: Source,
}

impl Decided {
    pub(super) fn new(question: &Question, verdicts: &Verdicts) -> Self {
        let each = question.verdicts(verdicts.as_slice());
        Self {
            verdicts: each
                .map(|(limit, verdict)| (limit.clone(), *verdict))
                .collect(),
            is_allowed: verdicts.is_allowed(),
            remaining: verdicts.remaining(),
            retry_after: verdicts.retry_after(),
            source: verdicts.source(),
        }
    }

    /// Returns whether the request was allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Returns the largest cost that all limits would allow now.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Returns how long to wait until the same request is allowed, if nobody else calls.
    #[must_use]
    pub fn retry_after(&self) -> Wait {
        self.retry_after
    }

    /// Returns where the decision came from: the store, or a layer around it.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns each limit with its verdict.
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = (&Limit, &Verdict)> {
        self.verdicts
            .iter()
            .map(|(limit, verdict)| (limit, verdict))
    }
}

/// What a request costs, said by its handler: see
/// [`Policy::settle_by_handler`](super::Policy::settle_by_handler).
///
/// With the feature `axum`, handlers can extract it. If several layers settle by it, all get the cost
/// that is set; one that does not count the request ignores it.
#[derive(Clone)]
pub struct Charge(Arc<AtomicU64>);

/// Stands for a cost that was not said.
const UNSAID: u64 = u64::MAX;

impl Charge {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(UNSAID)))
    }

    /// Sets what the request costs. The last call before the response counts; without one, the
    /// request keeps the cost it was checked at.
    pub fn set(&self, cost: u64) {
        self.0.store(cost.min(UNSAID - 1), Ordering::Relaxed);
    }

    pub(super) fn said(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|cost| *cost != UNSAID)
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Charge").field(&self.said()).finish()
    }
}

/// A place among the requests that a client may have at once, in the extensions of a request: see
/// [`InboundLayer::hold`](super::InboundLayer::hold).
///
/// The layer gives the place back when the response's body has ended. What goes on after that, such
/// as a WebSocket or an upgraded connection, keeps the place for as long as it keeps a clone of this.
/// If several layers hold a place for the request, this is all of them.
///
/// With the feature `axum`, handlers can extract it, as an `Option` if there are requests that hold
/// none: those that are skipped or [allowed](super::ClientIp::allow), or that pass although the store
/// [fails](super::OnStoreFailure::Allow).
#[derive(Clone)]
pub struct Place(SmallVec<[Arc<LeaseGuard>; 1]>);

impl Place {
    /// Returns this place, and beside it those that layers before this one hold.
    pub(super) fn beside(lease: Arc<LeaseGuard>, before: Option<Self>) -> Self {
        let mut leases = before.map_or_else(SmallVec::new, |before| before.0);
        leases.push(lease);
        Self(leases)
    }

    /// Returns whether the place is certainly still held: a store that cannot be reached for longer
    /// than the lease lives gives it to another.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.iter().all(|lease| lease.is_held())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("is_held", &self.is_held())
            .finish()
    }
}

/// Extracts what the layer left in the extensions.
#[cfg(feature = "axum")]
mod extract {
    use std::convert::Infallible;

    use axum::extract::{FromRequestParts, OptionalFromRequestParts};
    use http::StatusCode;
    use http::request::Parts;

    use super::{Charge, Decided, Place};

    /// Returns a clone of what the layer left, or the status 500 with what to add.
    fn found<T: Clone + Send + Sync + 'static>(
        parts: &Parts,
        missing: &'static str,
    ) -> Result<T, (StatusCode, &'static str)> {
        let found = parts.extensions.get::<T>().cloned();
        found.ok_or((StatusCode::INTERNAL_SERVER_ERROR, missing))
    }

    macro_rules! extracted {
        ($($type:ty, $missing:literal;)*) => {$(
            impl<S: Sync> FromRequestParts<S> for $type {
                type Rejection = (StatusCode, &'static str);

                async fn from_request_parts(
                    parts: &mut Parts,
                    _: &S,
                ) -> Result<Self, Self::Rejection> {
                    found(parts, $missing)
                }
            }

            impl<S: Sync> OptionalFromRequestParts<S> for $type {
                type Rejection = Infallible;

                async fn from_request_parts(
                    parts: &mut Parts,
                    _: &S,
                ) -> Result<Option<Self>, Self::Rejection> {
                    Ok(parts.extensions.get::<Self>().cloned())
                }
            }
        )*};
    }

    extracted! {
        Decided, "no decision on this request: add `InboundLayer::insert_decision`";
        Charge, "no cost can be set for this request: add `Policy::settle_by_handler`";
        Place, "no place is held for this request: add `InboundLayer::hold`";
    }
}
