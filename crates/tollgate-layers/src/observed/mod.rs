//! `Observed`: counts and times what a store decides.

#[cfg(feature = "metrics")]
pub(crate) mod metered;

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
#[cfg(feature = "metrics")]
use std::time::Duration;

use async_trait::async_trait;
use siphasher::sip::SipHasher13;
use tollgate_core::store::{
    Begun, BoxFuture, Check, Checks, Limits, Operation, Request, Source, Verdict, Verdicts,
};
use tollgate_core::{Clock, Decision, ErrorKind, Key, Store, StoreError, SyncStore};

use crate::forward::{decide_by_begin, forward};

/// Wraps a store, and tells how it decides: numbers through the facade
/// [`metrics`](https://docs.rs/metrics), with the feature `metrics`, and events through
/// [`tracing`](https://docs.rs/tracing), with the feature `tracing`.
///
/// Put it around all other layers, so that it sees what callers see.
///
/// | metric | labels | what |
/// |---|---|---|
/// | `tollgate_decisions_total` | `limit`, `outcome`, `source` | calls that consume, for each of their limits |
/// | `tollgate_units_total` | `limit`, `outcome` | their costs: what was consumed, or what was denied |
/// | `tollgate_decision_duration_seconds` | `source` | how long callers waited for a store that has to be waited for; zero if a layer answered at once |
/// | `tollgate_calls_in_flight` | | how many wait for one now |
/// | `tollgate_store_errors_total` | `kind` | calls that were not decided |
///
/// An outcome is `allowed`, `denied`, `denied_by_other` if another limit of the call denied it,
/// `shadow_denied` if a limit in [shadow](tollgate_core::Limit::shadow) would have, or `abandoned` if the caller went
/// away before it had the answer, so that its cost may have been consumed. A limit's counters are there
/// from its first call on. A source is `store`, `cache`, `prefetched`, `fallback` or `layer`. A key is never a label, since there may be any number of
/// keys; a limit's name is. A kind is the name of an [`ErrorKind`] in lower case, but
/// for `unknown_outcome`. Install the recorder before the first call: what is counted goes to the
/// one that is there then.
///
/// An event (level `DEBUG`, name `tollgate.denied`) tells of each denied call: `limit`, `cost`,
/// `retry_after_us`, `source`, and the [`key_hash`], by which `tollgate explain` finds a key's events.
/// Another (`WARN`, `tollgate.store_failed`) tells of each call that was not decided: `kind`, `error`.
///
/// # Examples
///
/// ```
/// use tollgate_layers::Observed;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// let limiter = RateLimiter::new(Observed::new(MemoryStore::new()), ["login=gcra:5/1m"])?;
/// assert!(limiter.check("alice").run().unwrap().is_allowed());
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
pub struct Observed<S> {
    seen: Seen<S>,
}

/// A store and what tells of it: also one that need not wait, if the store is.
struct Seen<S> {
    store: S,
    clock: Arc<dyn Clock>,
    #[cfg(feature = "metrics")]
    metered: metered::Metered,
}

impl<S> Observed<S> {
    /// Wraps `store`.
    pub fn new(store: S) -> Self {
        Self {
            seen: Seen {
                store,
                clock: crate::clock::running(),
                #[cfg(feature = "metrics")]
                metered: metered::Metered::default(),
            },
        }
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.seen.store
    }
}

/// Returns the hash by which events tell `key`, as 16 hex digits, for logs of your own: it is the same in all
/// processes and releases. It hides no key that can be guessed, such as an address.
///
/// # Examples
///
/// ```
/// use tollgate_layers::key_hash;
///
/// assert_eq!(format!("{:016x}", key_hash("alice")), "1504cb571759afdb");
/// ```
pub fn key_hash<'k>(key: impl Into<Key<'k>>) -> u64 {
    let key = key.into();
    let partition = key.partition();
    let mut hasher = SipHasher13::new();
    // So that partition and rest are told apart.
    hasher.write(
        &u64::try_from(partition.len())
            .unwrap_or(u64::MAX)
            .to_le_bytes(),
    );
    hasher.write(&partition);
    hasher.write(key.rest());
    hasher.finish()
}

