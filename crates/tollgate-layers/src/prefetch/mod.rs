//! `Prefetch`: admits calls by units that were asked for ahead.

mod changes;
mod hot;
#[cfg(all(test, feature = "__shuttle"))]
mod shuttle;
mod sweeper;
mod table;

use std::fmt;
use std::panic::catch_unwind;
#[cfg(feature = "metrics")]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_core::store::{
    BoxFuture, Check, Checks, Operation, Prefetch as Ahead, Request, Verdicts,
};
use tollgate_core::{Clock, ErrorKind, Store, StoreError, Timestamp};

use changes::Places;
use hot::{Asking, Grant, Hot, Moment, Take, Unused};
use sweeper::Sweepers;
use table::Table;

use crate::{LONGEST_KEY, clock};

/// One of how many parts of what is left is asked for at most.
const PARTS: u32 = 4;
/// Calls with more limits are not prefetched.
const MOST_CHECKS: usize = 8;
/// How many give-backs are on the way at a time.
const AT_ONCE: usize = 32;
/// How long the store may take to take back what is given back at a time.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the task that gives back pauses, at least.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// By how much this process's clock may be slow, in 1/1,000,000: the units end for it that much earlier.
const DRIFT_PPM: u32 = 500;

/// Wraps a store, and admits most calls of busy keys without asking it: the store counts units ahead, of
/// all limits of the call together, and this process uses them within a short time.
///
/// The bound of each limit holds exactly, also beside processes that do not prefetch, whenever the units
/// are used, but for three events that are stated below: see [`Operation::Prefetch`]. Each process asks for
/// what it has used lately, and for at most a quarter of what is left, so that the last units are asked for
/// one by one, and no process hoards them. Units that are not used are given back when their time is over.
///
/// A key is prefetched while it is called more than a few times within that time; others cost one lookup
/// more. One call of a key asks for units; those that come meanwhile wait for it, but no longer than twice
/// as long as the last answer took, and then have the store decide them. What the store denies is admitted by
/// units that have come into hand meanwhile. A call that costs more than what is in hand is the store's, as is
/// each call with an [id](tollgate_core::CallId), at a caller's instant, with keys of more than 256 bytes, with
/// more than eight limits or one that counts denied calls, or with different costs for them.
///
/// A decision's [`source`](tollgate_core::Decision::source) says whether it came from here, and its
/// [`age`](tollgate_core::Decision::age) how long ago the store was asked. It says as
/// [`remaining`](tollgate_core::Decision::remaining) what this process has in hand: at least that much is
/// left.
///
/// What it costs: GCRA has less of its burst by what leaks within that time; a sliding log at
/// most a twentieth of its quota, since its units are used within a twentieth of its window; a block, a
/// reset, a lowered or another limit takes effect in other processes within that time. A step forward of the
/// store's clock, and states that the store loses or another process resets, let through at most the units in
/// hand at that moment, once; a raised rate of GCRA, what it is raised by within that time. A process that
/// ends by itself calls [`give_back`](Self::give_back) before; what one that is killed had in hand is lost.
///
/// It needs a runtime of Tokio with timers. The one on which a call asks for units runs the task that gives
/// back, for calls on all runtimes; if it ends, or is not driven for some time, the next one that asks does.
/// Without a runtime, no call asks for units; and from the first call on that runs on one without timers,
/// which Tokio tells by a panic that is caught, none does; with `panic = "abort"` it ends the process. After
/// a `fork`, both processes would use the same units: make a new value.
///
/// Nothing is asked for ahead while that is not worth it: if an answer takes more than a quarter of the time
/// that the units last, or if there was none.
///
/// Up to 4,096 keys are prefetched at a time, each in 1.3 kB, or in up to 6 kB with eight limits and long keys;
/// calls of further keys ask the store.
///
/// With the feature `metrics`, it counts `tollgate_prefetched_units_total`, by the label `outcome`:
/// `granted`, `used`, `given_back`, and `lost`, which could not be given back, belonged to a key that was
/// reset, or were in hand when this value was dropped.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::store::Source;
/// use tollgate_layers::Prefetch;
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let store = Prefetch::new(redis, Duration::from_millis(200));
/// let limiter = RateLimiter::new(store, ["api=gcra:10000/1s"])?;
/// let mut asked = 0;
/// for _ in 0..1_000 {
///     let decision = limiter.check("alice").await?;
///     assert!(decision.is_allowed());
///     asked += usize::from(decision.source() == Source::Store);
/// }
/// assert!(asked < 100, "{asked}");
/// # Ok(())
/// # }
/// ```
pub struct Prefetch<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    store: S,
    within: Duration,
    table: Table,
    clock: Arc<dyn Clock>,
    /// Whether the system's time is looked at, too, which goes on while the machine is suspended.
    sees_suspension: bool,
    /// The task that gives back what is not used.
    sweepers: Sweepers,
    lacks_timers: AtomicBool,
    units: Units,
}

