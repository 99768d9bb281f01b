//! Units that are asked for ahead.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::{sleep, sleep_until};
use tollgate_core::store::{Check, Checks, Operation, Request, Source, Verdicts};
use tollgate_core::{Decision, Limit, RateLimiter, Receipt, Store, StoreError, Timestamp};
use tollgate_layers::{Breaker, Prefetch, Share};
use tollgate_memory::{Clock, ManualClock, MemoryStore};
use tollgate_mock::{ErrorKind, Fault, FaultyStore};
use tollgate_tokio::WaitUpTo;

use crate::support::{Counted, Jumping, in_jumps};

const L: Duration = Duration::from_millis(200);
const MS: Duration = Duration::from_millis(1);

type Asked = Arc<Counted<MemoryStore>>;

/// Returns a limiter that prefetches, the store that it asks, and its clock.
fn prefetched(limits: &[&str]) -> (RateLimiter<Prefetch<Asked>>, Asked) {
    let clock = Jumping::new();
    let asked = Arc::new(Counted::new(clock.memory()));
    let store = Prefetch::new(Arc::clone(&asked), L).clock(clock);
    (
        RateLimiter::new(store, limits.iter().copied()).unwrap(),
        asked,
    )
}

/// Returns what the store says is left, after what is in hand was given back.
async fn left(limiter: &RateLimiter<Prefetch<Asked>>) -> u64 {
    limiter.store().give_back().await;
    limiter.peek("k").await.unwrap().remaining()
}

/// Returns how many units were granted, used, given back and lost.
fn counted(recorder: &DebuggingRecorder) -> [u64; 4] {
    let counted = recorder.snapshotter().snapshot().into_vec();
    ["granted", "used", "given_back", "lost"].map(|outcome| {
        let of = |key: &metrics::Key| key.labels().any(|label| label.value() == outcome);
        let found = counted.iter().find(|(key, ..)| of(key.key()));
        match found.unwrap().3 {
            DebugValue::Counter(units) => units,
            _ => unreachable!("units are counted"),
        }
    })
}

async fn allowed(limiter: &RateLimiter<impl Store>) -> Decision<'_> {
    let decision = limiter.check("k").await.unwrap();
    assert!(decision.is_allowed());
    decision
}

const LIMITS: [&str; 7] = [
    "a=gcra:10000/1s",
    "a=sliding-log:10000/1s",
    "a=sliding-buckets:10000/10s,buckets=4",
    "a=sliding-counter:10000/10s",
    "a=fixed-window:10000/10s",
    "a=fixed-window:10000/10s,anchored",
    "a=fixed-window:10000/day@Europe/Berlin",
];

#[test]
fn calls_of_a_busy_key_seldom_ask_the_store_and_count_exactly() {
    for limit in LIMITS {
        in_jumps(async {
            let (limiter, asked) = prefetched(&[limit]);
            let calls = 2_000;
            let mut here = 0;
            for call in 0..calls {
                let decision = allowed(&limiter).await;
                here += usize::from(decision.source() == Source::Prefetched);
                assert!(decision.age() <= L, "{:?}", decision.age());
                assert!(decision.remaining() < 10_000);
                if call % 4 == 0 {
                    sleep(MS).await;
                }
            }
            assert!(asked.calls() < 60, "{limit}: {}", asked.calls());
            assert!(here > calls - 60, "{limit}: {here}");
            // What was not used is back.
            let left = left(&limiter).await;
            if limit.contains("10s") || limit.contains("day") {
                assert_eq!(left, 10_000 - calls as u64, "{limit}");
            }
        });
    }
}

#[test]
fn seldom_calls_and_limits_that_count_denied_ones_are_never_prefetched() {
    let counts_denied = "a=sliding-log:1000/1h,count-denied";
    for (limit, pause) in [("a=gcra:1000/1s", L / 3), (counts_denied, MS)] {
        in_jumps(async {
            let (limiter, _) = prefetched(&[limit]);
            for _ in 0..50 {
                assert_eq!(allowed(&limiter).await.source(), Source::Store);
                sleep(pause).await;
            }
        });
    }
}

#[test]
fn calls_that_are_no_plain_checks_of_one_cost_are_never_prefetched() {
    in_jumps(async {
        let (limiter, _) = prefetched(&["l0=fixed-window:9000/1h"]);
        while allowed(&limiter).await.source() == Source::Store {}
        let limits = (0..9).map(|limit| format!("l{limit}=fixed-window:9000/1h").parse().unwrap());
        let limits: Vec<Limit> = limits.collect();
        let check = |limit: usize, cost| Check::new(&limits[limit], "k", cost);
        let (one, long) = (Request::consume(check(0, 1)), "k".repeat(257));
        for request in [
            one.clone().at(Timestamp::UNIX_EPOCH),
            one.clone().id("one"),
            Request::consume(check(0, 0)),
            one.clone().and(check(1, 2)),
            Request::consume_all(&limits, "k", 1),
            Request::consume(Check::new(&limits[0], &*long, 1)),
        ] {
            for _ in 0..50 {
                let verdicts = limiter.store().decide(request.clone()).await.unwrap();
                assert_eq!(verdicts.source(), Source::Store, "{request:?}");
            }
        }
        for _ in 0..50 {
            let twice = limiter.store().decide(one.clone().and(check(0, 1)));
            assert_eq!(twice.await.unwrap_err().kind(), ErrorKind::Malformed);
        }
    });
}

