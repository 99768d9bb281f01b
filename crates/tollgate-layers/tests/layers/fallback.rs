//! `Fallback` decides in the place of a store that failed, and `Share` by a part of the limits.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{Check, Prefetch, Request, Source};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store};
use tollgate_layers::{Breaker, Fallback, Share};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

const KINDS: [ErrorKind; 7] = [
    ErrorKind::Full,
    ErrorKind::Malformed,
    ErrorKind::Misconfigured,
    ErrorKind::Protocol,
    ErrorKind::Unavailable,
    ErrorKind::Unknown,
    ErrorKind::Unsupported,
];

#[tokio::test]
async fn it_decides_what_the_store_could_not() {
    let faults = KINDS.map(Fault::Fail);
    let store =
        Fallback::allow(FaultyStore::new(MemoryStore::new(), faults)).fail_on([ErrorKind::Full]);
    let limiter = RateLimiter::new(store, ["a=gcra:1/1h"]).unwrap();
    for kind in KINDS {
        let decision = limiter.check("alice").await;
        match kind {
            ErrorKind::Full | ErrorKind::Malformed | ErrorKind::Unsupported => {
                assert_eq!(decision.unwrap_err().kind(), kind);
            }
            _ => {
                let decision = decision.unwrap();
                assert!(decision.is_allowed(), "{kind}");
                assert_eq!(decision.source(), Source::Fallback);
                assert_eq!(decision.into_receipt(), None);
            }
        }
    }
    // The store works again, and its denials are no failures.
    let found = limiter.check("alice").await.unwrap().source();
    assert_eq!(found, Source::Store);
    let denied = limiter.check("alice").await.unwrap();
    assert!(denied.is_denied() && denied.source() == Source::Store);
}

#[tokio::test]
async fn what_changes_states_needs_the_store() {
    let down = std::iter::repeat(Fault::Fail(ErrorKind::Unavailable));
    let store = Fallback::to(
        FaultyStore::new(MemoryStore::new(), down),
        MemoryStore::new(),
    );
    let limits = RateLimiter::new(&store, ["a=gcra:1/1h"]).unwrap();
    let blocks = RateLimiter::new(&store, ["ban=block:1h"]).unwrap();
    assert!(limits.lower("alice", 0).await.is_err());
    assert!(limits.charge("alice").await.is_err());
    assert!(limits.give("alice").await.is_err());
    assert!(limits.reset("alice").await.is_err());
    assert!(blocks.block("alice").await.is_err());
    assert!(limits.check("alice").await.unwrap().is_allowed());
}

#[tokio::test]
async fn a_receipt_goes_back_to_the_store_that_counted() {
    let clock = ManualClock::new();
    let memory = || MemoryStore::builder().clock(clock.clone()).build();
    let local = Arc::new(memory());
    let server = Arc::new(memory());
    let faults = [Fault::None, Fault::Fail(ErrorKind::Unknown)];
    let store = Fallback::to(
        FaultyStore::new(Arc::clone(&server), faults),
        Arc::clone(&local),
    );
    let limit = "a=sliding-log:5/1h";
    let limiter = RateLimiter::new(store, [limit]).unwrap();
    let left = async |store: &Arc<MemoryStore>| {
        let limiter = RateLimiter::new(Arc::clone(store), [limit]).unwrap();
        limiter.peek("alice").await.unwrap().remaining()
    };
    let of_server = limiter.check("alice").cost(2).await.unwrap().into_receipt();
    let of_local = limiter.check("alice").cost(3).await.unwrap().into_receipt();
    assert_eq!((left(&server).await, left(&local).await), (3, 2));
    limiter.settle("alice", of_local.unwrap(), 1).await.unwrap();
    assert_eq!((left(&server).await, left(&local).await), (3, 4));
    limiter.refund("alice", of_server.unwrap()).await.unwrap();
    assert_eq!((left(&server).await, left(&local).await), (5, 4));
    // A reset is of both.
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    limiter.reset("alice").await.unwrap();
    assert_eq!((left(&server).await, left(&local).await), (5, 5));
}

