//! `Companion`: what another crate keeps for a limiter.

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::OnceLock;

use crate::key::Key;

/// What another crate keeps for a limiter and all of its clones, such as the callers that wait for it.
///
/// [`RateLimiter::companion`](crate::RateLimiter::companion) and
/// [`ConcurrencyLimiter::companion`](crate::lease::ConcurrencyLimiter::companion) make and return it.
///
/// # Examples
///
/// A counter of what came back:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tollgate_core::call::Companion;
/// use tollgate_core::{Key, RateLimiter, StoreError, SyncStore};
///
/// #[derive(Default)]
/// struct Returns(AtomicU64);
///
/// impl Companion for Returns {
///     fn given_back(&self, _: Key<'_>) {
///         let _ = self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// fn returns<S>(limiter: &RateLimiter<S>) -> u64 {
///     limiter.companion(Returns::default).0.load(Ordering::Relaxed)
/// }
///
/// fn example(limiter: &RateLimiter<impl SyncStore>) -> Result<(), StoreError> {
///     assert_eq!(returns(limiter), 0);
///     limiter.reset("alice").run()?;
///     assert_eq!(returns(&limiter.clone()), 1);
///     Ok(())
/// }
/// ```
pub trait Companion: Any + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Something was given back to `key` through the limiter: by a refund, a settlement, a reset, or
    /// the release of a lease.
    ///
    /// It is called before that call returns, so it must be quick.
    fn given_back(&self, key: Key<'_>);
}

/// The companions of a limiter, at most one of each type: a list that only grows.
#[derive(Default)]
pub(crate) struct Companions(OnceLock<Box<Entry>>);

struct Entry {
    companion: Box<dyn Companion>,
    others: Companions,
}

impl Companions {
    /// Returns the companion of this type; `make` makes it if there is none.
    pub(crate) fn of<T: Companion>(&self, make: impl Fn() -> T) -> &T {
        let mut at = self;
        loop {
            // Another thread may be first, with one of another type.
            let entry = at.0.get_or_init(|| {
                Box::new(Entry {
                    companion: Box::new(make()),
                    others: Self::default(),
                })
            });
            let companion: &dyn Any = &*entry.companion;
            if let Some(companion) = companion.downcast_ref() {
                return companion;
            }
            at = &entry.others;
        }
    }

    /// Tells all of them that something was given back to `key`.
    pub(crate) fn given_back(&self, key: Key<'_>) {
        let mut at = self;
        while let Some(entry) = at.0.get() {
            entry.companion.given_back(key);
            at = &entry.others;
        }
    }
}