/// Otherwise more than the bound could be kept if what comes back is the call that began the window.
#[test]
fn an_anchored_window_that_begins_with_a_question_loses_one_unit() {
    // The first window begins with a call that asks for nothing.
    for (calls, used_and_lost) in [(900, 900), (1_100, 100 + 1)] {
        in_jumps(async {
            let (limiter, _) = prefetched(&["a=fixed-window:10000/1s,anchored"]);
            for _ in 0..calls {
                let _ = allowed(&limiter).await;
                sleep(MS).await;
            }
            assert_eq!(left(&limiter).await, 10_000 - used_and_lost);
        });
    }
}

/// Units of a short log last for a twentieth of its window, also beside those that last longer.
#[test]
fn what_is_not_used_of_a_short_log_is_given_back_as_soon() {
    in_jumps(async {
        let (limiter, _) = prefetched(&["a=fixed-window:1000/1h"]);
        let log: Limit = "b=sliding-log:1000/200ms".parse().unwrap();
        let call = |cost| Request::consume(Check::new(&log, "k", cost));
        for _ in 0..2 {
            for _ in 0..100 {
                let _ = allowed(&limiter).await;
            }
            let mut in_hand = 0;
            for _ in 0..100 {
                let verdicts = limiter.store().decide(call(1)).await.unwrap();
                assert!(verdicts.is_allowed());
                if verdicts.source() == Source::Prefetched {
                    in_hand = verdicts.remaining();
                }
            }
            assert!(in_hand > 0);
            // A twentieth, and half of that.
            sleep(MS * 16).await;
            let all = limiter.store().decide(call(900)).await.unwrap();
            assert!(all.is_allowed(), "{}", all.remaining());
            sleep(L * 5).await;
        }
    });
}

/// Also beside a log whose units last nearly as long.
#[test]
fn what_is_not_used_is_given_back_in_time() {
    in_jumps(async {
        let (limiter, _) = prefetched(&["a=fixed-window:1000/1h"]);
        let log: Limit = "b=sliding-log:1000/3900ms".parse().unwrap();
        let log_is_busy = async {
            loop {
                let call = Request::consume(Check::new(&log, "k", 1));
                assert!(limiter.store().decide(call).await.unwrap().is_allowed());
                sleep(MS * 7).await;
            }
        };
        let in_time = async {
            for key in 0..10 {
                sleep(MS * 13 * key).await;
                for _ in 0..100 {
                    assert!(limiter.check(key).await.unwrap().is_allowed());
                }
                sleep(L + L / 2 + MS * 2).await;
                assert_eq!(limiter.peek(key).await.unwrap().remaining(), 900);
            }
        };
        tokio::select! { () = log_is_busy => {}, () = in_time => {} }
    });
}

/// The answer to the call that asks for units comes after others have asked the store, and before their denials.
#[test]
fn nobody_is_denied_while_units_are_in_hand() {
    for limit in &LIMITS[2..] {
        in_jumps(async {
            let clock = Jumping::new();
            let slow = std::iter::repeat_n(Fault::Delay(MS * 19), 1_000);
            let store = FaultyStore::new(clock.memory(), slow);
            let store = Prefetch::new(store, L).clock(clock);
            let limiter = RateLimiter::new(store, [limit.replace("10000", "100")]).unwrap();
            for _ in 0..3 {
                let _ = allowed(&limiter).await;
            }
            let all = (0..120).map(async |_| limiter.check("k").await.unwrap());
            let all = futures_util::future::join_all(all).await;
            let allowed = all.iter().filter(|of| of.is_allowed()).count();
            assert_eq!(allowed, 97, "{limit}");
        });
    }
}