impl<S: Store + 'static> Prefetch<S> {
    /// Wraps `store`, and uses units `within` this time after it asked for them, at most an hour; 200 ms is
    /// a good choice. Zero asks for none.
    #[must_use]
    pub fn new(store: S, within: Duration) -> Self {
        Self::of(store, within, clock::running(), true)
    }

    /// Wraps `store` with another clock, for tests.
    #[must_use]
    pub fn with_clock(store: S, within: Duration, clock: impl Clock) -> Self {
        Self::of(store, within, Arc::new(clock), false)
    }

    fn of(store: S, within: Duration, clock: Arc<dyn Clock>, sees_suspension: bool) -> Self {
        let within = Ahead::new(1, within).within();
        Self {
            shared: Arc::new(Shared {
                store,
                within,
                table: Table::new(within),
                clock,
                sees_suspension,
                sweepers: Sweepers::default(),
                lacks_timers: AtomicBool::new(false),
                units: Units::default(),
            }),
        }
    }

    /// Gives back all units in hand, before a process ends; what the store does not take back within ten
    /// seconds is lost.
    ///
    /// Waits for units that are on their way back, too. If the caller goes away, they still arrive, as long as
    /// the runtime goes on. The calls that come afterwards ask for units again.
    pub async fn give_back(&self) {
        let (now, all) = (self.shared.now(), self.shared.table.all());
        let unused = all.iter().flat_map(|hot| hot.unused(now, true)).collect();
        self.shared.return_now(unused, &all).await;
    }
}

impl<S> Shared<S> {
    fn now(&self) -> Moment {
        self.moment(self.clock.now())
    }

    /// Returns the system's time beside `at`, which is now.
    fn moment(&self, at: Timestamp) -> Moment {
        let since_epoch = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Moment {
            at,
            system: self
                .sees_suspension
                .then(|| since_epoch().unwrap_or_default()),
        }
    }
}

