//! Schedules in memory, by number of events that a quota looks at, beside a GCRA decision.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tollgate_core::schedule::{self, Schedule};
use tollgate_core::{RateLimiter, Timestamp};
use tollgate_memory::MemoryStore;

const MINUTE: u64 = 60_000_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// The time that is asked for.
const TIME: u64 = 20_000 * DAY;
/// So few that their events stay in the processor's caches.
const KEYS: usize = 256;

/// Quotas, and the events around [`TIME`] that leave room for one more.
struct Case {
    label: &'static str,
    quotas: [&'static str; 3],
    /// How many events are within a day of the time, and how far they are apart.
    events: u64,
    apart: u64,
}

const CASES: [Case; 3] = [
    Case {
        label: "0-in-reach",
        quotas: ["1/1m", "5/1h", "10/1d"],
        events: 0,
        apart: HOUR,
    },
    Case {
        label: "10-in-reach",
        quotas: ["1/1m", "5/1h", "10/1d"],
        events: 10,
        apart: 4 * HOUR,
    },
    Case {
        label: "100-in-reach",
        quotas: ["1/1m", "50/1h", "100/1d"],
        events: 100,
        apart: 28 * MINUTE,
    },
];

impl Case {
    fn schedule(&self) -> Schedule<MemoryStore> {
        let terms = schedule::Terms::new("schedule", self.quotas).expect("the quotas are valid");
        Schedule::with_terms(MemoryStore::new(), terms)
    }

    /// Returns the times of the events: half of them before [`TIME`], half after it.
    fn times(&self) -> impl Iterator<Item = u64> {
        let first = TIME - self.apart * self.events / 2 + self.apart / 2;
        let apart = self.apart;
        (0..self.events).map(move |event| first + apart * event)
    }

    fn fill(&self, schedule: &Schedule<MemoryStore>, keys: &[String]) {
        let ids: Vec<String> = (0..self.events)
            .map(|event| format!("msg-{event}"))
            .collect();
        for key in keys {
            for (id, time) in ids.iter().zip(self.times()) {
                let call = schedule.add(key, id, at(time)).at(now());
                assert!(call.run().expect("memory does not fail").is_planned());
            }
        }
    }
}

fn at(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}

/// The present: two days before the time.
fn now() -> Timestamp {
    at(TIME - 2 * DAY)
}

/// Returns how long `calls` calls take, one for each key in turn. After every key had its turn,
/// `undo` runs for each key, outside of the measurement.
fn time(keys: &[String], calls: u64, call: impl Fn(&String), undo: impl Fn(&String)) -> Duration {
    let mut taken = Duration::ZERO;
    let mut left = usize::try_from(calls).unwrap_or(usize::MAX);
    while left > 0 {
        let turn = &keys[..left.min(keys.len())];
        let begun = Instant::now();
        turn.iter().for_each(&call);
        taken += begun.elapsed();
        turn.iter().for_each(&undo);
        left -= turn.len();
    }
    taken
}

fn schedules(criterion: &mut Criterion) {
    let keys = tollgate_benches::keys(KEYS);
    let mut group = criterion.benchmark_group("schedules");
    let limiter = RateLimiter::new(MemoryStore::new(), ["gcra=gcra:1000000000/1s"]);
    let limiter = limiter.expect("the limit is valid");
    group.bench_function("gcra", |bencher| {
        let call = |key: &String| {
            let _ = black_box(limiter.check(key).at(now()).run());
        };
        bencher.iter_custom(|calls| time(&keys, calls, call, |_| ()));
    });
    for case in &CASES {
        let schedule = case.schedule();
        case.fill(&schedule, &keys);
        let add = |key: &String, time| {
            let placement = schedule.add(key, "msg-new", at(time)).at(now()).run();
            black_box(placement)
                .expect("memory does not fail")
                .is_planned()
        };
        group.bench_function(BenchmarkId::new("add", case.label), |bencher| {
            let call = |key: &String| assert!(add(key, TIME));
            let undo = |key: &String| {
                let cancelled = schedule.cancel(key, "msg-new").at(now()).run();
                assert!(cancelled.expect("memory does not fail"));
            };
            bencher.iter_custom(|calls| time(&keys, calls, call, undo));
        });
        group.bench_function(BenchmarkId::new("next-free", case.label), |bencher| {
            let call = |key: &String| {
                let next = schedule.next_free(key, at(TIME)).at(now()).run();
                assert_eq!(black_box(next).ok(), Some(Some(at(TIME))));
            };
            bencher.iter_custom(|calls| time(&keys, calls, call, |_| ()));
        });
        if let Some(taken) = case.times().next() {
            group.bench_function(BenchmarkId::new("refused", case.label), |bencher| {
                let call = |key: &String| assert!(!add(key, taken + 1));
                bencher.iter_custom(|calls| time(&keys, calls, call, |_| ()));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = schedules
}
criterion_main!(benches);