/// Nor if the call was sent before anybody asked.
#[test]
fn a_late_denial_says_nothing_if_units_are_in_hand_by_then() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        in_jumps(async {
            let clock = Jumping::new();
            let memory = Arc::new(clock.memory());
            let fails = Fault::Fail(ErrorKind::Unavailable);
            let faults = [Fault::None; 3]
                .into_iter()
                .chain([fails, Fault::Delay(L * 3 / 2)]);
            let store = FaultyStore::new(Arc::clone(&memory), faults);
            let store = Prefetch::new(store, L).clock(clock);
            let limiter = RateLimiter::new(store, ["a=fixed-window:100/1h"]).unwrap();
            let other = RateLimiter::new(memory, ["a=fixed-window:100/1h"]).unwrap();
            for _ in 0..3 {
                let _ = allowed(&limiter).await;
            }
            // It has asked in vain, so nobody asks for some time.
            assert!(limiter.check("k").await.is_err());
            let all = other.check("k").cost(97).await.unwrap();
            let late = allowed(&limiter);
            let units_arrive = async {
                let all = all.into_receipt().unwrap();
                other.refund("k", all).await.unwrap();
                sleep(L).await;
                for _ in 0..4 {
                    let _ = allowed(&limiter).await;
                }
            };
            let (late, ()) = tokio::join!(biased; late, units_arrive);
            assert_eq!(late.source(), Source::Prefetched);
        });
    });
    let [granted, used, given_back, lost] = counted(&recorder);
    assert_eq!(granted, used + given_back + lost);
}

#[test]
fn a_cost_that_is_always_denied_is_no_demand() {
    in_jumps(async {
        let (limiter, _) = prefetched(&["a=fixed-window:10000/1h"]);
        for call in 0..100 {
            let _ = allowed(&limiter).await;
            if call % 10 == 0 {
                let denied = limiter.check("k").cost(u64::MAX).await.unwrap();
                assert!(denied.is_denied());
            }
            sleep(MS).await;
        }
        let in_hand = 9_900 - limiter.peek("k").await.unwrap().remaining();
        assert!(in_hand < 500, "{in_hand}");
    });
}

#[test]
fn what_is_on_its_way_back_arrives_before_giving_back_ends_and_whoever_goes_away() {
    in_jumps(async {
        let clock = Jumping::new();
        let memory = Arc::new(Counted::new(clock.memory()));
        let store = Odd(Arc::clone(&memory), true, L / 4);
        let store = Prefetch::new(store, L).clock(clock);
        let limiter = RateLimiter::new(store, ["a=fixed-window:1000/1h"]).unwrap();
        let direct = RateLimiter::new(memory, ["a=fixed-window:1000/1h"]).unwrap();
        let left = async || direct.peek("k").await.unwrap().remaining();
        for _ in 0..100 {
            let _ = allowed(&limiter).await;
        }
        // The task has begun to give back what was not used in time.
        sleep(L + MS * 10).await;
        assert!(left().await < 900);
        limiter.store().give_back().await;
        assert_eq!(left().await, 900);
        for _ in 0..100 {
            let _ = allowed(&limiter).await;
        }
        assert!(limiter.store().give_back().now_or_never().is_none());
        sleep(L / 2).await;
        assert_eq!(left().await, 800);
    });
}

/// The time begins before the store is asked, so that a late answer cannot lengthen it.
#[test]
fn units_of_a_late_answer_end_with_the_others() {
    in_jumps(async {
        let clock = Jumping::new();
        let late = Fault::Delay(L / 2);
        let slow = FaultyStore::new(clock.memory(), std::iter::repeat_n(late, 1_000));
        let store = Prefetch::new(slow, L).clock(clock);
        let limiter = RateLimiter::new(store, ["a=fixed-window:1000/1h"]).unwrap();
        // Callers at one time, until one of them has asked for units.
        let begun = loop {
            let begun = tokio::time::Instant::now();
            let calls = (0..8).map(|_| limiter.check("k").into_future());
            for decision in futures_util::future::join_all(calls).await {
                assert!(decision.unwrap().is_allowed());
            }
            if allowed(&limiter).await.source() == Source::Prefetched {
                break begun;
            }
        };
        sleep_until(begun + L - MS).await;
        assert_eq!(allowed(&limiter).await.source(), Source::Prefetched);
        sleep_until(begun + L).await;
        assert_eq!(allowed(&limiter).await.source(), Source::Store);
    });
}