#[tokio::test]
async fn a_share_counts_in_its_own_units() {
    let clock = ManualClock::new();
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let share = Share::new(memory, NonZeroU32::new(4).unwrap());
    let limiter = RateLimiter::new(share, ["a=sliding-log:11/1s"]).unwrap();
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 2);
    assert_eq!(limiter.peek("alice").await.unwrap().capacity(), 2);
    assert!(limiter.take_up_to("alice", 9).await.is_err());
    let taken = limiter.check("alice").cost(2).await.unwrap();
    assert_eq!((taken.consumed(), taken.remaining()), (2, 0));
    let denied = limiter.check("alice").await.unwrap();
    let found = denied.retry_after().duration();
    assert_eq!(found, Some(Duration::from_secs(1)));
    limiter
        .refund("alice", taken.into_receipt().unwrap())
        .await
        .unwrap();
    let decision = limiter.check("alice").cost(1).await.unwrap();
    assert_eq!(
        (
            decision.is_allowed(),
            decision.consumed(),
            decision.remaining()
        ),
        (true, 1, 1)
    );
    limiter
        .settle("alice", decision.into_receipt().unwrap(), 0)
        .await
        .unwrap();
    assert_eq!(limiter.lower("alice", 1).await.unwrap().remaining(), 1);
    // More than the part, and less than the whole.
    assert_eq!(limiter.lower("alice", 5).await.unwrap().remaining(), 1);
    let limiter = RateLimiter::new(limiter.store(), ["b=fixed-window:11/1s"]).unwrap();
    limiter.charge("alice").cost(5).supported().unwrap();
    let charged = limiter.charge("alice").cost(5).await.unwrap();
    assert_eq!((charged.remaining(), charged.owed()), (0, 3));
    let given = limiter.give("alice").cost(4).await.unwrap();
    assert_eq!((given.remaining(), given.decision().consumed()), (1, 4));
}

/// Units ahead of a store that decides only while another is down could not be given back to that one.
#[tokio::test]
async fn a_fallback_grants_nothing_ahead() {
    let fault = Fault::Fail(ErrorKind::Unavailable);
    let server = FaultyStore::new(MemoryStore::new(), [Fault::None, fault]);
    let store = Fallback::to(server, MemoryStore::new());
    let limit: Limit = "a=sliding-log:11/1h".parse().unwrap();
    let ahead = Prefetch::new(8, Duration::from_secs(1));
    let request = Request::consume(Check::new(&limit, "alice", 1)).with_prefetch(ahead);
    for (source, granted, left) in [(Source::Store, Some(7), 3), (Source::Fallback, None, 10)] {
        let verdicts = store.decide(request.clone()).await.unwrap();
        let units = request.granted(&verdicts).map(|(units, _)| units);
        let found = (verdicts.source(), units, verdicts.remaining());
        assert_eq!(found, (source, granted, left));
    }
}

const PROCESSES: usize = 3;
const WINDOW: u64 = 1_000_000;

/// What happens: a process calls, and reaches the server or not; or time passes.
#[derive(Clone, Copy, Debug)]
enum Event {
    Call { process: usize, reaches: bool },
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let call = (0..PROCESSES, any::<bool>())
        .prop_map(|(process, reaches)| Event::Call { process, reaches });
    let pass = prop_oneof![0..1_000_u64, 0..WINDOW].prop_map(Event::Pass);
    proptest::collection::vec(prop_oneof![6 => call, 1 => pass], 1..200)
}

/// Returns the most calls that a fleet admitted in any window.
async fn most_in_a_window(amount: u64, halves: bool, events: Vec<Event>) -> usize {
    let clock = ManualClock::new();
    let memory = || MemoryStore::builder().clock(clock.clone()).build();
    let of = |parts: usize| NonZeroU32::new(u32::try_from(parts).unwrap()).unwrap();
    let parts = if halves { 2 } else { 1 };
    let server = Arc::new(memory());
    let fleet: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let local = Share::new(memory(), of(parts * PROCESSES));
            let server = Share::new(Arc::clone(&server), of(parts));
            let is_cut = Arc::new(AtomicBool::new(false));
            let faults = std::iter::repeat(Arc::clone(&is_cut)).map(|is_cut| {
                match is_cut.load(Ordering::Relaxed) {
                    true => Fault::Fail(ErrorKind::Unavailable),
                    false => Fault::None,
                }
            });
            let store = Fallback::to(FaultyStore::new(server, faults), local);
            let limit = format!("a=sliding-log:{amount}/1s");
            (is_cut, RateLimiter::new(store, [limit]).unwrap())
        })
        .collect();
    let (mut now, mut admitted) = (0, Vec::new());
    for event in events {
        match event {
            Event::Call { process, reaches } => {
                let (is_cut, limiter) = &fleet[process];
                is_cut.store(!reaches, Ordering::Relaxed);
                // Where a part never allows a call, nothing decides.
                let decision = limiter.check("alice").await;
                if decision.is_ok_and(|decision| decision.is_allowed()) {
                    admitted.push(now);
                }
            }
            Event::Pass(micros) => {
                clock.advance(Duration::from_micros(micros));
                now += micros;
            }
        }
    }
    let within = |from: u64| {
        admitted
            .iter()
            .filter(|at| (from..from + WINDOW).contains(*at))
            .count()
    };
    admitted.iter().map(|from| within(*from)).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn a_fleet_stays_within_its_bound_whoever_is_cut_off(
        amount in 0..20_u64,
        halves: bool,
        events in events(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let most = runtime.block_on(most_in_a_window(amount, halves, events));
        let bound = if halves { amount } else { 2 * amount };
        prop_assert!(u64::try_from(most).unwrap() <= bound, "{most} of {bound}");
    }
}

