//! `FaultyStore`: a wrapper that fails, delays or loses replies on schedule.

use std::fmt;
use std::iter::Fuse;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Begun, Check, Checks, Limits, Request, Verdicts};
use tollgate_core::{Decision, ErrorKind, Key, Store, StoreError, SyncStore, lease, schedule};

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The store decides the call, and the reply arrives this much later.
    ///
    /// An asynchronous call waits in Tokio, and panics outside a Tokio runtime with the time driver
    /// enabled; [`SyncStore`] blocks the thread.
    Delay(Duration),
    /// The call fails before it reaches the store: nothing is consumed.
    Fail(ErrorKind),
    /// The store decides the call and the reply is lost: the caller gets [`ErrorKind::Unknown`].
    LoseReply,
    /// Nothing goes wrong.
    None,
}

/// Wraps a store whose calls fail, or whose replies are late or lost, on schedule.
///
/// The schedule has one [`Fault`] per call to decide or reset, in the order of the calls; once it
/// runs out, nothing goes wrong any more. A request that is not [valid](Request::validate) or not
/// [supported](Store::supports) uses up no fault: the store refuses it at once, so there is nothing
/// to delay or lose. A refund with a receipt for another key or limit does use one up, because only
/// the store can detect it.
///
/// Calls to a [`Schedule`](tollgate_core::schedule::Schedule) use up faults, too. A search of a calendar's
/// days may ask the store several times, and each time is a call. So do calls to a
/// [`ConcurrencyLimiter`](tollgate_core::lease::ConcurrencyLimiter).
///
/// # Examples
///
/// ```
/// use tollgate_mock::{ErrorKind, Fault, FaultyStore, FixedWindow, Limit, Quota, RateLimiter};
/// use tollgate_memory::MemoryStore;
///
/// let schedule = [Fault::Fail(ErrorKind::Unavailable), Fault::LoseReply];
/// let store = FaultyStore::new(MemoryStore::new(), schedule);
/// let limit = Limit::new("login", FixedWindow::aligned(Quota::per_day(2)))?;
/// let limiter = RateLimiter::new(store, [limit])?;
/// let kind = |limiter: &RateLimiter<_>| limiter.check("alice").run().unwrap_err().kind();
/// assert_eq!(kind(&limiter), ErrorKind::Unavailable);
/// assert_eq!(kind(&limiter), ErrorKind::Unknown);
/// // The call whose reply was lost did count; the one that failed did not.
/// assert_eq!(limiter.check("alice").run().unwrap().remaining(), 0);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub struct FaultyStore<S> {
    store: S,
    schedule: Mutex<Fuse<Box<dyn Iterator<Item = Fault> + Send>>>,
}

impl<S> FaultyStore<S> {
    /// Wraps `store` with the faults of `schedule`, which may be endless.
    pub fn new<I>(store: S, schedule: I) -> Self
    where
        I: IntoIterator<Item = Fault>,
        I::IntoIter: Send + 'static,
    {
        let schedule: Box<dyn Iterator<Item = Fault> + Send> = Box::new(schedule.into_iter());
        Self {
            store,
            schedule: Mutex::new(schedule.fuse()),
        }
    }

    /// Returns the wrapped store, for calls without faults.
    pub fn inner(&self) -> &S {
        &self.store
    }

    /// Takes the next fault, if the store decides the call: one that it refuses has none.
    ///
    /// # Errors
    ///
    /// If the call must not reach the store.
    fn next_fault(&self, is_decided: bool) -> Result<Fault, StoreError> {
        if !is_decided {
            return Ok(Fault::None);
        }
        // If the iterator panicked earlier, we still call it; what it returns then is up to it.
        let mut schedule = self.schedule.lock().unwrap_or_else(PoisonError::into_inner);
        match schedule.next().unwrap_or(Fault::None) {
            Fault::Fail(kind) => {
                let message = format!("scheduled to fail: {kind:?}");
                Err(StoreError::new(kind, message))
            }
            fault => Ok(fault),
        }
    }

    fn pass_on_now<T>(
        &self,
        is_decided: bool,
        call: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.next_fault(is_decided)?;
        let answer = call();
        if let Fault::Delay(delay) = fault {
            thread::sleep(delay);
        }
        fault.after(answer)
    }
}

impl<S: Sync> FaultyStore<S> {
    /// Makes a call with the next fault. If the fault is `Fail`, the call is never polled.
    async fn pass_on<T: Send>(
        &self,
        is_decided: bool,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let fault = self.next_fault(is_decided)?;
        let answer = call.await;
        if let Fault::Delay(delay) = fault {
            tokio::time::sleep(delay).await;
        }
        fault.after(answer)
    }
}

impl<S: Store> FaultyStore<S> {
    /// Returns whether the store decides `request`, and does not refuse it at once.
    fn accepts(&self, request: &Request<'_>) -> bool {
        request.validate_checks().is_ok() && self.store.supports(request).is_ok()
    }
}

impl Fault {
    /// Passes an answer on, or loses it.
    fn after<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        match (self, answer) {
            // The store did not decide this call, so there is no reply to lose.
            (_, Err(error))
                if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported) =>
            {
                Err(error)
            }
            (Self::LoseReply, _) => Err(StoreError::new(
                ErrorKind::Unknown,
                "scheduled to lose the reply: the call was carried out, as far as it could be",
            )),
            (_, answer) => answer,
        }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Store> Store for FaultyStore<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let is_decided = self.accepts(&request);
        // A layer inside may decide before its future is polled.
        let call = async { self.store.decide(request).await };
        self.pass_on(is_decided, call).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.pass_on(true, self.store.reset(checks)).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }

    // Each call has its fault.
    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        Begun::Waits(self.decide(request.clone()))
    }

    // Awaited calls may have to wait for a delay.
    fn as_sync(&self) -> Option<&dyn SyncStore> {
        None
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: SyncStore> SyncStore for FaultyStore<S> {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let is_decided = self.accepts(request);
        self.pass_on_now(is_decided, || self.store.decide_now(request))
    }

    fn consume_now<'l>(
        &self,
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let request = Request::consume_all(limits, key, cost);
        Decision::new(limits, self.decide_now(&request)?)
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        self.pass_on_now(true, || self.store.reset_now(checks))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: schedule::Store> schedule::Store for FaultyStore<S> {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        let is_valid = request.validate().is_ok();
        let call = self.store.schedule(request);
        self.pass_on(is_valid, call).await
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.pass_on(true, self.store.reset_schedule(terms, key))
            .await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: schedule::SyncStore> schedule::SyncStore for FaultyStore<S> {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        let is_valid = request.validate().is_ok();
        self.pass_on_now(is_valid, || self.store.schedule_now(request))
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.pass_on_now(true, || self.store.reset_schedule_now(terms, key))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: lease::Store> lease::Store for FaultyStore<S> {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        let is_valid = request.validate().is_ok();
        self.pass_on(is_valid, self.store.lease(request)).await
    }

    async fn reset_leases<'a>(
        &'a self,
        terms: &'a lease::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.pass_on(true, self.store.reset_leases(terms, key))
            .await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: lease::SyncStore> lease::SyncStore for FaultyStore<S> {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        let is_valid = request.validate().is_ok();
        self.pass_on_now(is_valid, || self.store.lease_now(request))
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.pass_on_now(true, || self.store.reset_leases_now(terms, key))
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultyStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