#[test]
fn a_refund_of_a_prefetched_call_is_used_again() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        in_jumps(async {
            let (limiter, asked) = prefetched(&["a=fixed-window:1000/1h"]);
            for _ in 0..100 {
                let _ = allowed(&limiter).await;
            }
            let before = allowed(&limiter).await;
            assert_eq!(before.source(), Source::Prefetched);
            let (calls, left) = (asked.calls(), before.remaining());
            limiter
                .refund("k", before.into_receipt().unwrap())
                .await
                .unwrap();
            let next = allowed(&limiter).await;
            assert_eq!((next.remaining(), asked.calls()), (left, calls));
            let settled = limiter.settle("k", next.into_receipt().unwrap(), 3);
            settled.await.unwrap();
            assert_eq!(allowed(&limiter).await.remaining(), left - 3);
            assert_eq!(asked.calls(), calls);
            // As the store does, at an instant of the caller's, or with an id.
            let late = allowed(&limiter).await.into_receipt().unwrap();
            let limit: Limit = "a=fixed-window:1000/1h".parse().unwrap();
            let refund = Request::refund(&late, Check::new(&limit, "k", 0));
            let error = limiter.store().decide(refund.at(Timestamp::UNIX_EPOCH));
            assert_eq!(error.await.unwrap_err().kind(), ErrorKind::Malformed);
            let once = allowed(&limiter).await.into_receipt().unwrap().to_bytes();
            let before = limiter.peek("k").await.unwrap().remaining();
            for _message_comes_twice in 0..2 {
                let once = Receipt::from_bytes(&once).unwrap();
                limiter.refund("k", once).id("one").await.unwrap();
            }
            assert_eq!(limiter.peek("k").await.unwrap().remaining(), before + 1);
            // When its time is over, the store has to do it.
            sleep(L * 3).await;
            let before = limiter.peek("k").await.unwrap().remaining();
            limiter.refund("k", late).await.unwrap();
            assert_eq!(limiter.peek("k").await.unwrap().remaining(), before + 1);
            // If costs differ, or what comes back may have begun a window, too.
            for (text, cost) in [
                ("fixed-window:1000/1h", 3),
                ("fixed-window:1000/1h,anchored", 1),
            ] {
                let limits: [Limit; 2] =
                    ["b", "c"].map(|of| format!("{of}={text}").parse().unwrap());
                let call = || {
                    limiter
                        .store()
                        .decide(Request::consume_all(&limits, "k", 1))
                };
                while call().await.unwrap().source() == Source::Store {}
                let receipt = call().await.unwrap().into_receipt().unwrap();
                let settle = Request::settle(&receipt, Check::new(&limits[0], "k", 1));
                let settle = settle.and(Check::new(&limits[1], "k", cost));
                let settled = limiter.store().decide(settle).await.unwrap();
                assert_eq!(settled.source(), Source::Store, "{text}");
            }
        });
    });
    let [granted, used, given_back, lost] = counted(&recorder);
    // One was put back.
    assert_eq!(granted + 1, used + given_back + lost);
}

/// What is in hand is used as soon as a call begins, also if nobody polls it.
#[test]
fn a_call_that_a_layer_refuses_uses_no_units() {
    const DOWN: Fault = Fault::Fail(ErrorKind::Unavailable);
    in_jumps(async {
        let clock = Jumping::new();
        let is_down = Arc::new(AtomicBool::new(false));
        let faults = std::iter::repeat(Arc::clone(&is_down));
        let faults = faults.map(|is_down| match is_down.load(Ordering::Relaxed) {
            true => DOWN,
            false => Fault::None,
        });
        let store = Prefetch::new(FaultyStore::new(clock.memory(), faults), L).clock(clock);
        let store = Arc::new(store);
        let limits = ["a=fixed-window:1000/1h"];
        let limiter = RateLimiter::new(Breaker::new(Arc::clone(&store)), limits).unwrap();
        while allowed(&limiter).await.source() == Source::Store {}
        let in_hand = allowed(&limiter).await.remaining();
        is_down.store(true, Ordering::Relaxed);
        for key in ["opens", "it", "there", "k", "k"] {
            assert!(limiter.check(key).await.is_err());
        }
        let limiter = RateLimiter::new(FaultyStore::new(store, [DOWN; 2]), limits).unwrap();
        for _ in 0..2 {
            assert!(limiter.check("k").await.is_err());
        }
        assert_eq!(allowed(&limiter).await.remaining(), in_hand - 1);
    });
}

/// Whoever asks may go away: others wait no longer.
#[test]
fn a_caller_that_goes_away_while_it_asks_holds_up_nobody() {
    in_jumps(async {
        let limit: Limit = "a=fixed-window:100000/1h".parse().unwrap();
        let (limiter, _) = prefetched(&["a=fixed-window:100000/1h"]);
        let call = |key| {
            let call = Request::consume(Check::new(&limit, key, 1));
            limiter.store().decide(call)
        };
        // It goes away before the other one is polled, or is never polled.
        for (key, waits) in [("leaves", Duration::ZERO), ("stays", MS * 10)] {
            for _ in 0..3 {
                assert!(call(key).await.unwrap().is_allowed());
            }
            let (begun, asks, other) = (tokio::time::Instant::now(), call(key), call(key));
            let _asks = (key == "stays").then_some(asks);
            assert!(other.await.unwrap().is_allowed());
            assert_eq!(begun.elapsed(), waits, "{key}");
        }
        for round in 0..300 {
            {
                // Never polled, and then polled once.
                drop(call("k"));
                let gone = tokio::time::timeout(Duration::ZERO, async { limiter.check("k").await });
                let _ = gone.await;
            }
            let begun = tokio::time::Instant::now();
            let _ = allowed(&limiter).await;
            assert_eq!(begun.elapsed(), Duration::ZERO, "{round}");
            sleep(MS).await;
        }
    });
}

