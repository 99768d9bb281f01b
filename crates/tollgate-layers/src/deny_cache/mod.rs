//! `DenyCache`: refuses here what the store is known to refuse.

mod known;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use foldhash::quality::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use smallvec::SmallVec;
use tollgate_core::store::{
    Begun, Check, Checks, Fingerprint, Operation, Request, Source, Verdict, Verdicts,
};
use tollgate_core::{Clock, Store, StoreError, Wait};

use known::{Known, OwnedState, State};

use crate::clock;
use crate::forward::{decide_by_begin, forward};
use crate::key::is_long;
use crate::sync::{AtomicU64, Ordering, may_take_over};

/// How many groups of keys tell of changes apart.
const GROUPS: usize = 64;
const DEFAULT_KEYS: usize = 100_000;
const DEFAULT_AGE: Duration = Duration::from_secs(1);

/// Wraps a store, and remembers what it denied: until the earliest instant at which the store could
/// allow it, the same limit denies the same key here, at that cost, alone or together with other limits;
/// and at more, where the wait is known to be the same, as that of a fixed window is.
///
/// So a client that keeps calling costs the store one call per
/// [`retry_after`](tollgate_core::Decision::retry_after), and those of callers who call at the same
/// time as that one: if the builder of a store on a server says `batches(true)`, these are some
/// sixteen requests, however many callers there are. The answer is exact: a limit that lacks the
/// units now cannot have them before, unless something is given back, or a limit of the same name and
/// algorithm with another window counts the same key: the two share a state, and each forgets what is
/// older than its own window. What this value itself gives back (a refund, a settlement, a reset, a
/// block that ends) is known at once; what other processes do is known within
/// [`max_age`](Self::max_age). A limit with another amount is another limit.
///
/// A decision's [`source`](tollgate_core::Decision::source) says whether it came from here, and its
/// [`age`](tollgate_core::Decision::age) how long ago the store was asked. Of the call's limits that are
/// not known to deny it, nothing is known: their `remaining` is 0.
///
/// Asked every time: calls with an [id](tollgate_core::CallId), calls at a caller's instant, limits
/// that count denied calls, keys of more than 256 bytes, and everything but a
/// [`check`](tollgate_core::RateLimiter::check).
///
/// # Examples
///
/// ```
/// use tollgate_core::store::Source;
/// use tollgate_layers::DenyCache;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let limiter = RateLimiter::new(DenyCache::new(redis), ["login=sliding-log:1/1h"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// assert_eq!(limiter.check("alice").await?.source(), Source::Store); // denied
/// let denied = limiter.check("alice").await?;
/// assert!(denied.source() == Source::Cache);
/// assert!(denied.is_denied());
/// # Ok(())
/// # }
/// ```
pub struct DenyCache<S> {
    store: S,
    known: Cache<OwnedState, Known, UnitWeighter, RandomState>,
    hasher: RandomState,
    /// Counts what may have given something back, for each group of keys.
    changes: [AtomicU64; GROUPS],
    max_age: Duration,
    clock: Arc<dyn Clock>,
}

impl<S: Store> DenyCache<S> {
    /// Wraps `store`, and remembers up to 100,000 limits of keys.
    pub fn new(store: S) -> Self {
        Self::with_capacity(store, DEFAULT_KEYS)
    }

    /// Wraps `store`, and remembers as many limits of keys as `capacity`, each in some 300 bytes.
    pub fn with_capacity(store: S, capacity: usize) -> Self {
        let hasher = RandomState::default();
        Self {
            store,
            known: Cache::with(
                capacity,
                u64::try_from(capacity).unwrap_or(u64::MAX),
                UnitWeighter,
                hasher.clone(),
                DefaultLifecycle::default(),
            ),
            hasher,
            changes: [(); GROUPS].map(|()| AtomicU64::new(0)),
            max_age: DEFAULT_AGE,
            clock: clock::through_suspension(),
        }
    }
}

