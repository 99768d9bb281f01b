//! `Observed` counts what callers see.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::timeout;
use tollgate_core::store::Source;
use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_layers::{Observed, Share, usual};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

use crate::order::KillSwitch;
use crate::support::in_jumps;

/// Returns what was counted, by name and labels, without what is zero.
fn counted(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let mut counts = registered(snapshotter);
    counts.retain(|_, count| *count > 0);
    counts
}

/// Returns all counters and their values.
fn registered(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let taken = snapshotter.snapshot().into_vec().into_iter();
    taken
        .filter_map(|(key, _, _, value)| {
            let labels = key.key().labels();
            let labels: Vec<_> = labels.map(|label| label.value()).collect();
            let name = format!("{}{{{}}}", key.key().name(), labels.join(","));
            match value {
                DebugValue::Counter(count) => Some((name, count)),
                DebugValue::Histogram(durations) => {
                    Some((name, u64::try_from(durations.len()).unwrap()))
                }
                DebugValue::Gauge(_) => None,
            }
        })
        .collect()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

/// Runs `calls`, and returns what they counted.
fn observe(calls: impl FnOnce()) -> BTreeMap<String, u64> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, calls);
    counted(&recorder.snapshotter())
}

fn expected<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let counts = counts.into_iter();
    counts
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

const LIMITS: [&str; 2] = ["burst=gcra:3/1s", "all=sliding-log:9/1m"];

/// What the calls of [`call`] count, without durations.
fn of_calls() -> BTreeMap<String, u64> {
    expected([
        ("tollgate_decisions_total{burst,allowed,store}", 2),
        ("tollgate_decisions_total{all,allowed,store}", 2),
        ("tollgate_decisions_total{burst,denied,store}", 1),
        ("tollgate_decisions_total{all,denied_by_other,store}", 1),
        ("tollgate_units_total{burst,allowed}", 3),
        ("tollgate_units_total{all,allowed}", 3),
        ("tollgate_units_total{burst,denied}", 2),
        ("tollgate_units_total{all,denied_by_other}", 2),
    ])
}

#[test]
fn decisions_and_units_are_counted_for_each_limit_in_memory() {
    let clock = ManualClock::new();
    let memory = MemoryStore::builder().clock(clock).build();
    let limiter = RateLimiter::new(Observed::new(memory), LIMITS).unwrap();
    let counts = observe(|| {
        let _ = limiter.peek("alice").run().unwrap();
        let _ = limiter.check("alice").cost(2).run().unwrap();
        let _ = limiter.take_up_to("alice", 1).run().unwrap();
        let _ = limiter.check("alice").cost(2).run().unwrap();
        let _ = limiter.charge("alice").run().unwrap();
        let _ = limiter.give("alice").run().unwrap();
    });
    assert_eq!(counts, of_calls());
}

#[test]
fn a_store_that_has_to_be_waited_for_is_timed_too() {
    let clock = ManualClock::new();
    let memory = MemoryStore::builder().clock(clock).build();
    // It does not say that it need not wait.
    let store = FaultyStore::new(memory, []);
    let limiter = RateLimiter::new(Observed::new(store), LIMITS).unwrap();
    let counts = observe(|| {
        block_on(async {
            let _ = limiter.peek("alice").await.unwrap();
            let _ = limiter.check("alice").cost(2).await.unwrap();
            let _ = limiter.take_up_to("alice", 1).await.unwrap();
            let _ = limiter.check("alice").cost(2).await.unwrap();
            let _ = limiter.charge("alice").await.unwrap();
            let _ = limiter.give("alice").await.unwrap();
        });
    });
    let mut expected = of_calls();
    let timed = "tollgate_decision_duration_seconds{store}".to_owned();
    let _ = expected.insert(timed, 6);
    assert_eq!(counts, expected);
}

