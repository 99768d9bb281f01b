//! What `cargo bench` measures: the same calls on every store, and the algorithms in memory, both beside governor.
//!
//! To compare a store of your own, add it to [`compare`]; `docs/benchmarks.md` shows how.

mod server;
#[cfg(feature = "sql")]
mod sql;

use std::cell::LazyCell;
use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    AxisScale, BenchmarkGroup, Criterion, PlotConfiguration, PlottingBackend, Throughput,
};
use governor::clock::FakeRelativeClock;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter as Governor};
use tokio::task::JoinSet;
use tollgate_core::{ManualClock, RateLimiter, Store};
use tollgate_memory::MemoryStore;

pub use self::server::Server;

type Group<'c> = BenchmarkGroup<'c, WallTime>;
type Problem = Box<dyn Error + Send + Sync>;

/// Calls that are the same for every store.
#[derive(Debug)]
struct Case {
    name: &'static str,
    /// Whether all of them are allowed, or all denied: every limit allows one an hour then.
    is_allowed: bool,
    /// How many keys are called in turn.
    keys: usize,
    /// How many calls each key has made before.
    before: usize,
    /// How many limits decide together.
    limits: usize,
    in_flight: usize,
}

const CASE: Case = case("allowed, 1 key", true, 1, 1);

const CASES: [Case; 9] = [
    CASE,
    case("allowed, 10k keys", true, 10_000, 1),
    case("denied, 1 key", false, 1, 1),
    case("denied, 10k keys", false, 10_000, 1),
    case("2 limits", true, 1, 2),
    case("4 limits", true, 1, 4),
    case("2 limits, 10k keys", true, 10_000, 2),
    case("4 limits, 10k keys", true, 10_000, 4),
    Case {
        in_flight: 64,
        ..case("64 in flight", true, 10_000, 1)
    },
];

/// Returns a case of calls that are made one after another, and of keys that have been called once.
const fn case(name: &'static str, is_allowed: bool, keys: usize, limits: usize) -> Case {
    Case {
        name,
        is_allowed,
        keys,
        before: 1,
        limits,
        in_flight: 1,
    }
}

/// How far steady calls of a key are apart under a limit of 110 in two seconds, so that 100 of them count. Sliding
/// buckets would deny some that come faster than the limit allows.
const STEP: Duration = Duration::from_millis(20);

/// The name of each algorithm, and its limit of `N`.
const ALGORITHMS: [(&str, &str); 6] = [
    ("GCRA", "limit=gcra:N"),
    ("fixed window", "limit=fixed-window:N"),
    ("anchored window", "limit=fixed-window:N,anchored"),
    ("sliding counter", "limit=sliding-counter:N"),
    ("sliding buckets", "limit=sliding-buckets:N,buckets=10"),
    ("sliding log", "limit=sliding-log:N"),
];

/// Returns how everything is measured, unless the command line says otherwise.
#[must_use]
pub fn config() -> Criterion {
    Criterion::default()
        // The same plots everywhere, also where gnuplot is.
        .plotting_backend(PlottingBackend::Plotters)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .nresamples(10_000)
}

/// Measures every case on every store.
pub fn stores(criterion: &mut Criterion) {
    compare(criterion, &Server::from_environment());
}

/// Measures every case on every store; those on a server use `server`.
pub fn compare(criterion: &mut Criterion, server: &Server) {
    #[cfg(feature = "sql")]
    let databases = sql::Databases::default();
    for case in &CASES {
        let mut group = group(criterion, case.name);
        in_memory(&mut group, case);
        if case.limits == 1 && case.in_flight == 1 {
            beside_governor(&mut group, case);
        }
        on_server(&mut group, "redis-rs", case, server, || server.redis());
        on_server(&mut group, "fred", case, server, || server.fred());
        #[cfg(feature = "sql")]
        databases.compare(&mut group, case, server);
        group.finish();
    }
    #[cfg(feature = "sql")]
    databases.one_key(criterion, server);
}

fn group<'c>(criterion: &'c mut Criterion, name: &str) -> Group<'c> {
    let mut group = criterion.benchmark_group(name);
    let plots = PlotConfiguration::default().summary_scale(AxisScale::Logarithmic);
    group.plot_config(plots).throughput(Throughput::Elements(1));
    group
}

fn limiter<S: Store>(store: S, limits: &[impl AsRef<str>]) -> RateLimiter<S> {
    let limits = limits.iter().map(AsRef::as_ref);
    RateLimiter::new(store, limits).expect("the limits are valid")
}

impl Case {
    /// Returns a limiter with this case's limits, whose keys have no other case's state.
    fn limiter<S: Store>(&self, store: S) -> RateLimiter<S> {
        let quota = if self.is_allowed {
            "1000000000/1s"
        } else {
            "1/1h"
        };
        let name = self.name.replace([' ', ','], "-");
        let limits = (0..self.limits).map(|limit| format!("{name}-{limit}=gcra:{quota}"));
        limiter(store, &limits.collect::<Vec<_>>())
    }

    /// Returns the keys, in an order that caches do not predict.
    fn keys(&self) -> Vec<String> {
        let number = |index| index * 7_919 % self.keys;
        (0..self.keys)
            .map(|index| format!("user:{}", number(index)))
            .collect()
    }
}

