//! `Fallback`: what decides when a store cannot.

use std::hash::{BuildHasher, RandomState};
#[cfg(feature = "metrics")]
use std::sync::OnceLock;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use tollgate_core::store::{
    Begun, BoxFuture, Checks, Fingerprint, Operation, Prefetch, Request, Source, Verdict, Verdicts,
};
use tollgate_core::{ErrorKind, Receipt, Store, StoreError, Timestamp};

use crate::forward::{decide_by_begin, forward};
#[cfg(feature = "metrics")]
use crate::observed::metered::{KINDS, label};

/// Wraps a store, and decides in its place when it fails: by allowing the call
/// ([`allow`](Self::allow)), or by another store ([`to`](Self::to)).
///
/// A decision's [`source`](tollgate_core::Decision::source) says whether it did. Denials and errors stay apart: a
/// store that denies has not failed.
///
/// Only calls that consume, and peeks, are decided so. A refund and a settlement are made by what counted the
/// call; all that changes a key, such as a block, a charge or a reset, needs the store itself. A request that
/// no store could decide ([`Malformed`](ErrorKind::Malformed), [`Unsupported`](ErrorKind::Unsupported)) stays an error:
/// whoever sends one must not get around the limits by it. So do errors that are
/// [excluded](Self::fail_on).
///
/// What the other store could never decide works while this one does, but is not
/// [supported](tollgate_core::call::Call::supported), so that a program can find it when it starts.
///
/// # How much is admitted
///
/// Of a limit of `N`, in a window in which the store fails for all processes alike, and comes back with
/// its states or without them:
///
/// | | with its states, at most | without |
/// |---|---|---|
/// | [`allow`](Self::allow) | everything | everything |
/// | to a [`Share`](crate::Share) of memory, one for each process | `N` by the store and `N` by all processes | `N` more |
/// | the same, with the store in a `Share` of 2 and each process in one of twice the number of processes | `N`, whoever reaches the store and whoever does not | half of `N` more |
///
/// A window in which the store does not change decides as the store or the processes alone do: `N`.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use tollgate_core::store::Source;
/// use tollgate_layers::{Fallback, Share};
/// use tollgate_mock::{ErrorKind, Fault, FaultyStore, RateLimiter};
/// use tollgate_memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = FaultyStore::new(MemoryStore::new(), [Fault::Fail(ErrorKind::Unavailable)]);
/// let processes = NonZeroU32::new(4).unwrap();
/// let store = Fallback::to(redis, Share::new(MemoryStore::new(), processes));
/// let limiter = RateLimiter::new(store, ["api=gcra:100/1s"])?;
/// let decision = limiter.check("alice").await?; // the store is down
/// assert_eq!((decision.source(), decision.remaining()), (Source::Fallback, 24));
/// assert_eq!(limiter.check("alice").await?.source(), Source::Store);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Fallback<S, L = AllowAll> {
    store: S,
    instead: L,
    fail_on: Vec<ErrorKind>,
    /// Tells the receipts of the one from those of the other.
    mark: u64,
    hidden: Hidden,
}

impl<S> Fallback<S> {
    /// Allows what `store` cannot decide (fails open). Such a decision has consumed nothing.
    pub fn allow(store: S) -> Self {
        Self::to(store, AllowAll)
    }
}

impl<S, L> Fallback<S, L> {
    /// Lets `instead` decide what `store` cannot.
    ///
    /// What `instead` counted does not flow back when `store` works again. A receipt is given back to
    /// the store that counted.
    pub fn to(store: S, instead: L) -> Self {
        Self {
            store,
            instead,
            fail_on: vec![ErrorKind::Malformed, ErrorKind::Unsupported],
            mark: RandomState::new().hash_one(0),
            hidden: Hidden::default(),
        }
    }

    /// Leaves errors of these kinds to the caller, who then denies the call or not.
    #[must_use]
    pub fn fail_on(mut self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        self.fail_on.extend(kinds);
        self
    }

    fn of_instead(&self, verdicts: Verdicts) -> Verdicts {
        verdicts.marked(self.mark).with_source(Source::Fallback)
    }
}

#[async_trait]
impl<S: Store, L: Store> Store for Fallback<S, L> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        if let Some(receipt) = request.receipt() {
            return Begun::Waits(Box::pin(self.take_back(receipt, request.clone())));
        }
        let begun = self.store.begin(request);
        if !request.operation().decides_a_call() {
            return begun;
        }
        match begun {
            Begun::Decided(ref verdicts) => {
                // What a cache decides does not show that the store works again.
                if verdicts.source() == Source::Store {
                    self.hidden.end();
                }
                begun
            }
            Begun::Waits(call) => Begun::Waits(Box::pin(self.wait(call, request.clone()))),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.instead.reset(checks.clone()).await?;
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)?;
        if request.receipt().is_none() && !request.operation().decides_a_call() {
            return Ok(());
        }
        let instead = request.clone().with_prefetch(Prefetch::NOTHING);
        self.instead.supports(&instead)
    }
}