/// How a call ended for one of its limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    DeniedByOther,
    ShadowDenied,
    Abandoned,
}

impl<S> Seen<S> {
    /// Tells what was decided.
    fn decided(&self, operation: Operation<'_>, checks: &[Check<'_>], verdicts: &Verdicts) {
        if !consumes(operation) {
            return;
        }
        let is_allowed = verdicts.is_allowed();
        for (check, verdict) in checks.iter().zip(verdicts.as_slice()) {
            self.one(check, is_allowed, verdict, verdicts.source());
        }
    }

    /// Tells what was decided for one limit of a call.
    #[inline]
    #[cfg_attr(
        not(any(feature = "metrics", feature = "tracing")),
        allow(unused_variables, reason = "nothing is told without a feature")
    )]
    fn one(&self, check: &Check<'_>, is_allowed: bool, verdict: &Verdict, source: Source) {
        let outcome = match (is_allowed, verdict.is_allowed()) {
            (_, false) if verdict.is_in_shadow() => Outcome::ShadowDenied,
            (true, _) => Outcome::Allowed,
            (false, false) => Outcome::Denied,
            (false, true) => Outcome::DeniedByOther,
        };
        let units = match outcome {
            Outcome::Allowed => verdict.consumed(),
            _ => check.cost(),
        };
        self.count(check, outcome, source, units);
        #[cfg(feature = "tracing")]
        if outcome == Outcome::Denied {
            tracing::debug!(
                name: "tollgate.denied",
                limit = check.limit().name(),
                cost = check.cost(),
                retry_after_us = verdict.retry_after().as_micros(),
                ?source,
                key_hash = format_args!("{:016x}", key_hash(check.key())),
                "a call was denied"
            );
        }
    }

    #[inline]
    #[cfg_attr(
        not(feature = "metrics"),
        expect(unused_variables, reason = "nothing is counted without the feature")
    )]
    fn count(&self, check: &Check<'_>, outcome: Outcome, source: Source, units: u64) {
        #[cfg(feature = "metrics")]
        self.metered
            .decided(check.limit().name(), outcome, source, units);
    }

    #[cold]
    fn failed(&self, error: &StoreError) {
        #[cfg(feature = "metrics")]
        self.metered.failed(error.kind());
        #[cfg(feature = "tracing")]
        tracing::warn!(
            name: "tollgate.store_failed",
            kind = %error.kind(),
            %error,
            "a call was not decided"
        );
        #[cfg(not(any(feature = "metrics", feature = "tracing")))]
        let _ = error;
    }

    /// Makes a call that may have to wait, and tells how long it took and whether it failed.
    async fn pass_on<T: Send>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send,
        source: impl FnOnce(&T) -> Source + Send,
    ) -> Result<T, StoreError>
    where
        S: Sync,
    {
        #[cfg(feature = "metrics")]
        let _in_flight = self.metered.in_flight();
        let sent_at = self.clock.now();
        let answer = call.await;
        let took = self.clock.now().saturating_duration_since(sent_at);
        match &answer {
            Ok(answer) => {
                #[cfg(feature = "metrics")]
                self.metered.took(source(answer), took);
                #[cfg(not(feature = "metrics"))]
                let _ = (source(answer), took);
            }
            Err(error) => self.failed(error),
        }
        answer
    }

    fn pass_on_now<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &answer {
            self.failed(error);
        }
        answer
    }
}

#[async_trait]
impl<S: Store> Store for Observed<S> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        self.seen.begin(request)
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.seen.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.seen.store.supports(request)
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        self.seen.as_sync()
    }
}

#[async_trait]
impl<S: Store> Store for Seen<S> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        let (begun, operation) = (self.store.begin(request), request.operation());
        match begun {
            Begun::Decided(ref verdicts) => {
                #[cfg(feature = "metrics")]
                self.metered.took(verdicts.source(), Duration::ZERO);
                self.decided(operation, request.checks(), verdicts);
                begun
            }
            Begun::Waits(call) => {
                let checks = request.checks().iter().copied().collect();
                Begun::Waits(Box::pin(self.wait(call, operation, checks)))
            }
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.pass_on(self.store.reset(checks), of_store).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        self.store.as_sync().map(|_| self as &dyn SyncStore)
    }
}