#[test]
fn a_call_that_waits_is_in_flight_until_it_ends_or_is_dropped() {
    let slow = [Fault::Delay(Duration::from_secs(3600)); 2];
    let store = Observed::new(FaultyStore::new(MemoryStore::new(), slow));
    let limiter = RateLimiter::new(store, ["a=gcra:5/1s"]).unwrap();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    // By how many more than the last time.
    let in_flight = || {
        let taken = snapshotter.snapshot().into_vec().into_iter();
        let mut gauges = taken.filter_map(|(_, _, _, value)| match value {
            DebugValue::Gauge(gauge) => Some(gauge.0),
            _ => None,
        });
        gauges.next()
    };
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let first = timeout(Duration::from_secs(1), limiter.check("alice"));
            let second = limiter.check("alice");
            let both = async { tokio::join!(first, second) };
            let looks = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let at_first = in_flight();
                tokio::time::sleep(Duration::from_secs(1)).await;
                (at_first, in_flight())
            };
            let (_, looks) = tokio::join!(both, looks);
            assert_eq!(looks, (Some(2.0), Some(-1.0)));
        });
    });
    assert_eq!(in_flight(), Some(-1.0));
}

#[test]
fn callers_who_go_away_are_counted_for_each_limit_of_calls_that_consume() {
    let slow = [Fault::Delay(Duration::from_secs(3600)); 3];
    let store = Observed::new(FaultyStore::new(MemoryStore::new(), slow));
    let limiter = RateLimiter::new(store, LIMITS).unwrap();
    let mut counts = observe(|| {
        in_jumps(async {
            let second = Duration::from_secs(1);
            assert!(timeout(second, limiter.peek("alice")).await.is_err());
            let check = limiter.check("alice").cost(2);
            assert!(timeout(second, check).await.is_err());
            let take = limiter.take_up_to("alice", 1);
            assert!(timeout(second, take).await.is_err());
            // What those took is not there for others, though nobody had an answer.
            assert!(limiter.check("alice").await.unwrap().is_denied());
            assert!(limiter.check("bob").await.unwrap().is_allowed());
        });
    });
    counts.retain(|name, _| name.contains("_total{"));
    let expected = expected([
        ("tollgate_decisions_total{all,abandoned,store}", 2),
        ("tollgate_decisions_total{all,allowed,store}", 1),
        ("tollgate_decisions_total{all,denied_by_other,store}", 1),
        ("tollgate_decisions_total{burst,abandoned,store}", 2),
        ("tollgate_decisions_total{burst,allowed,store}", 1),
        ("tollgate_decisions_total{burst,denied,store}", 1),
        ("tollgate_units_total{all,abandoned}", 3),
        ("tollgate_units_total{all,allowed}", 1),
        ("tollgate_units_total{all,denied_by_other}", 1),
        ("tollgate_units_total{burst,abandoned}", 3),
        ("tollgate_units_total{burst,allowed}", 1),
        ("tollgate_units_total{burst,denied}", 1),
    ]);
    assert_eq!(counts, expected);
}

/// A rate sees the first denial, since the counter was zero before.
#[test]
fn counters_of_a_limit_are_there_from_its_first_call_on() {
    let limiter = RateLimiter::new(Observed::new(MemoryStore::new()), LIMITS).unwrap();
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        assert!(limiter.check("alice").run().unwrap().is_allowed());
    });
    let registered = registered(&recorder.snapshotter());
    for name in [
        "tollgate_decisions_total{burst,denied,store}",
        "tollgate_decisions_total{all,denied,cache}",
        "tollgate_units_total{all,denied}",
        "tollgate_store_errors_total{unavailable}",
    ] {
        assert_eq!(registered.get(name), Some(&0), "{name}");
    }
}

#[test]
fn errors_are_counted_by_kind_and_are_no_denials() {
    let faults = [
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
        Fault::Fail(ErrorKind::Full),
    ];
    let store = Observed::new(FaultyStore::new(MemoryStore::new(), faults));
    let limiter = RateLimiter::new(store, ["a=gcra:5/1s"]).unwrap();
    let counts = observe(|| {
        block_on(async {
            for _ in 0..3 {
                assert!(limiter.check("alice").await.is_err());
            }
        });
    });
    let expected = expected([
        ("tollgate_store_errors_total{full}", 1),
        ("tollgate_store_errors_total{unavailable}", 1),
        ("tollgate_store_errors_total{unknown_outcome}", 1),
    ]);
    assert_eq!(counts, expected);
}