impl<S> DenyCache<S> {
    /// Sets how long a denial is remembered at most; the default is one second.
    ///
    /// It bounds how long a key is refused after another process has given something back for it, or
    /// the server has lost its states. Choose more if neither happens.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.max_age = max_age;
        self
    }

    /// Sets the clock by which denials end, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the denial of a request that the store is known to deny.
    // Inlined, so that it is written where it is wanted: verdicts take long to copy.
    #[inline(always)]
    fn remembered(&self, request: &Request<'_>) -> Option<Verdicts>
    where
        S: Store,
    {
        if !can_remember(request) {
            return None;
        }
        let (checks, now) = (request.checks(), self.clock.now());
        let (mut age, mut is_known, mut was_asked) = (None, true, checks.len() == 1);
        let mut verdict = |check: &Check<'_>| {
            let capacity = check.limit().algorithm().capacity();
            let is_shadow = check.limit().is_shadow();
            let known = self.known.get(&State::of(check));
            let known = known.as_ref();
            let known = known.filter(|known| known.is_about(check.limit()));
            let known = known.filter(|known| known.denies(check.cost(), now));
            let denial = known.map(|known| {
                // A limit in shadow denies no call, but tells that it would.
                age = age.max((!is_shadow).then_some(known.age(now)));
                was_asked &= known.is_of(check.cost());
                known.denial(check.cost(), now)
            });
            // What is denied for longer than is known is asked.
            is_known &= denial != Some(None);
            let verdict = denial.flatten();
            let verdict = verdict.unwrap_or_else(|| match check.cost() > capacity {
                true => Verdict::deny(capacity, 0, Wait::NEVER),
                false => Verdict::allow(capacity, 0),
            });
            verdict.in_shadow(is_shadow)
        };
        // Nothing was consumed, so there is no receipt that needs a fingerprint.
        let nothing = Fingerprint::new(0);
        let verdicts = match checks {
            [only] => Verdicts::of_one(nothing, verdict(only)),
            several => Verdicts::new(nothing, several.iter().map(verdict)),
        };
        let age = age.filter(|_| is_known)?;
        // Its parts may be known from requests that the store could decide.
        if !was_asked && self.store.supports(request).is_err() {
            return None;
        }
        Some(verdicts.with_source(Source::Cache).with_age(age))
    }

    /// Asks the store, and remembers what it denies.
    async fn ask(&self, request: Request<'_>) -> Result<Verdicts, StoreError>
    where
        S: Store,
    {
        // Whatever decides no call may give something back.
        let gives_back = !request.operation().decides_a_call();
        let _changing =
            gives_back.then(|| self.changing(request.checks().iter().copied().collect()));
        if !can_remember(&request) {
            let verdicts = self.store.decide(request.clone()).await?;
            self.forget_consumed(&request, &verdicts);
            return Ok(verdicts);
        }
        let asked_at = self.clock.now();
        let mut changes = SmallVec::<[u64; 4]>::new();
        for check in request.checks() {
            changes.push(self.group(&State::of(check)).load(Ordering::SeqCst));
        }
        let verdicts = self.store.decide(request.clone()).await?;
        self.forget_consumed(&request, &verdicts);
        if verdicts.is_denied() && verdicts.source() == Source::Store {
            let answers = verdicts.as_slice().iter().zip(changes);
            for (check, (verdict, changes)) in request.checks().iter().zip(answers) {
                let state = State::of(check);
                let group = self.group(&state);
                // What remained of a limit that allows the call is soon another number.
                if verdict.is_allowed() || group.load(Ordering::SeqCst) != changes {
                    continue;
                }
                let known = Known::new(check, *verdict, asked_at, self.max_age);
                may_take_over();
                self.known.insert(state.to_owned(), known);
                // What was given back meanwhile may not be in the answer.
                if group.load(Ordering::SeqCst) != changes {
                    let _ = self.known.remove(&state);
                }
            }
        }
        Ok(verdicts)
    }

    /// Forgets what is known of limits that a call has consumed from: whoever was denied at a higher cost
    /// may have to wait longer now.
    fn forget_consumed(&self, request: &Request<'_>, verdicts: &Verdicts) {
        for (check, said) in request.checks().iter().zip(verdicts.as_slice()) {
            if said.consumed() > 0 {
                let _ = self.known.remove(&State::of(check));
            }
        }
    }

    fn group(&self, state: &State<'_>) -> &AtomicU64 {
        let hash = self.hasher.hash_one(state);
        &self.changes[usize::try_from(hash).unwrap_or(0) % GROUPS]
    }

    /// Forgets what is known of these checks once something may have been given back to them: when
    /// the returned value is dropped.
    fn changing<'c, 'a>(&'c self, checks: Checks<'a>) -> Changing<'c, 'a, S> {
        Changing {
            cache: self,
            checks,
        }
    }
}

/// Returns whether a denial of this request says anything about the next one.
fn can_remember(request: &Request<'_>) -> bool {
    let counts_denied = |check: &Check<'_>| check.limit().algorithm().counts_denied();
    matches!(
        request.operation(),
        Operation::Consume | Operation::Prefetch(_)
    ) && request.caller_time().is_none()
        && !request.has_id()
        && request.validate_checks().is_ok()
        && !request
            .checks()
            .iter()
            .any(|check| counts_denied(check) || is_long(check.key()))
}

/// A call that may give something back to these checks, also if its caller goes away.
struct Changing<'c, 'a, S> {
    cache: &'c DenyCache<S>,
    checks: Checks<'a>,
}

impl<S> Drop for Changing<'_, '_, S> {
    fn drop(&mut self) {
        for check in &*self.checks {
            let state = State::of(check);
            let _ = self.cache.group(&state).fetch_add(1, Ordering::SeqCst);
            may_take_over();
            let _ = self.cache.known.remove(&state);
        }
    }
}

#[async_trait]
impl<S: Store> Store for DenyCache<S> {
    decide_by_begin!();

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        match self.remembered(request) {
            Some(verdicts) => Begun::Decided(verdicts),
            None => Begun::Waits(Box::pin(self.ask(request.clone()))),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        let _changing = self.changing(checks.clone());
        self.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

forward!(DenyCache<S>, store);

impl<S: fmt::Debug> fmt::Debug for DenyCache<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache")
            .field("store", &self.store)
            .field("known", &self.known.len())
            .field("max_age", &self.max_age)
            .finish_non_exhaustive()
    }
}