impl<S: Sync> Seen<S> {
    /// Waits for a decision.
    async fn wait<'a>(
        &'a self,
        call: BoxFuture<'a, Result<Verdicts, StoreError>>,
        operation: Operation<'a>,
        checks: Checks<'a>,
    ) -> Result<Verdicts, StoreError> {
        let waits = Waits {
            seen: self,
            checks: if consumes(operation) { &checks } else { &[] },
        };
        let answer = self.pass_on(call, Verdicts::source).await;
        waits.ends();
        let verdicts = answer?;
        self.decided(operation, &checks, &verdicts);
        Ok(verdicts)
    }
}

/// A call that consumes and has no answer yet.
struct Waits<'w, 'a, S> {
    seen: &'w Seen<S>,
    checks: &'w [Check<'a>],
}

impl<S> Waits<'_, '_, S> {
    fn ends(mut self) {
        self.checks = &[];
    }
}

impl<S> Drop for Waits<'_, '_, S> {
    fn drop(&mut self) {
        for check in self.checks {
            self.seen
                .count(check, Outcome::Abandoned, Source::Store, check.cost());
        }
    }
}

fn consumes(operation: Operation<'_>) -> bool {
    operation.decides_a_call() && !matches!(operation, Operation::Peek)
}

fn of_store<T>(_: &T) -> Source {
    Source::Store
}

/// The calls that need not wait, on `store`: the store itself, or what it returned as one that need
/// not wait.
impl<S> Seen<S> {
    fn decide_on(
        &self,
        store: &(impl SyncStore + ?Sized),
        request: &Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        let verdicts = self.pass_on_now(store.decide_now(request))?;
        self.decided(request.operation(), request.checks(), &verdicts);
        Ok(verdicts)
    }

    #[inline]
    fn consume_on<'l>(
        &self,
        store: &(impl SyncStore + ?Sized),
        limits: &'l Limits,
        key: Key<'_>,
        cost: u64,
    ) -> Result<Decision<'l>, StoreError> {
        let decision = self.pass_on_now(store.consume_now(limits, key, cost))?;
        for (limit, verdict) in decision.verdicts() {
            let check = Check::new(limit, key, cost);
            self.one(&check, decision.is_allowed(), &verdict, decision.source());
        }
        Ok(decision)
    }
}

impl<S: Store> Seen<S> {
    fn waitless(&self) -> Result<&dyn SyncStore, StoreError> {
        self.store.as_sync().ok_or_else(|| {
            StoreError::new(
                ErrorKind::Unsupported,
                "the store has to be waited for: await the call",
            )
        })
    }
}

macro_rules! sync_store {
    ($type:ident<S: $bound:ident>, $self:ident => $seen:expr, $store:expr) => {
        impl<S: $bound> SyncStore for $type<S> {
            fn decide_now(&$self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
                $seen.decide_on($store, request)
            }

            #[inline]
            fn consume_now<'l>(
                &$self,
                limits: &'l Limits,
                key: Key<'_>,
                cost: u64,
            ) -> Result<Decision<'l>, StoreError> {
                $seen.consume_on($store, limits, key, cost)
            }

            fn reset_now(&$self, checks: &[Check<'_>]) -> Result<(), StoreError> {
                $seen.pass_on_now($store.reset_now(checks))
            }
        }
    };
}

sync_store!(Observed<S: SyncStore>, self => self.seen, &self.seen.store);
sync_store!(Seen<S: Store>, self => self, self.waitless()?);

impl<S> Observed<S> {
    async fn pass_on<T: Send>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError>
    where
        S: Sync,
    {
        self.seen.pass_on(call, of_store).await
    }
}

forward!(Observed<S>, seen.store, by pass_on);

impl<S: fmt::Debug> fmt::Debug for Observed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed")
            .field("store", &self.seen.store)
            .finish_non_exhaustive()
    }
}