impl<S: Store, L: Store> Fallback<S, L> {
    /// Returns the error of what no store could decide: that must not get around the limits while this one is down.
    fn is_sound(&self, request: &Request<'_>) -> Result<(), StoreError> {
        request.validate_checks()?;
        request.split_id()?;
        self.store.supports(request)
    }

    /// Has a receipt taken back by the store that it is from.
    async fn take_back(
        &self,
        receipt: &Receipt,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        self.is_sound(&request)?;
        let receipt = receipt.marked(self.mark);
        let instead = request.clone().with_receipt(&receipt);
        // A store refuses the receipts of another, and changes nothing.
        match self.instead.decide(instead).await {
            Ok(verdicts) => Ok(self.of_instead(verdicts)),
            Err(_) => self.store.decide(request).await,
        }
    }

    /// Waits for the store, and decides in its place if it fails.
    async fn wait(
        &self,
        call: BoxFuture<'_, Result<Verdicts, StoreError>>,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        self.hidden.describe();
        let error = match call.await {
            Ok(verdicts) => {
                self.hidden.end();
                return Ok(verdicts);
            }
            Err(error) => error,
        };
        self.is_sound(&request)?;
        if self.fail_on.contains(&error.kind()) {
            return Err(error);
        }
        // What is used ahead would have to be asked for again soon: the store may be back then.
        let now = request.with_prefetch(Prefetch::NOTHING);
        match self.instead.decide(now).await {
            Ok(verdicts) => {
                self.hidden.count(error.kind());
                self.hidden.log(&error, None);
                Ok(self.of_instead(verdicts))
            }
            Err(why) => {
                self.hidden.log(&error, Some(&why));
                Err(error)
            }
        }
    }
}

forward!(Fallback<S, L>, store);

/// The errors that callers do not see.
#[derive(Debug, Default)]
struct Hidden {
    /// Which kinds have been logged since the store decided last.
    #[cfg(feature = "tracing")]
    logged: AtomicU8,
    #[cfg(feature = "metrics")]
    is_described: OnceLock<()>,
}

#[cfg(feature = "tracing")]
impl Hidden {
    fn log(&self, error: &StoreError, instead: Option<&StoreError>) {
        let bit = match error.kind() {
            _ if instead.is_some() => 16,
            ErrorKind::Misconfigured => 1,
            ErrorKind::Full => 2,
            ErrorKind::Protocol => 4,
            // The server is down, in one way or another.
            _ => 8,
        };
        if self.logged.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        match instead {
            None => {
                tracing::warn!(name: "tollgate.fallback", "the fallback decides, since the store cannot: {error}");
            }
            Some(why) => {
                tracing::warn!(name: "tollgate.fallback", %error, "neither the store nor the fallback decides a call: {why}");
            }
        }
    }

    fn end(&self) {
        if self.logged.load(Ordering::Relaxed) != 0 {
            self.logged.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(not(feature = "tracing"))]
impl Hidden {
    fn log(&self, _: &StoreError, _: Option<&StoreError>) {}

    fn end(&self) {}
}

#[cfg(feature = "metrics")]
impl Hidden {
    const NAME: &str = "tollgate_fallbacks_total";

    /// Makes the counters before the first failure, since a rate needs their zero.
    fn describe(&self) {
        self.is_described.get_or_init(|| {
            metrics::describe_counter!(
                Self::NAME,
                "Calls that the fallback decided, by the store's error"
            );
            for kind in KINDS {
                metrics::counter!(Self::NAME, "kind" => label(kind)).increment(0);
            }
        });
    }

    fn count(&self, kind: ErrorKind) {
        metrics::counter!(Self::NAME, "kind" => label(kind)).increment(1);
    }
}

#[cfg(not(feature = "metrics"))]
impl Hidden {
    fn describe(&self) {}

    fn count(&self, _: ErrorKind) {}
}

/// A store that allows everything and counts nothing.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it is named to be used")]
pub struct AllowAll;

/// The fingerprint of all that is allowed so.
const COUNTED_NOTHING: Fingerprint = Fingerprint::new(0);

#[async_trait]
impl Store for AllowAll {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let is_take = matches!(request.operation(), Operation::TakeUpTo);
        let receipt = request.receipt();
        if receipt.is_some_and(|receipt| receipt.fingerprint() != COUNTED_NOTHING) {
            return Err(StoreError::new(
                ErrorKind::Malformed,
                "the receipt is another store's",
            ));
        }
        let verdicts = request.checks().iter().map(|check| {
            let capacity = check.limit().algorithm().capacity();
            // What was taken is what the caller asks for; of another call, nothing was consumed.
            let taken = if is_take { check.cost() } else { 0 };
            Verdict::allow(capacity, 0)
                .with_consumed(taken, Timestamp::UNIX_EPOCH)
                .in_shadow(check.limit().is_shadow())
        });
        Ok(Verdicts::new(COUNTED_NOTHING, verdicts))
    }

    async fn reset<'a>(&'a self, _: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _: &Request<'a>) -> Result<(), StoreError> {
        Ok(())
    }
}
