//! `DenyCache` refuses what the store would refuse, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::sync::Notify;
use tollgate_core::store::{Check, Checks, Operation, Prefetch, Request, Source, Verdicts};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Receipt, Store, StoreError, Timestamp, Wait};
use tollgate_layers::DenyCache;
use tollgate_memory::{ManualClock, MemoryStore};

use crate::support::Counted;

const FOREVER: Duration = Duration::from_secs(1 << 30);

fn memory(clock: &ManualClock) -> MemoryStore {
    MemoryStore::builder().clock(clock.clone()).build()
}

fn cache<S: Store>(store: S, clock: &ManualClock) -> DenyCache<S> {
    DenyCache::new(store).clock(clock.clone()).max_age(FOREVER)
}

fn limits() -> Vec<Limit> {
    let texts = [
        "a=sliding-log:3/1s",
        "b=gcra:5/1s,burst=2",
        "c=fixed-window:4/1s",
        "d=sliding-counter:4/2s",
        "e=sliding-buckets:6/3s,buckets=3",
        "f=fixed-window:2/500ms,anchored",
        "g=fixed-window:1/1s,anchored,count-denied",
    ];
    texts.map(|text| text.parse().unwrap()).into()
}

#[derive(Clone, Debug)]
enum Step {
    /// Limits by number, the key, the cost, how many units at most with those ahead, and whether the call
    /// comes from another process.
    Check(Vec<usize>, u8, u64, u64, bool),
    Refund,
    Settle(u64),
    /// Limits by number, the key, the cost, and whether it is given back.
    Units(Vec<usize>, u8, u64, bool),
    Reset(Vec<usize>, u8),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = proptest::sample::subsequence((0..7).collect::<Vec<_>>(), 1..4);
    let most = prop_oneof![2 => Just(0), 1 => 1..5_u64];
    let step = prop_oneof![
        12 => (some.clone(), 0..2_u8, 0..5_u64, most, proptest::bool::weighted(0.3))
            .prop_map(|(limits, key, cost, most, other)| Step::Check(limits, key, cost, most, other)),
        1 => Just(Step::Refund),
        1 => (0..6_u64).prop_map(Step::Settle),
        2 => (some.clone(), 0..2_u8, 0..6_u64, any::<bool>())
            .prop_map(|(limits, key, cost, gives)| Step::Units(limits, key, cost, gives)),
        1 => (some, 0..2_u8).prop_map(|(limits, key)| Step::Reset(limits, key)),
        4 => prop_oneof![0..3_u64, 0..400_000_u64, Just(1_000_000_u64)].prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..150)
}

/// A store that decides one limit and one unit at a time.
struct OneLimit(MemoryStore);

#[async_trait]
impl Store for OneLimit {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.supports(&request)?;
        self.0.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        match request.checks() {
            [only] if only.cost() == 1 => self.0.supports(request),
            _ => Err(StoreError::new(
                ErrorKind::Unsupported,
                "one limit and one unit at a time",
            )),
        }
    }
}