impl<S: Store + 'static> Shared<S> {
    /// Finds a call that may be admitted by units in hand.
    fn find(&self, request: &Request<'_>) -> Option<Found> {
        let is_plain = matches!(request.operation(), Operation::Consume)
            && request.caller_time().is_none()
            && !request.has_id()
            && !self.within.is_zero();
        if !is_plain {
            return None;
        }
        let now = self.clock.now();
        let cost = || cost_of(request);
        let (hot, cost) = self.table.find(request.checks(), now, cost)?;
        Some((hot, cost, now))
    }

    /// Decides by units in hand, if there are enough; otherwise returns whom to ask for what.
    fn take(&self, (hot, cost, now): &Found) -> Take {
        let may_ask = |places: &Places| self.table.changes.permit(places, *now);
        let taken = hot.take(*cost, self.moment(*now), may_ask);
        if let Take::Now(_) = taken {
            self.units.count(USED, *cost);
        }
        taken
    }

    /// Asks the store to decide the call, and for units ahead.
    async fn ask(
        self: &Arc<Self>,
        asking: Asking,
        most: u64,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        let ahead = Ahead::new(most, asking.within()).one_of(PARTS);
        let asked = request.clone().with_prefetch(ahead);
        let sent = self.now();
        self.sweep_later(sent, asking.within());
        let verdicts = match self.store.decide(asked.clone()).await {
            // Not found out by `supports`: a `Lazy` knows only once it has connected.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                asking.unsupported(sent);
                drop(asking);
                return self.store.decide(request).await;
            }
            answer => answer?,
        };
        let received = self.now();
        // What answers in the store's place grants nothing.
        let Some((units, lasts)) = asked.granted(&verdicts) else {
            asking.refused(received);
            return Ok(verdicts);
        };
        self.units.count(GRANTED, units);
        // The caller has its own units; the others are for those who come now.
        let cost = request.checks()[0].cost();
        let lasts = lasts.saturating_sub(lasts * DRIFT_PPM / 1_000_000);
        if !asking.granted(Grant::new(units, sent, lasts, &verdicts), received) {
            self.units.count(LOST, units);
        }
        // What was too little for the call is there for the next one that asks.
        self.return_later(asking.unused(received));
        let own = verdicts.as_slice().iter();
        let own = own.map(|verdict| verdict.with_consumed(cost, verdict.decided_at()));
        Ok(Verdicts::new(verdicts.fingerprint(), own))
    }

    /// Decides a call of a busy key that units in hand did not admit at first.
    async fn decide(
        self: &Arc<Self>,
        mut found: Found,
        mut taken: Take,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        // Otherwise nobody could wait or give back.
        if !matches!(taken, Take::Directly) && !self.has_timers() {
            taken = Take::Directly;
        }
        if let Take::Later(patience) = taken {
            // Whoever asks may have gone away.
            let _ = timeout(patience, found.0.answered()).await;
            found.2 = self.clock.now();
            taken = self.take(&found);
        }
        let verdicts = match taken {
            Take::Now(verdicts) => return Ok(verdicts),
            Take::Ask(asking, most) => self.ask(asking, most, request).await?,
            Take::Later(..) | Take::Directly => self.store.decide(request).await?,
        };
        // What the store had too little of may be in hand by now.
        let (hot, cost, _) = found;
        if verdicts.is_denied()
            && let Some(admitted) = hot.take_in_hand(cost, self.now())
        {
            self.units.count(USED, cost);
            return Ok(admitted);
        }
        Ok(verdicts)
    }

    /// Corrects the cost of a call that was admitted by units in hand, with those that still are.
    fn correct(&self, request: &Request<'_>) -> Option<Verdicts> {
        let receipt = request.receipt()?;
        let hot = self.table.known(request.checks())?;
        let (left, more) = hot.correct(request, receipt, self.now())?;
        self.units.count(USED, more);
        Some(left)
    }

    /// Returns whether there is a runtime with timers.
    fn has_timers(&self) -> bool {
        if Handle::try_current().is_err() || self.lacks_timers.load(Ordering::Relaxed) {
            return false;
        }
        let has_timers = catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok();
        if !has_timers {
            self.lacks_timers.store(true, Ordering::Relaxed);
        }
        has_timers
    }

    /// Makes sure that a task gives back what is not used `within` this time.
    fn sweep_later(self: &Arc<Self>, now: Moment, mut within: Duration) {
        let Some(number) = self.sweepers.start(now.at, self.within * 2, within) else {
            return;
        };
        let sweeper = Sweeper(Arc::downgrade(self), number);
        let (sooner, longest) = (self.sweepers.sooner(), self.within);
        tokio::spawn(async move {
            let after = |time: Duration| (time / 2).max(SHORTEST_PAUSE);
            let mut looked_at = Instant::now();
            let mut all_at = looked_at + after(longest);
            loop {
                let next = all_at.min(looked_at + after(within));
                let is_sooner = timeout_at(next, sooner.notified()).await.is_ok();
                let Some(shared) = sweeper.0.upgrade() else {
                    return;
                };
                if is_sooner {
                    within = shared.sweepers.within();
                    continue;
                }
                // For a short log, one looks often, but not at all keys.
                looked_at = Instant::now();
                let is_all = looked_at >= all_at;
                if is_all {
                    all_at = looked_at + after(longest);
                }
                // One that takes long holds up no other.
                shared.return_later(shared.sweep(is_all));
                let (now, table) = (shared.now().at, &shared.table);
                let Some(next) = shared.sweepers.goes_on(number, table, now, longest * 2) else {
                    return;
                };
                within = next;
            }
        });
    }

    /// Returns what was not used in time, of all keys or of short logs, and forgets keys that are quiet.
    fn sweep(&self, is_all: bool) -> Vec<Unused> {
        let now = self.now();
        let looked_at = |hot: &Hot| is_all || hot.within() < self.within;
        let hots = self.table.which(looked_at);
        let unused = hots.iter().flat_map(|hot| hot.unused(now, false));
        let unused = unused.collect();
        if is_all {
            self.give_up(&hots, now.at, PATIENCE);
            drop(hots);
            self.table.forget_quiet(now.at);
        }
        unused
    }

    /// Counts as lost what of these keys has been on its way back for this `time`.
    fn give_up(&self, of: &[Arc<Hot>], now: Timestamp, time: Duration) {
        let lost = of.iter().map(|hot| hot.give_up(now, time)).sum();
        self.units.count(LOST, lost);
    }

    /// Begins to lower, to block or to reset: until the end, and for some time after it, nobody asks for units
    /// of these keys. Returns all that is in hand of them, with whatever other limits, and whose it was.
    fn change(&self, checks: &[Check<'_>]) -> (Changing<'_, S>, Vec<Unused>, Vec<Arc<Hot>>) {
        let places = self.table.changes.places(checks);
        // First: whoever asks later sees it, and whoever asked before is among those whose units are withdrawn.
        self.table.changes.begin(&places);
        let (now, sharing) = (self.now(), self.table.sharing(checks, &places));
        let unused = sharing.iter().flat_map(|hot| hot.withdraw(now)).collect();
        (Changing(self, places), unused, sharing)
    }

    /// Gives back what is in hand before the store decides: otherwise that would undo a part of it later.
    async fn decide_without_units(
        self: &Arc<Self>,
        request: Request<'_>,
    ) -> Result<Verdicts, StoreError> {
        let (_changing, unused, of) = self.change(request.checks());
        self.return_now(unused, &of).await;
        self.store.decide(request).await
    }

    /// Gives back in a task; without a runtime, `unused` is lost.
    fn return_later(self: &Arc<Self>, unused: Vec<Unused>) {
        let returning = Returning(Arc::clone(self), unused);
        if !returning.1.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(returning.run());
        }
    }

    /// Gives back, and waits until that, and what of these keys was on its way before, has arrived.
    async fn return_now(self: &Arc<Self>, unused: Vec<Unused>, of: &[Arc<Hot>]) {
        if of.is_empty() {
            return;
        }
        if !self.has_timers() {
            return Returning(Arc::clone(self), unused).run().await;
        }
        let since = self.now().at;
        self.return_later(unused);
        let returned = async {
            for hot in of {
                hot.returned().await;
            }
        };
        if timeout(PATIENCE, returned).await.is_err() {
            // Also if the runtime that gives back stands still: it may go on later.
            let now = self.now().at;
            self.give_up(of, now, now.saturating_duration_since(since));
        }
    }
}

