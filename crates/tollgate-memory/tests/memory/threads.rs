//! Many threads at once: no limit is exceeded, no call is lost, and no threads deadlock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{FixedWindow, Gcra, Limit, Quota, SlidingLog, SyncStore};
use tollgate_memory::{ManualClock, MemoryStore};

const THREADS: usize = 8;

/// Composites lock the same shards in every order: a lock cycle would hang the test.
#[test]
fn composites_over_several_shards_neither_deadlock_nor_tear() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let quota = Quota::per_day(2_000);
    let limits = [
        Limit::new("a", FixedWindow::aligned(quota)).unwrap(),
        Limit::new("b", Gcra::new(quota).unwrap()).unwrap(),
        Limit::new("c", SlidingLog::new(quota).unwrap()).unwrap(),
    ];
    let keys: Vec<String> = (0..16).map(|key| format!("key-{key}")).collect();
    let granted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, limits, keys, granted) = (&store, &limits, &keys, &granted);
            scope.spawn(move || {
                for round in 0..1_500 {
                    let mut checks: Vec<_> = (0..limits.len())
                        .flat_map(|limit| (0..4).map(move |key| (limit, key)))
                        .map(|(limit, key)| {
                            Check::new(&limits[limit], keys[(key * 5 + thread) % 16].as_str(), 1)
                        })
                        .collect();
                    let turn = (thread + round) % checks.len();
                    checks.rotate_left(turn);
                    let request = Request::new(Operation::Consume, &checks);
                    granted.fetch_add(
                        store.decide_now(&request).unwrap().consumed(),
                        Ordering::Relaxed,
                    );
                }
            });
        }
    });
    // Over all keys, each admitted composite has consumed four units of each limit.
    for limit in &limits {
        let consumed: u64 = keys
            .iter()
            .map(|key| {
                let peek = Request::peek(Check::new(limit, key, 0));
                2_000 - store.decide_now(&peek).unwrap().remaining()
            })
            .sum();
        assert_eq!(consumed, 4 * granted.load(Ordering::Relaxed), "{limit}");
    }
}

#[test]
fn a_full_store_is_never_overfilled() {
    let store = MemoryStore::builder()
        .max_keys(500)
        .clock(ManualClock::new())
        .build();
    let limit = Limit::new("once", FixedWindow::aligned(Quota::per_day(1))).unwrap();
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, limit, admitted) = (&store, &limit, &admitted);
            scope.spawn(move || {
                for key in 0..200 {
                    let key = format!("{thread}-{key}");
                    let request = Request::consume(Check::new(limit, &key, 1));
                    if store
                        .decide_now(&request)
                        .is_ok_and(|decision| decision.is_allowed())
                    {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(store.len() <= 500);
                }
            });
        }
    });
    assert_eq!(admitted.into_inner(), 500);
    assert_eq!(store.len(), 500);
}