/// Also of one limit of several, if the store takes longer for that than units last, and if the key is called
/// often only since it began.
#[test]
fn no_units_from_before_are_used_after_a_key_is_changed() {
    for (change, left) in [
        ("lower", 3),
        ("block", 0),
        ("charge", 0),
        ("give", 1_000),
        ("reset", 1_000),
    ] {
        for (calls_before, rests, takes) in [
            (0, Duration::ZERO, L / 4),
            (100, Duration::ZERO, L / 4),
            // The task has begun to give back what was not used in time.
            (100, L + MS * 10, L / 4),
            (100, Duration::ZERO, L * 2),
        ] {
            in_jumps(async {
                let clock = Jumping::new();
                let memory = Arc::new(Counted::new(clock.memory()));
                let store = Prefetch::new(Odd(memory, true, takes), L).clock(clock);
                let limits = ["a=fixed-window:1000/1h", "b=block:1h"];
                let limiter = RateLimiter::new(&store, limits).unwrap();
                let one = [limits[usize::from(change == "block")]];
                let one = RateLimiter::new(&store, one).unwrap();
                for _ in 0..calls_before {
                    let _ = allowed(&limiter).await;
                }
                sleep(rests).await;
                let is_changed = Cell::new(false);
                let changes = async {
                    match change {
                        "lower" => drop(one.lower("k", left).await.unwrap()),
                        "block" => drop(one.block("k").await.unwrap()),
                        "charge" => drop(one.charge("k").cost(2_000).await.unwrap()),
                        "give" => drop(one.give("k").cost(5_000).await.unwrap()),
                        _ => one.reset("k").await.unwrap(),
                    }
                    is_changed.set(true);
                };
                let calls = async {
                    while !is_changed.get() {
                        let _ = allowed(&limiter).await;
                        sleep(MS).await;
                    }
                };
                tokio::join!(biased; changes, calls);
                let mut admitted = 0;
                while limiter.check("k").await.unwrap().is_allowed() {
                    admitted += 1;
                }
                assert_eq!(admitted, left, "{change} within {takes:?}");
                sleep(L * 6).await;
                assert!(limiter.check("k").await.unwrap().is_denied());
            });
        }
    }
}

/// The store may change the key although the caller has gone away.
#[test]
fn no_units_are_asked_for_while_a_change_may_be_on_its_way() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        in_jumps(async {
            let clock = Jumping::new();
            let slow = std::iter::repeat_n(Fault::Delay(MS), 1_000);
            let store = FaultyStore::new(clock.memory(), slow);
            let store = Prefetch::new(store, L).clock(clock);
            let limiter = RateLimiter::new(store, ["a=fixed-window:1000/1h"]).unwrap();
            for _ in 0..3 {
                let _ = allowed(&limiter).await;
            }
            let goes_away = || limiter.lower("k", 900).into_future().now_or_never();
            // While units are asked for, and while they are in hand.
            let asks = allowed(&limiter);
            let (_, gone) = tokio::join!(biased; asks, async { goes_away() });
            assert!(gone.is_none());
            let both = async || tokio::join!(biased; allowed(&limiter), allowed(&limiter)).1;
            while both().await.source() == Source::Store {}
            assert!(goes_away().is_none());
            for _ in 1..L.as_millis() {
                assert_eq!(allowed(&limiter).await.source(), Source::Store);
            }
        });
    });
    let [granted, used, given_back, lost] = counted(&recorder);
    assert_eq!(granted, used + given_back + lost);
}

/// Nor do they arrive when it goes on.
#[test]
fn units_that_a_runtime_that_stands_still_gives_back_hold_up_others_once() {
    let clock = ManualClock::new();
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let odd = Odd(Arc::new(Counted::new(memory)), true, L / 2);
    let store = Prefetch::new(odd, L).clock(clock.clone());
    let limiter = RateLimiter::new(store, ["a=fixed-window:1000/1h"]).unwrap();
    let [first, second] = [(); 2].map(|()| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    });
    first.block_on(async {
        for _ in 0..100 {
            let _ = allowed(&limiter).await;
        }
        clock.advance(L);
        sleep(L / 2 + MS).await;
    });
    second.block_on(async {
        for longest in [11, 1] {
            let lower = limiter.lower("k", 3).into_future();
            let lower = tokio::time::timeout(Duration::from_secs(longest), lower);
            lower.await.unwrap().unwrap();
        }
    });
    let left = first.block_on(async {
        sleep(L * 100).await;
        limiter.peek("k").await.unwrap().remaining()
    });
    assert_eq!(left, 3);
}