/// Measures calls that a thread makes in memory, one for each key in turn.
fn timed(
    group: &mut Group<'_>,
    name: &str,
    case: &Case,
    check: impl Fn(&String) -> Result<bool, Problem>,
) {
    let keys = LazyCell::new(|| {
        let keys = case.keys();
        let before = keys.iter().cycle().take(case.before * keys.len());
        before.for_each(|key| assert!(check(key).is_ok()));
        keys
    });
    let mut turns = None;
    group.bench_function(name, |bencher| {
        // They go on where the last sample ended, so that the calls of each key are evenly apart.
        let keys = turns.get_or_insert_with(|| keys.iter().cycle());
        bencher.iter(|| {
            let allowed = keys.next().map(&check);
            assert!(matches!(allowed, Some(Ok(allowed)) if allowed == case.is_allowed));
        });
    });
}

fn in_memory(group: &mut Group<'_>, case: &Case) {
    let limiter = case.limiter(MemoryStore::new());
    let check = |key: &String| Ok(limiter.check(key).run()?.is_allowed());
    timed(group, "memory", case, check);
}

fn beside_governor(group: &mut Group<'_>, case: &Case) {
    let quota = if case.is_allowed {
        Quota::per_second(NonZeroU32::new(1_000_000_000).expect("it is not zero"))
    } else {
        Quota::per_hour(NonZeroU32::MIN)
    };
    let governor = DefaultKeyedRateLimiter::keyed(quota);
    timed(group, "governor", case, |key| {
        Ok(governor.check_key(key).is_ok())
    });
}

/// Measures calls that are awaited, as many in flight as the case has, of the store that `connect` returns. That is
/// called only if the filter of the command line selects one of them.
fn on_server<S: Store + 'static>(
    group: &mut Group<'_>,
    name: &str,
    case: &Case,
    server: &Server,
    connect: impl FnOnce() -> S,
) {
    let ready = LazyCell::new(|| {
        let (limiter, keys) = (case.limiter(connect()), case.keys());
        // Each key is stored, and a quota of one is exhausted.
        let first = calls(&limiter, &keys, 64, case.keys, None);
        server.runtime().block_on(first);
        (limiter, keys)
    });
    group.bench_function(name, |bencher| {
        let (limiter, keys) = &*ready;
        bencher.iter_custom(|count| {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let allowed = Some(case.is_allowed);
            let calls = calls(limiter, keys, case.in_flight, count, allowed);
            server.runtime().block_on(calls)
        });
    });
}

/// Makes calls, some of them in flight at once, each with its outcome if one is expected, and returns how long
/// that took.
async fn calls<S: Store + 'static>(
    limiter: &RateLimiter<S>,
    keys: &[String],
    in_flight: usize,
    count: usize,
    allowed: Option<bool>,
) -> Duration {
    let mut tasks = JoinSet::new();
    // Each task calls keys of its own, if there are enough.
    let tasks_of_a_key = in_flight.div_ceil(keys.len());
    let groups = in_flight / tasks_of_a_key;
    let shares: Vec<Vec<String>> = (0..in_flight)
        .map(|task| {
            keys.iter()
                .skip(task % groups)
                .step_by(groups)
                .cloned()
                .collect()
        })
        .collect();
    let begun = Instant::now();
    for (task, keys) in shares.into_iter().enumerate() {
        let limiter = limiter.clone();
        let count = count / in_flight + usize::from(task < count % in_flight);
        tasks.spawn(async move {
            for key in keys.iter().cycle().take(count) {
                let is_allowed = limiter.check(key).await?.is_allowed();
                assert_eq!(is_allowed, allowed.unwrap_or(is_allowed));
            }
            Ok::<(), Problem>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the task ends").expect("the store answers");
    }
    begun.elapsed()
}

/// Measures each algorithm in memory, and governor: calls for one key that come as fast as they can under a limit that
/// none exceeds, and calls for one key or many at a steady rate just below that of their limit, so that one leaves the
/// window as each comes, by a clock that is set by hand.
pub fn algorithms(criterion: &mut Criterion) {
    const MANY: NonZeroU32 = NonZeroU32::new(100_000_000).unwrap();
    const STEADY: NonZeroU32 = NonZeroU32::new(55).unwrap();

    let mut fast = group(criterion, "algorithm");
    let governor = DefaultKeyedRateLimiter::keyed(Quota::per_second(MANY));
    timed(&mut fast, "governor", &CASE, |key| {
        Ok(governor.check_key(key).is_ok())
    });
    for (name, limit) in ALGORITHMS {
        // No loop makes 100,000 calls, which are the most that a log keeps, within a millisecond.
        let limiter = limiter(MemoryStore::new(), &[limit.replace('N', "100000/1ms")]);
        timed(&mut fast, name, &CASE, |key| {
            Ok(limiter.check(key).run()?.is_allowed())
        });
    }
    fast.finish();

    for (name, keys) in [("steady", 1), ("steady, 10k keys", 10_000)] {
        let mut steady = group(criterion, name);
        let case = Case {
            keys: usize::try_from(keys).unwrap_or(usize::MAX),
            before: 110,
            ..CASE
        };
        let step = STEP / keys;
        let clock = FakeRelativeClock::default();
        let governor = Governor::dashmap_with_clock(Quota::per_second(STEADY), clock.clone());
        timed(&mut steady, "governor", &case, |key| {
            clock.advance(step);
            Ok(governor.check_key(key).is_ok())
        });
        for (name, limit) in ALGORITHMS {
            let clock = ManualClock::new();
            let store = MemoryStore::builder().clock(clock.clone()).build();
            let limiter = limiter(store, &[limit.replace('N', "110/2s")]);
            timed(&mut steady, name, &case, |key| {
                clock.advance(step);
                Ok(limiter.check(key).run()?.is_allowed())
            });
        }
        steady.finish();
    }
}