/// What is known of its parts denies no request that the store refuses to decide.
#[tokio::test]
async fn a_request_that_the_store_does_not_support_is_an_error_whatever_is_remembered() {
    let clock = ManualClock::new();
    let cache = cache(OneLimit(memory(&clock)), &clock);
    let limits = ["a=sliding-log:1/1h", "b=sliding-log:1/1h"].map(|text| text.parse().unwrap());
    let [a, b]: [Limit; 2] = limits;
    let one = |limit| Request::consume(Check::new(limit, "k", 1));
    for source in [Source::Store, Source::Store, Source::Cache] {
        assert_eq!(cache.decide(one(&a)).await.unwrap().source(), source);
    }
    let both = one(&a).and(Check::new(&b, "k", 1));
    for request in [both, Request::consume(Check::new(&a, "k", 2))] {
        let error = cache.decide(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// A call that consumed, on both stores.
struct Held {
    limits: Vec<usize>,
    key: u8,
    cached: Receipt,
    twin: Receipt,
}

fn checks<'l>(limits: &'l [Limit], chosen: &[usize], key: u8, cost: u64) -> Vec<Check<'l>> {
    let name = ["alice", "bob"][usize::from(key)];
    let check = |index: &usize| Check::new(&limits[*index], name, cost);
    chosen.iter().map(check).collect()
}

async fn play(is_alone: bool, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = ManualClock::new();
    let limits = limits();
    let server = Arc::new(memory(&clock));
    // The same calls go to a store that nothing is in front of.
    let twin = memory(&clock);
    let cached = cache(Arc::clone(&server), &clock);
    let mut held = Vec::new();
    for step in steps {
        match step {
            Step::Check(chosen, key, cost, most, other) => {
                let request = Request::new(Operation::Consume, checks(&limits, &chosen, key, cost));
                let ahead = Prefetch::new(most, Duration::from_millis(30));
                let request = request.with_prefetch(ahead);
                let other = other && !is_alone;
                let store: &dyn Store = if other { &server } else { &cached };
                let here = store.decide(request.clone()).await.unwrap();
                let there = twin.decide(request).await.unwrap();
                prop_assert_eq!(here.is_allowed(), there.is_allowed());
                // Nothing is known of limits that the call has beside those that are known to deny it.
                if is_alone && chosen.len() == 1 {
                    prop_assert_eq!(here.retry_after(), there.retry_after());
                }
                prop_assert!(here.retry_after() <= there.retry_after());
                if let (Some(cached), Some(twin)) = (here.into_receipt(), there.into_receipt())
                    && !other
                {
                    held.push(Held {
                        limits: chosen,
                        key,
                        cached,
                        twin,
                    });
                }
            }
            Step::Refund | Step::Settle(_) => {
                let Some(of) = held.pop() else { continue };
                let cost = if let Step::Settle(cost) = step {
                    Some(cost)
                } else {
                    None
                };
                for (store, receipt) in [(&cached as &dyn Store, &of.cached), (&twin, &of.twin)] {
                    let operation = match cost {
                        Some(_) => Operation::Settle(receipt),
                        None => Operation::Refund(receipt),
                    };
                    let checks = checks(&limits, &of.limits, of.key, cost.unwrap_or(0));
                    let _ = store.decide(Request::new(operation, checks)).await.unwrap();
                }
            }
            Step::Units(chosen, key, cost, gives) => {
                let operation = if gives {
                    Operation::Give
                } else {
                    Operation::Charge
                };
                for store in [&cached as &dyn Store, &twin] {
                    let request = Request::new(operation, checks(&limits, &chosen, key, cost));
                    let _ = store.decide(request).await.unwrap();
                }
            }
            Step::Reset(chosen, key) => {
                for store in [&cached as &dyn Store, &twin] {
                    let checks = checks(&limits, &chosen, key, 0);
                    store.reset(checks.into_iter().collect()).await.unwrap();
                }
            }
            Step::Pass(micros) => clock.advance(Duration::from_micros(micros)),
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_allows_exactly_what_the_store_would(is_alone: bool, steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(play(is_alone, steps))?;
    }
}

#[tokio::test]
async fn a_client_that_keeps_calling_costs_one_call_for_each_retry_after() {
    for text in ["a=sliding-log:1/1s", "a=gcra:1/1s", "a=fixed-window:1/1s"] {
        let clock = ManualClock::new();
        let store = Counted::new(memory(&clock));
        let limiter = RateLimiter::new(cache(&store, &clock), [text]).unwrap();
        let mut allowed = 0;
        // Ten seconds of a call every millisecond.
        for _ in 0..10_000 {
            let decision = limiter.check("mallory").await.unwrap();
            allowed += usize::from(decision.is_allowed());
            clock.advance(Duration::from_millis(1));
        }
        assert!((10..=11).contains(&allowed), "{text}: {allowed}");
        // Beside each that is allowed, one that is denied.
        assert!(store.calls() <= 2 * allowed, "{text}: {}", store.calls());
    }
}

/// Other calls have used the limit meanwhile, and may have used it up.
#[tokio::test]
async fn a_denial_says_nothing_about_limits_that_allow_the_call() {
    let clock = ManualClock::new();
    let limits = ["login=sliding-log:1/1h", "all=sliding-log:9/1h"];
    let limiter = RateLimiter::new(cache(memory(&clock), &clock), limits).unwrap();
    for (source, remaining) in [(Source::Store, 8), (Source::Store, 8), (Source::Cache, 0)] {
        let decision = limiter.check("alice").await.unwrap();
        let all = decision.verdict("all").unwrap();
        assert_eq!((decision.source(), all.remaining()), (source, remaining));
        assert!(all.is_allowed());
    }
    // But a cost that never fits.
    let [login, all] = [0, 1].map(|of| &limiter.limits()[of]);
    let request = Request::consume(Check::new(login, "alice", 1)).and(Check::new(all, "alice", 10));
    let denied = limiter.store().decide(request).await.unwrap();
    let found = (denied.source(), denied.retry_after());
    assert_eq!(found, (Source::Cache, Wait::NEVER));
}

/// As the store does, which keeps the answer, or refuses the call.
#[tokio::test]
async fn what_is_remembered_is_no_answer_to_a_repeated_or_malformed_call() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::new(cache(memory(&clock), &clock), ["a=sliding-log:1/1h"]).unwrap();
    let once = async || limiter.check("alice").id("once").await.unwrap();
    assert!(once().await.is_allowed());
    for source in [Source::Store, Source::Cache] {
        assert_eq!(limiter.check("alice").await.unwrap().source(), source);
    }
    assert!(once().await.is_allowed());
    let check = Check::new(&limiter.limits()[0], "alice", 1);
    let twice = limiter.store().decide(Request::consume(check).and(check));
    assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn a_denial_that_is_over_says_nothing_about_what_remains() {
    let clock = ManualClock::new();
    let cached = cache(memory(&clock), &clock);
    let all = RateLimiter::new(&cached, ["all=sliding-log:3/1s"]).unwrap();
    let both = RateLimiter::new(&cached, ["all=sliding-log:3/1s", "login=sliding-log:2/1h"]);
    let both = both.unwrap();
    assert!(both.check("alice").cost(2).await.unwrap().is_allowed());
    assert!(all.check("alice").cost(2).await.unwrap().is_denied());
    let login = RateLimiter::new(&cached, ["login=sliding-log:2/1h"]).unwrap();
    assert!(login.check("alice").cost(2).await.unwrap().is_denied());
    clock.advance(Duration::from_secs(2));
    let denied = both.check("alice").cost(2).await.unwrap();
    let found = (denied.source(), denied.binding().0.name());
    assert_eq!(found, (Source::Cache, "login"));
    let of_all = denied.verdict("all").unwrap();
    assert_eq!((of_all.is_allowed(), of_all.remaining()), (true, 0));
}

#[tokio::test]
async fn a_known_denial_says_when_all_has_been_given_back() {
    let clock = ManualClock::new();
    let limiter = RateLimiter::new(cache(memory(&clock), &clock), ["a=sliding-log:2/1h"]).unwrap();
    let minute = Duration::from_secs(60);
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    clock.advance(10 * minute);
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    let asked = limiter.check("alice").await.unwrap();
    clock.advance(minute);
    let known = limiter.check("alice").await.unwrap();
    let found = [&asked, &known].map(|of| (of.source(), of.age()));
    let expected = [(Source::Store, Duration::ZERO), (Source::Cache, minute)];
    assert_eq!(found, expected);
    for (decision, retry, reset) in [(asked, 50, 60), (known, 49, 59)] {
        assert_eq!(decision.retry_after().duration(), Some(retry * minute));
        assert_eq!(decision.reset_after().duration(), Some(reset * minute));
    }
    // What can never fit is known, however old the denial is.
    let never = limiter.check("alice").cost(3).await.unwrap();
    let found = (never.source(), never.retry_after(), never.reset_after());
    assert_eq!(found, (Source::Cache, Wait::NEVER, Wait::NEVER));
}

#[tokio::test]
async fn what_another_process_gives_back_is_known_within_the_age() {
    let clock = ManualClock::new();
    let server = Arc::new(memory(&clock));
    let cached = DenyCache::new(Arc::clone(&server)).clock(clock.clone());
    let here = RateLimiter::new(cached, ["login=sliding-log:1/1h"]).unwrap();
    let there = RateLimiter::new(server, ["login=sliding-log:1/1h"]).unwrap();
    let _ = here.check("alice").await.unwrap();
    assert!(here.check("alice").await.unwrap().is_denied());
    there.reset("alice").await.unwrap();
    clock.advance(Duration::from_micros(999_999));
    assert!(here.check("alice").await.unwrap().is_denied());
    clock.advance(Duration::from_micros(1));
    assert!(here.check("alice").await.unwrap().is_allowed());
    // Also if the clock steps back.
    assert!(here.check("alice").await.unwrap().is_denied());
    there.reset("alice").await.unwrap();
    clock.set(Timestamp::UNIX_EPOCH);
    assert!(here.check("alice").await.unwrap().is_allowed());
}

#[tokio::test]
async fn it_keeps_no_more_than_its_capacity() {
    let cached = DenyCache::with_capacity(MemoryStore::new(), 100);
    let limiter = RateLimiter::new(&cached, ["a=sliding-log:0/1h"]).unwrap();
    for key in 0..10_000_u64 {
        assert_eq!(limiter.check(key).await.unwrap().retry_after(), Wait::NEVER);
    }
    let known = format!("{cached:?}");
    let known = known.split_once("known: ").unwrap().1;
    let known: usize = known.split(',').next().unwrap().parse().unwrap();
    assert!((1..=100).contains(&known), "{known}");
}

/// A store whose denials, and all answers to what gives something back, are late until it is notified.
struct Late {
    store: MemoryStore,
    decided: Notify,
    answers: Notify,
}

impl Late {
    fn new(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            store: memory(clock),
            decided: Notify::new(),
            answers: Notify::new(),
        })
    }

    async fn answer(&self) {
        self.decided.notify_one();
        self.answers.notified().await;
    }
}

#[async_trait::async_trait]
impl Store for Late {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let consumes = matches!(request.operation(), Operation::Consume);
        let verdicts = self.store.decide(request).await;
        if !consumes || verdicts.as_ref().is_ok_and(Verdicts::is_denied) {
            self.answer().await;
        }
        verdicts
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        let reset = self.store.reset(checks).await;
        self.answer().await;
        reset
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

/// Sends a call whose caller does not wait for the answer.
fn goes_away(call: impl IntoFuture) {
    assert!(call.into_future().now_or_never().is_none());
}

/// The store decided between the call and the answer, so a denial may end that much earlier.
#[tokio::test]
async fn a_denial_is_remembered_from_when_the_store_was_asked() {
    let clock = ManualClock::new();
    let store = Late::new(&clock);
    let limiter = RateLimiter::new(cache(Arc::clone(&store), &clock), ["a=gcra:1/1m"]).unwrap();
    let _ = limiter.check("alice").await.unwrap();
    let answers = async {
        store.decided.notified().await;
        clock.advance(Duration::from_secs(10));
        store.answers.notify_one();
    };
    let (denied, ()) = tokio::join!(limiter.check("alice").into_future(), answers);
    assert!(denied.unwrap().is_denied());
    clock.advance(Duration::from_micros(49_999_999));
    let found = limiter.check("alice").await.unwrap().source();
    assert_eq!(found, Source::Cache);
    clock.advance(Duration::from_micros(1));
    assert!(limiter.check("alice").await.unwrap().is_allowed());
}

/// The store gave back what it was asked to, and the answer was never read.
#[tokio::test]
async fn what_a_caller_gave_back_who_went_away_is_known() {
    let clock = ManualClock::new();
    let store = Late::new(&clock);
    let limits = ["a=sliding-log:1/1h"];
    let limiter = RateLimiter::new(cache(Arc::clone(&store), &clock), limits).unwrap();
    for gives_back in 0..4 {
        let decision = limiter.check("alice").await.unwrap();
        assert!(decision.is_allowed(), "{gives_back}");
        let receipt = decision.into_receipt().unwrap();
        store.answers.notify_one();
        assert!(limiter.check("alice").await.unwrap().is_denied());
        match gives_back {
            0 => goes_away(limiter.refund("alice", receipt)),
            1 => goes_away(limiter.settle("alice", receipt, 0)),
            2 => goes_away(limiter.give("alice")),
            _ => goes_away(limiter.reset("alice")),
        }
    }
    assert!(limiter.check("alice").await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_limit_in_shadow_is_never_a_reason_to_deny() {
    let clock = ManualClock::new();
    let cached = cache(memory(&clock), &clock);
    let limits = ["all=gcra:2/1h", "next=sliding-log:1/9h,shadow"];
    let limiter = RateLimiter::new(&cached, limits).unwrap();
    let checked = async || {
        let decision = limiter.check("alice").await.unwrap();
        let next = decision.verdict("next").unwrap();
        assert!(next.is_in_shadow());
        (decision.source(), decision.is_allowed(), next.is_allowed())
    };
    assert_eq!(checked().await, (Source::Store, true, true));
    assert_eq!(checked().await, (Source::Store, true, false));
    assert_eq!(checked().await, (Source::Store, false, false));
    // What it would have denied is told here, too.
    assert_eq!(checked().await, (Source::Cache, false, false));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(checked().await, (Source::Store, true, false));
}

#[tokio::test]
async fn what_is_given_back_under_another_amount_is_known_at_once() {
    let clock = ManualClock::new();
    let cached = cache(memory(&clock), &clock);
    let low = RateLimiter::new(&cached, ["login=sliding-log:1/1h"]).unwrap();
    let high = RateLimiter::new(&cached, ["login=sliding-log:2/1h,shadow"]).unwrap();
    let _ = low.check("alice").await.unwrap();
    assert!(low.check("alice").await.unwrap().is_denied());
    // A raised limit is another limit.
    let raised = RateLimiter::new(&cached, ["login=sliding-log:2/1h"]).unwrap();
    assert!(raised.check("alice").await.unwrap().is_allowed());
    high.reset("alice").await.unwrap();
    assert!(low.check("alice").await.unwrap().is_allowed());
}

#[tokio::test]
async fn long_keys_are_not_kept() {
    let clock = ManualClock::new();
    let store = Counted::new(memory(&clock));
    let limiter = RateLimiter::new(cache(&store, &clock), ["a=sliding-log:0/1h"]).unwrap();
    for (length, calls) in [(256, 1), (257, 3)] {
        let key = "k".repeat(length);
        let before = store.calls();
        for _ in 0..3 {
            assert!(limiter.check(&key).await.unwrap().is_denied());
        }
        assert_eq!(store.calls() - before, calls);
    }
}