/// Once a short log has nothing in hand, nobody looks after it.
#[test]
fn a_short_log_keeps_the_task_busy_only_while_it_is_used() {
    struct Seen(Jumping, Arc<AtomicUsize>);
    impl Clock for Seen {
        fn now(&self) -> Timestamp {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.now()
        }
    }
    in_jumps(async {
        let (clock, seen) = (Jumping::new(), Arc::default());
        let ahead = Prefetch::new(clock.memory(), L).clock(Seen(clock, Arc::clone(&seen)));
        let limiter = RateLimiter::new(ahead, ["a=sliding-log:1000/10ms"]).unwrap();
        for _ in 0..100 {
            let _ = allowed(&limiter).await;
        }
        sleep(MS * 10).await;
        let before = seen.load(Ordering::Relaxed);
        sleep(L * 2).await;
        let after = seen.load(Ordering::Relaxed);
        assert!(after - before < 20, "{}", after - before);
    });
}

#[test]
fn keys_that_are_counted_in_one_place_are_prefetched_one_after_another() {
    in_jumps(async {
        let clock = Jumping::new();
        let asked = Arc::new(Counted::new(clock.memory()));
        let store = Prefetch::new(Arc::clone(&asked), L).clock(clock);
        let limiter = RateLimiter::new(store, ["a=fixed-window:100000/1h"]).unwrap();
        // In turn, so that no key is called twice before those that share its place.
        for _ in 0..100 {
            for key in 0..1_000 {
                assert!(limiter.check(key).await.unwrap().is_allowed());
            }
            sleep(L / 20).await;
        }
        assert!(asked.calls() < 15_000, "{}", asked.calls());
    });
}

/// With so many, some quiet keys share their places with busy ones.
#[test]
fn a_key_that_is_forgotten_leaves_what_is_in_hand_of_others() {
    in_jumps(async {
        let (limiter, asked) = prefetched(&["a=fixed-window:64/1h"]);
        let call = async |keys: std::ops::Range<u32>, calls| {
            for key in keys {
                for _ in 0..calls {
                    assert!(limiter.check(key).await.unwrap().is_allowed());
                }
            }
        };
        call(0..3_000, 4).await;
        sleep(L * 7 / 4).await;
        call(3_000..3_100, 6).await;
        // Meanwhile the quiet ones are forgotten, and another process takes what the store has left.
        sleep(L * 9 / 10).await;
        let other = RateLimiter::new(asked, ["a=fixed-window:64/1h"]).unwrap();
        for key in 3_000..3_100_u32 {
            assert!(other.take_up_to(key, 64).await.unwrap().is_allowed());
        }
        call(3_000..3_100, 1).await;
        // There is room for others.
        sleep(L * 5).await;
        call(4_000..8_000, 5).await;
        let last = limiter.check(7_999).await.unwrap();
        assert_eq!(last.source(), Source::Prefetched);
    });
}

/// Two plans share the states of one name, so each has units of its own in hand.
#[test]
fn a_smaller_amount_of_the_same_name_is_a_limit_of_its_own() {
    in_jumps(async {
        let clock = Jumping::new();
        let store = Arc::new(Prefetch::new(clock.memory(), L).clock(clock));
        let large = RateLimiter::new(Arc::clone(&store), ["a=fixed-window:10000/1h"]).unwrap();
        let small = RateLimiter::new(store, ["a=fixed-window:100/1h"]).unwrap();
        let mut allowed_small = 0;
        for _ in 0..2_000 {
            let _ = allowed(&large).await;
            allowed_small += usize::from(small.check("k").await.unwrap().is_allowed());
            sleep(MS).await;
        }
        assert!(allowed_small <= 100, "{allowed_small}");
    });
}

/// Its receipt has the instant at which the units end, since it starts then.
#[test]
fn a_pending_reservation_never_comes_into_the_hand() {
    for cost in [0, 3, 12] {
        in_jumps(async {
            let (limiter, _) = prefetched(&["a=gcra:1000/1s,burst=400"]);
            while allowed(&limiter).await.source() == Source::Store {}
            let rest = limiter.peek("k").await.unwrap().remaining();
            assert!(limiter.check("k").cost(rest).await.unwrap().is_allowed());
            let pending = loop {
                let next = limiter.reserve("k").cost(10).within(L).await.unwrap();
                if next.delay().as_micros() == Some(L.as_micros().try_into().unwrap()) {
                    break next.into_receipt().unwrap();
                }
            };
            let in_hand = allowed(&limiter).await.remaining();
            let source = match cost {
                0 => limiter
                    .refund("k", pending)
                    .await
                    .unwrap()
                    .decision()
                    .source(),
                _ => {
                    let settled = limiter.settle("k", pending, cost).await.unwrap();
                    settled.decision().source()
                }
            };
            assert_eq!(source, Source::Store);
            assert_eq!(allowed(&limiter).await.remaining(), in_hand - 1);
        });
    }
}