#[test]
fn the_source_of_a_decision_is_a_label() {
    let faults = [
        Fault::None,
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
        Fault::Fail(ErrorKind::Unavailable),
    ];
    let local = Share::new(MemoryStore::new(), NonZeroU32::MIN);
    let store = usual(FaultyStore::new(MemoryStore::new(), faults), local);
    let limiter = RateLimiter::new(store, ["a=sliding-log:1/1h"]).unwrap();
    let mut counts = observe(|| {
        block_on(async {
            for key in ["alice", "alice", "alice", "bob", "carol"] {
                let _ = limiter.check(key).await.unwrap();
            }
        });
    });
    counts.retain(|name, _| !name.contains("units"));
    let expected = expected([
        ("tollgate_decision_duration_seconds{cache}", 1),
        ("tollgate_decision_duration_seconds{fallback}", 2),
        ("tollgate_decision_duration_seconds{store}", 2),
        ("tollgate_decisions_total{a,allowed,fallback}", 2),
        ("tollgate_decisions_total{a,allowed,store}", 1),
        ("tollgate_decisions_total{a,denied,cache}", 1),
        ("tollgate_decisions_total{a,denied,store}", 1),
        ("tollgate_fallbacks_total{unavailable}", 2),
    ]);
    assert_eq!(counts, expected);
}

#[test]
fn a_layer_that_denies_by_itself_is_no_fallback() {
    let store = Observed::new(KillSwitch(MemoryStore::new(), AtomicBool::new(true)));
    let limiter = RateLimiter::new(store, ["a=sliding-log:1/1h"]).unwrap();
    let counts = observe(|| {
        let decision = block_on(limiter.check("alice").into_future()).unwrap();
        assert!(decision.is_denied() && decision.source() == Source::Layer);
    });
    assert_eq!(counts["tollgate_decisions_total{a,denied,layer}"], 1);
    assert_eq!(counts["tollgate_decision_duration_seconds{layer}"], 1);
}

#[test]
fn reservations_are_counted() {
    let limiter = RateLimiter::new(Observed::new(MemoryStore::new()), ["a=gcra:1/1h"]).unwrap();
    let counts = observe(|| {
        for is_allowed in [true, false] {
            let reserved = limiter.reserve("alice").within(Duration::ZERO).run();
            assert_eq!(reserved.unwrap().is_allowed(), is_allowed);
        }
    });
    let expected = expected([
        ("tollgate_decisions_total{a,allowed,store}", 1),
        ("tollgate_decisions_total{a,denied,store}", 1),
        ("tollgate_units_total{a,allowed}", 1),
        ("tollgate_units_total{a,denied}", 1),
    ]);
    assert_eq!(counts, expected);
}

#[test]
fn more_limits_than_have_handles_are_counted_too() {
    let store = Observed::new(MemoryStore::new());
    let counts = observe(|| {
        for limit in 0..40 {
            let limiter = RateLimiter::new(&store, [format!("limit-{limit}=gcra:5/1s")]);
            let limiter = limiter.unwrap();
            for _ in 0..2 {
                let _ = limiter.check("alice").run().unwrap();
            }
        }
    });
    assert_eq!(counts.len(), 80);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
}

#[test]
fn a_store_need_not_be_waited_for_if_the_wrapped_one_need_not() {
    assert!(Observed::new(MemoryStore::new()).as_sync().is_some());
    let waits = FaultyStore::new(MemoryStore::new(), []);
    assert!(Observed::new(waits).as_sync().is_none());
}

#[test]
fn what_a_limit_in_shadow_would_deny_is_counted() {
    let limits = ["all=gcra:9/1h", "next=gcra:1/1h,shadow"];
    let limiter = RateLimiter::new(Observed::new(MemoryStore::new()), limits).unwrap();
    let counts = observe(|| {
        for _ in 0..3 {
            assert!(limiter.check("alice").run().unwrap().is_allowed());
        }
    });
    let expected = expected([
        ("tollgate_decisions_total{all,allowed,store}", 3),
        ("tollgate_decisions_total{next,allowed,store}", 1),
        ("tollgate_decisions_total{next,shadow_denied,store}", 2),
        ("tollgate_units_total{all,allowed}", 3),
        ("tollgate_units_total{next,allowed}", 1),
        ("tollgate_units_total{next,shadow_denied}", 2),
    ]);
    assert_eq!(counts, expected);
}