/// A change of the states of the keys in these places, until it ends.
struct Changing<'s, S: Store + 'static>(&'s Shared<S>, Places);

impl<S: Store + 'static> Drop for Changing<'_, S> {
    fn drop(&mut self) {
        let until = self.0.now().at.saturating_add(self.0.within);
        self.0.table.changes.end(&self.1, until);
    }
}

/// What is known of the keys of a call, its cost, and the time.
type Found = (Arc<Hot>, u64, Timestamp);

/// Returns the cost of a call, if it may be admitted by units in hand.
fn cost_of(request: &Request<'_>) -> Option<u64> {
    let checks = request.checks();
    let cost = checks.first()?.cost();
    let may_be = |check: &Check<'_>| {
        let (key, algorithm) = (check.key(), check.limit().algorithm());
        check.cost() == cost
            && cost <= algorithm.capacity()
            // A call that would be denied counts for these: the store has to know of it.
            && !algorithm.counts_denied()
            && key.partition().len() + key.rest().len() <= LONGEST_KEY
    };
    let all_may_be = cost > 0 && checks.len() <= MOST_CHECKS && checks.iter().all(may_be);
    (all_may_be && request.validate_checks().is_ok()).then_some(cost)
}

/// Units on their way back: those that have not arrived when this is dropped, by whatever way, are lost.
struct Returning<S: Store + 'static>(Arc<Shared<S>>, Vec<Unused>);