#[test]
fn without_a_runtime_or_timers_every_call_asks_the_store() {
    let new = || {
        let asked = Arc::new(Counted::new(MemoryStore::new()));
        let store = Prefetch::new(Arc::clone(&asked), L);
        let limiter = RateLimiter::new(store, ["a=gcra:1000000/1s"]).unwrap();
        (limiter, asked)
    };
    let (limiter, asked) = new();
    for _ in 0..1_000 {
        let decision = limiter.check("k").into_future().now_or_never();
        assert!(decision.unwrap().unwrap().is_allowed());
    }
    assert_eq!(asked.calls(), 1_000);
    let (limiter, asked) = new();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        for _ in 0..1_000 {
            let _ = allowed(&limiter).await;
        }
        limiter.store().give_back().await;
    });
    assert_eq!(asked.calls(), 1_000);
}

/// A store that may have no units ahead, which it tells only when it is asked, and takes so long to take anything back, and to change a key.
struct Odd(Asked, bool, Duration);

#[async_trait::async_trait]
impl Store for Odd {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        if !request.operation().decides_a_call() {
            sleep(self.2).await;
        }
        match request.operation() {
            Operation::Prefetch(_) if !self.1 => {
                Err(StoreError::new(ErrorKind::Unsupported, "only one by one"))
            }
            _ => self.0.decide(request).await,
        }
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        sleep(self.2).await;
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }
}

/// Inside of a `Prefetch`, a `Share` has no units ahead either; around one, each costs as many as there are
/// parts.
#[test]
fn of_a_store_without_units_ahead_every_call_asks_once() {
    type Make = fn(Asked) -> Arc<dyn Store>;
    const TWO: NonZeroU32 = NonZeroU32::new(2).unwrap();
    fn ahead<S: Store + 'static>(store: S) -> Prefetch<S> {
        Prefetch::new(store, L).clock(Jumping::new())
    }
    let cases: [(u64, _, Make); 3] = [
        (1, 1_000..=1_000, |of| Arc::new(ahead(Odd(of, false, L)))),
        (2, 1_000..=1_000, |of| Arc::new(ahead(Share::new(of, TWO)))),
        (2, 0..=100, |of| Arc::new(Share::new(ahead(of), TWO))),
    ];
    for (units, calls, make) in cases {
        in_jumps(async {
            let asked = Arc::new(Counted::new(Jumping::new().memory()));
            let limit = "a=fixed-window:10000/1h";
            let limiter = RateLimiter::new(make(Arc::clone(&asked)), [limit]).unwrap();
            for _ in 0..1_000 {
                let _ = allowed(&limiter).await;
                sleep(MS).await;
            }
            assert!(calls.contains(&asked.calls()), "{}", asked.calls());
            sleep(L * 2).await;
            let direct = RateLimiter::new(asked, [limit]).unwrap();
            let left = direct.peek("k").await.unwrap().remaining();
            assert_eq!(left, 10_000 - 1_000 * units);
        });
    }
}

#[test]
fn a_give_back_that_hangs_holds_up_nobody_and_is_lost() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        in_jumps(async {
            let clock = Jumping::new();
            let asked = Arc::new(Counted::new(clock.memory()));
            let store = Prefetch::new(Odd(Arc::clone(&asked), true, L * 1_000), L).clock(clock);
            let limiter = RateLimiter::new(store, ["a=fixed-window:100000/1h"]).unwrap();
            for _ in 0..5 {
                let calls = asked.calls();
                for _ in 0..200 {
                    let _ = allowed(&limiter).await;
                }
                assert!(asked.calls() < calls + 20);
                sleep(L * 5).await;
            }
            tokio::time::timeout(Duration::from_secs(11), limiter.store().give_back())
                .await
                .unwrap();
            // A reset gives nothing back.
            for _ in 0..200 {
                let _ = allowed(&limiter).await;
            }
            let begun = tokio::time::Instant::now();
            limiter.reset("k").await.unwrap();
            assert_eq!(begun.elapsed(), L * 1_000);
        });
    });
    let [granted, used, given_back, lost] = counted(&recorder);
    assert!(lost > 0);
    assert_eq!(given_back, 0);
    assert_eq!(granted, used + lost);
}

/// Also what a runtime that ends has just begun to give back.
#[test]
fn what_a_value_that_is_dropped_has_in_hand_is_lost() {
    for gives_back in [false, true] {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || {
            in_jumps(async {
                let (limiter, _) = prefetched(&["a=fixed-window:100000/1h"]);
                for _ in 0..100 {
                    let _ = allowed(&limiter).await;
                }
                if gives_back {
                    let _ = limiter.store().give_back().now_or_never();
                }
            });
        });
        let [granted, used, given_back, lost] = counted(&recorder);
        assert!(lost > 0);
        assert_eq!((given_back, granted), (0, used + lost));
    }
}