#[tokio::test]
async fn what_no_store_could_decide_stays_an_error_while_the_store_is_down() {
    let down = std::iter::repeat(Fault::Fail(ErrorKind::Unavailable));
    let store = Fallback::allow(FaultyStore::new(MemoryStore::new(), down));
    let limiter = RateLimiter::new(&store, ["a=sliding-log:5/1h"]).unwrap();
    let reserve = limiter.reserve("alice").within(Duration::from_secs(1));
    assert!(reserve.await.is_err());
    assert!(
        limiter
            .check("alice")
            .id(&*"x".repeat(100_000))
            .await
            .is_err()
    );
    let limit = &limiter.limits()[0];
    let twice = Request::consume(Check::new(limit, "alice", 1)).and(Check::new(limit, "alice", 1));
    assert!(store.decide(twice).await.is_err());
    let taken = limiter.take_up_to("alice", 1).await.unwrap();
    let receipt = taken.into_receipt().unwrap();
    let other = Request::refund(&receipt, Check::new(limit, "alice", 0));
    assert!(
        store
            .decide(other.and(Check::new(limit, "bob", 0)))
            .await
            .is_err()
    );
    assert!(limiter.check("alice").await.unwrap().is_allowed());
}

/// A breaker that leaves the store alone says `Unavailable` to whatever is asked.
#[tokio::test]
async fn what_the_store_does_not_support_stays_an_error_while_it_is_left_alone() {
    let down = std::iter::repeat(Fault::Fail(ErrorKind::Unavailable));
    let parts = NonZeroU32::new(4).unwrap();
    let share = Share::new(FaultyStore::new(MemoryStore::new(), down), parts);
    let limiter = RateLimiter::new(Fallback::allow(Breaker::new(share)), ["a=gcra:8/1h"]).unwrap();
    for _ in 0..4 {
        let found = limiter.check("alice").await.unwrap().source();
        assert_eq!(found, Source::Fallback);
    }
    assert!(limiter.take_up_to("alice", 1).await.is_err());
}

#[tokio::test]
async fn a_part_that_never_allows_a_call_is_no_denial() {
    let part = || Share::new(MemoryStore::new(), NonZeroU32::new(3).unwrap());
    for (limit, cost, expected) in [
        ("a=sliding-log:2/1h", 1, None),
        ("a=gcra:9/1s,burst=1", 1, None),
        ("a=sliding-log:8/1h", 3, None),
        ("a=sliding-log:8/1h", 2, Some(true)),
        // Of the whole, it is not allowed either.
        ("a=sliding-log:8/1h", 9, Some(false)),
        ("a=sliding-log:0/1h", 1, Some(false)),
        ("a=sliding-log:8/1h", 0, Some(true)),
    ] {
        let limiter = RateLimiter::new(part(), [limit]).unwrap();
        let supported = limiter.check("alice").cost(cost).supported().is_ok();
        assert_eq!(supported, expected.is_some(), "{limit} at {cost}");
        let decision = limiter.check("alice").cost(cost).await;
        let found = match &decision {
            Ok(decision) => Some(decision.is_allowed()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                None
            }
        };
        assert_eq!(found, expected, "{limit} at {cost}: {decision:?}");
    }
    let limiter = RateLimiter::new(part(), ["a=sliding-log:9/1h", "b=sliding-log:2/1h,shadow"]);
    assert!(limiter.unwrap().check("alice").await.unwrap().is_allowed());
    // The caller learns why the store failed, not why the part did.
    let down = FaultyStore::new(MemoryStore::new(), [Fault::Fail(ErrorKind::Unknown)]);
    let limiter = RateLimiter::new(Fallback::to(down, part()), ["a=sliding-log:2/1h"]).unwrap();
    let error = limiter.check("alice").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
}