impl<S: Store + 'static> Returning<S> {
    async fn run(self) {
        let shared = &self.0;
        let each = futures_util::stream::iter(&self.1);
        let returned = each.for_each_concurrent(AT_ONCE, async |unused| {
            let outcome = match unused.arrive(&shared.store).await {
                true => GIVEN_BACK,
                false => LOST,
            };
            shared.units.count(outcome, unused.end());
        });
        if shared.has_timers() {
            let _ = timeout(PATIENCE, returned).await;
        } else {
            returned.await;
        }
    }
}

impl<S: Store + 'static> Drop for Returning<S> {
    fn drop(&mut self) {
        self.0
            .units
            .count(LOST, self.1.iter().map(Unused::end).sum());
    }
}

impl<S> Drop for Shared<S> {
    /// What is in hand is lost.
    fn drop(&mut self) {
        let (now, all) = (self.now(), self.table.all());
        let unused = all.iter().flat_map(|hot| hot.unused(now, true));
        self.units
            .count(LOST, unused.map(|unused| unused.end()).sum());
    }
}

/// The task that gives back what is not used, and its number. It may end with its runtime.
struct Sweeper<S>(Weak<Shared<S>>, u64);

impl<S> Drop for Sweeper<S> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.sweepers.end(self.1);
        }
    }
}

const GRANTED: usize = 0;
const USED: usize = 1;
const GIVEN_BACK: usize = 2;
const LOST: usize = 3;

/// Counts units by what became of them.
#[derive(Default)]
struct Units {
    #[cfg(feature = "metrics")]
    counters: OnceLock<[metrics::Counter; 4]>,
}

impl Units {
    #[cfg(feature = "metrics")]
    fn count(&self, outcome: usize, units: u64) {
        if units == 0 {
            return;
        }
        // All of them at once: a rate needs the zero before the first.
        let counters = self.counters.get_or_init(|| {
            ["granted", "used", "given_back", "lost"].map(|outcome| {
                let counter =
                    metrics::counter!("tollgate_prefetched_units_total", "outcome" => outcome);
                counter.increment(0);
                counter
            })
        });
        counters[outcome].increment(units);
    }

    #[cfg(not(feature = "metrics"))]
    fn count(&self, _: usize, _: u64) {}
}

#[async_trait]
impl<S: Store + 'static> Store for Prefetch<S> {
    // A call that only passes through has one box.
    fn decide<'a: 'f, 'f>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'f, Result<Verdicts, StoreError>> {
        if let Some(verdicts) = self.shared.correct(&request) {
            return Box::pin(std::future::ready(Ok(verdicts)));
        }
        if let Operation::Lower | Operation::Block(_) = request.operation() {
            return Box::pin(self.shared.decide_without_units(request));
        }
        let Some(found) = self.shared.find(&request) else {
            return self.shared.store.decide(request);
        };
        match self.shared.take(&found) {
            Take::Now(verdicts) => Box::pin(std::future::ready(Ok(verdicts))),
            taken => Box::pin(self.shared.decide(found, taken, request)),
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        // Given back later, they would be subtracted from what is counted afresh.
        let (_changing, unused, of) = self.shared.change(&checks);
        drop(Returning(Arc::clone(&self.shared), unused));
        self.shared.return_now(Vec::new(), &of).await;
        self.shared.store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.shared.store.supports(request)
    }
}

crate::forward::forward!(Prefetch<S>, shared.store);

impl<S: fmt::Debug> fmt::Debug for Prefetch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetch")
            .field("store", &self.shared.store)
            .field("within", &self.shared.within)
            .finish_non_exhaustive()
    }
}
