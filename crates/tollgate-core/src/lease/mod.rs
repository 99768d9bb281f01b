//! Leases: a limited number at once.

mod answer;
mod call;
mod request;
mod state;
mod store;
pub(crate) mod terms;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::companion::{Companion, Companions};
use crate::error::LimitError;
use crate::key::Key;

pub use answer::{Acquisition, Answer, Lease, NoLease, Occupancy};
pub use call::FromAnswer;
pub use call::{Call, Reset};
pub use request::{LONGEST_ID, Operation, Request};
pub use state::State;
pub use store::{Store, SyncStore};
pub use terms::{MAX_LEASES, Terms};

/// Limits how much may be held at once for a key, by leases: concurrent uploads of a user, or
/// connections to a database that a fleet shares.
///
/// A lease ends when its holder releases it, or by itself if it was not renewed for its time to
/// live, so a holder that dies keeps its place only that long. At no instant of the store's clock
/// is more held than the amount.
///
/// The holder chooses the lease's id, unique for the key: a random one for each attempt. If a reply
/// is lost, acquiring again with the same id returns the same lease. With the crate
/// `tollgate-tokio`, a guard renews the lease in the background, releases it when it is dropped,
/// and tells when it is lost.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::lease::{self, ConcurrencyLimiter};
/// use tollgate_core::StoreError;
///
/// # async fn upload(store: impl lease::Store) -> Result<(), StoreError> {
/// let uploads = ConcurrencyLimiter::new(store, "uploads", 3, Duration::from_secs(30)).unwrap();
/// match uploads.acquire("alice", "request-4711").await?.permit() {
///     Ok(lease) => {
///         // Upload for at most `lease.valid_for()`, or renew the lease before that.
///         uploads.release("alice", &lease).await?;
///     }
///     Err(denied) => println!("{denied}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones are cheap and share the store.
pub struct ConcurrencyLimiter<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    terms: Terms,
    store: S,
    companions: Companions,
}

impl<S> ConcurrencyLimiter<S> {
    /// Returns a limiter called `name` of at most `amount` at once, in leases that end `ttl` after
    /// they were acquired or last renewed.
    ///
    /// # Errors
    ///
    /// The same as [`Terms::new`].
    pub fn new(store: S, name: &str, amount: u64, ttl: Duration) -> Result<Self, LimitError> {
        let terms = Terms::new(name, amount, ttl)?;
        Ok(Self {
            shared: Arc::new(Shared {
                terms,
                store,
                companions: Companions::default(),
            }),
        })
    }

    /// Returns the name, the amount and the time to live.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.shared.terms
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Returns what another crate keeps for this limiter and all of its clones: what `make` returned
    /// when it was first asked for this type.
    ///
    /// See [`Companion`].
    pub fn companion<T: Companion>(&self, make: impl Fn() -> T) -> &T {
        self.shared.companions.of(make)
    }

    /// Tells the companions that a lease of `key` was released or reset.
    fn given_back(&self, key: Key<'_>) {
        self.shared.companions.given_back(key);
    }

    /// Acquires a lease of weight 1, or of [`Call::weight`], if there is room.
    ///
    /// If a lease with this id is held already, this returns that lease, whatever its weight, and
    /// does not renew it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::lease::{self, ConcurrencyLimiter};
    /// # use tollgate_core::StoreError;
    /// # async fn take(limiter: &ConcurrencyLimiter<impl lease::Store>) -> Result<(), StoreError> {
    /// let acquisition = limiter.acquire("alice", "request-4711").weight(2).await?;
    /// if let Err(denied) = acquisition.permit() {
    ///     println!("{} of {} are held", denied.held(), denied.amount());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn acquire<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        id: &'k (impl AsRef<[u8]> + ?Sized),
    ) -> Call<'l, 'k, S, Acquisition>
    where
        'l: 'k,
    {
        let id = id.as_ref();
        self.call(key.into(), Operation::Acquire { id, weight: 1 })
    }

    /// Makes `lease` last for another time to live from now, and returns it with its new end, or
    /// `None` if it was no longer held.
    pub fn renew<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        lease: &'k Lease,
    ) -> Call<'l, 'k, S, Option<Lease>>
    where
        'l: 'k,
    {
        let (id, token) = (lease.id(), lease.token());
        self.call(key.into(), Operation::Renew { id, token })
            .of_lease(lease)
    }

    /// Ends `lease`, and returns whether it was still held. A second release does nothing.
    pub fn release<'l, 'k>(
        &'l self,
        key: impl Into<Key<'k>>,
        lease: &'k Lease,
    ) -> Call<'l, 'k, S, bool>
    where
        'l: 'k,
    {
        let (id, token) = (lease.id(), lease.token());
        self.call(key.into(), Operation::Release { id, token })
            .of_lease(lease)
    }

    /// Returns how much is held, and changes nothing.
    pub fn peek<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Call<'l, 'k, S, Occupancy>
    where
        'l: 'k,
    {
        self.call(key.into(), Operation::Peek)
    }

    /// Ends all leases of `key`. Their holders learn it when they renew or release them.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::lease::{self, ConcurrencyLimiter};
    /// # use tollgate_core::StoreError;
    /// # fn end(uploads: &ConcurrencyLimiter<impl lease::SyncStore>) -> Result<(), StoreError> {
    /// uploads.reset("alice").run()?;
    /// assert_eq!(uploads.peek("alice").run()?.held(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset<'l, 'k>(&'l self, key: impl Into<Key<'k>>) -> Reset<'l, 'k, S> {
        Reset::new(self, key.into())
    }

    fn call<'l, 'k, A>(&'l self, key: Key<'k>, operation: Operation<'k>) -> Call<'l, 'k, S, A>
    where
        'l: 'k,
    {
        Call::new(self, Request::new(self.terms(), key, operation))
    }
}

impl<S> Clone for ConcurrencyLimiter<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Shows the terms; a store, such as a `dyn Store`, need not implement `Debug`.
impl<S> fmt::Debug for ConcurrencyLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrencyLimiter")
            .field("terms", self.terms())
            .finish_non_exhaustive()
    }
}