#[test]
fn what_a_runtime_leaves_in_hand_is_given_back_by_the_next_that_asks() {
    let paused = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    };
    for ends in [true, false] {
        let clock = ManualClock::new();
        let memory = MemoryStore::builder().clock(clock.clone()).build();
        let store = Prefetch::new(memory, L).clock(clock.clone());
        let limiter = RateLimiter::new(store, ["a=fixed-window:1000/1h"]).unwrap();
        let first = paused();
        first.block_on(async {
            for _ in 0..100 {
                let _ = allowed(&limiter).await;
            }
            assert!(limiter.peek("k").await.unwrap().remaining() < 900);
        });
        // Either it is gone, or nobody drives it any more.
        let first = (!ends).then_some(first);
        clock.advance(if ends { L } else { L * 2 });
        paused().block_on(async {
            for _ in 0..100 {
                assert!(limiter.check("other").await.unwrap().is_allowed());
            }
            sleep(L).await;
            assert_eq!(limiter.peek("k").await.unwrap().remaining(), 900, "{ends}");
        });
        drop(first);
    }
}

/// No more calls are admitted in the end than if each had asked the store, and as many if the clock and what
/// began a window do not matter.
#[test]
fn a_limit_that_changes_while_units_are_in_hand_admits_as_many() {
    for algorithm in [
        "gcra",
        "sliding-log",
        "sliding-counter",
        "fixed-window",
        "anchored",
    ] {
        for amount in [500, 2_000] {
            let total = |within| {
                in_jumps(async move {
                    let clock = Jumping::new();
                    let store = Arc::new(Prefetch::new(clock.memory(), within).clock(clock));
                    let limiter = |amount: u64| {
                        let limit = match algorithm {
                            "anchored" => format!("a=fixed-window:{amount}/1h,anchored"),
                            _ => format!("a={algorithm}:{amount}/1h"),
                        };
                        RateLimiter::new(Arc::clone(&store), [limit]).unwrap()
                    };
                    let mut admitted = 0;
                    for _ in 0..100 {
                        let _ = allowed(&limiter(1_000)).await;
                        admitted += 1;
                    }
                    // The second time, what was in hand under the limit of before is back.
                    for _ in 0..2 {
                        while limiter(amount).check("k").await.unwrap().is_allowed() {
                            admitted += 1;
                        }
                        store.give_back().await;
                    }
                    admitted
                })
            };
            let (ahead, directly) = (total(L), total(Duration::ZERO));
            assert!(
                ahead <= directly,
                "{algorithm}, {amount}: {ahead} of {directly}"
            );
            if !["gcra", "anchored"].contains(&algorithm) {
                assert_eq!((ahead, directly), (amount, amount), "{algorithm}");
            }
        }
    }
}

/// So that other processes find some, too, and the last units are asked for one by one.
#[test]
fn at_most_a_quarter_of_what_is_left_is_taken_in_hand() {
    in_jumps(async {
        let (limiter, _) = prefetched(&["a=fixed-window:1000/1h"]);
        let mut most = 0;
        for _ in 0..990 {
            let in_hand = match allowed(&limiter).await {
                of_hand if of_hand.source() == Source::Prefetched => of_hand.remaining() + 1,
                _ => continue,
            };
            let at_store = limiter.peek("k").await.unwrap().remaining();
            assert!(3 * in_hand <= at_store + 3, "{in_hand} of {at_store}");
            most = most.max(in_hand);
        }
        assert!(most > 100, "{most}");
    });
}

/// What is in hand says nothing of what others have used: nobody who waits is refused while units are left.
#[test]
fn calls_that_wait_get_all_units_in_their_turn() {
    for limit in &LIMITS[1..] {
        for (amount, calls) in [(50_000, 300), (300, 300), (100, 100)] {
            let limit = limit.replace("10000", &amount.to_string());
            let limit = limit.replace("/1s", "/10s");
            in_jumps(async {
                let clock = Jumping::new();
                let slow = std::iter::repeat_n(Fault::Delay(MS), 1_000);
                let store = FaultyStore::new(clock.memory(), slow);
                let store = Prefetch::new(store, L).clock(clock);
                let limiter = RateLimiter::new(store, [&*limit]).unwrap();
                let started = Mutex::new(Vec::new());
                let waiting = (0..calls).map(async |call| {
                    let admitted = limiter.check("k").wait_up_to(MS * 500).await;
                    started.lock().unwrap().push(call);
                    admitted.map(drop).map_err(|error| error.to_string())
                });
                let all = futures_util::future::join_all(waiting).await;
                let refused = all.iter().filter(|one| one.is_err()).count();
                assert_eq!(refused, 0, "{limit}: {:?}", all.last());
                // Units in hand overtake calls that ask the store at the same time: at most 64 do.
                for (at, call) in started.into_inner().unwrap().into_iter().enumerate() {
                    assert!(call <= at + 64, "{limit}: {call} as number {at}");
                }
                limiter.store().give_back().await;
                let left = limiter.peek("k").await.unwrap().remaining();
                assert_eq!(left, amount - calls as u64, "{limit}");
            });
        }
    }
}
