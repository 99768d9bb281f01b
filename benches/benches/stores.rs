//! Calls to stores, in memory and on a server: every algorithm, one call at a time and 64 at once.
//!
//! To add a store of your own, add it to [`stores`]; `docs/benchmarks.md` shows how.

use std::env;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tollgate_core::{RateLimiter, Store};
use tollgate_fred::FredStoreBuilder;
use tollgate_memory::MemoryStore;
use tollgate_redis::RedisStoreBuilder;
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

type Limiter = RateLimiter<Arc<dyn Store>>;

/// The algorithms, with a quota that no loop exhausts and one that is exhausted at once.
const ALGORITHMS: [[&str; 3]; 7] = [
    ["gcra", "gcra:1000000000/1s", "gcra:1/1h"],
    [
        "fixed-window",
        "fixed-window:1000000000/1s",
        "fixed-window:1/1h",
    ],
    [
        "fixed-window-anchored",
        "fixed-window:1000000000/1s,anchored",
        "fixed-window:1/1h,anchored",
    ],
    [
        "calendar-window",
        "fixed-window:1000000000/month@Europe/Berlin",
        "fixed-window:1/year@Europe/Berlin",
    ],
    [
        "sliding-counter",
        "sliding-counter:1000000000/1s",
        "sliding-counter:1/1h",
    ],
    [
        "sliding-buckets",
        "sliding-buckets:1000000000/1s,buckets=10",
        "sliding-buckets:1/1h,buckets=10",
    ],
    ["sliding-log", "sliding-log:100000/1ms", "sliding-log:1/1h"],
];
/// How many limits one call is decided under.
const LIMITS: [usize; 3] = [1, 2, 4];
const IN_FLIGHT: [u64; 2] = [1, 64];
const KEYS: usize = 256;

/// Returns the stores to compare, with their names.
async fn stores(url: &str) -> Vec<(&'static str, Arc<dyn Store>)> {
    let prefix = format!("bench-{}", std::process::id());
    let options = Options::new().with_deadline(Duration::from_secs(10));
    let options = || {
        options
            .clone()
            .with_prefix(&prefix)
            .expect("the prefix is valid")
    };
    let redis = RedisStoreBuilder::from(options()).connect(url).await;
    let fred = FredStoreBuilder::from(options()).connect(url).await;
    vec![
        ("memory", Arc::new(MemoryStore::new())),
        ("redis", Arc::new(redis.expect("the server answers"))),
        ("fred", Arc::new(fred.expect("the server answers"))),
    ]
}

/// Returns how long `calls` calls take, `in_flight` at once.
async fn time(limiter: &Limiter, keys: &Arc<Vec<String>>, in_flight: u64, calls: u64) -> Duration {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..in_flight {
        let own = calls / in_flight + u64::from(task < calls % in_flight);
        let (limiter, keys) = (limiter.clone(), Arc::clone(keys));
        tasks.spawn(async move {
            let first = usize::try_from(task).unwrap_or(0) * KEYS / 64;
            let own = usize::try_from(own).unwrap_or(usize::MAX);
            for key in keys.iter().cycle().skip(first).take(own) {
                let decision = limiter.check(key).await;
                black_box(&decision).as_ref().expect("the store answers");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the task ends");
    }
    begun.elapsed()
}

fn compare(criterion: &mut Criterion) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime: Runtime = runtime.expect("a runtime starts");
    let given = env::var("TOLLGATE_BENCH_URL").ok();
    // A server of its own stops when it is dropped.
    let own = given.is_none().then(|| Server::start(Flavor::System));
    let url = given.or_else(|| Some(own.as_ref()?.url()));
    let url = url.expect("there is a server");
    let stores = runtime.block_on(stores(&url));
    let keys = Arc::new(tollgate_benches::keys(KEYS));
    for [algorithm, allowed, denied] in ALGORITHMS {
        for (outcome, limit) in [("allowed", allowed), ("denied", denied)] {
            for limits in LIMITS {
                for in_flight in IN_FLIGHT {
                    let name = format!("{algorithm}/{outcome}/{limits}-limits/{in_flight}-at-once");
                    let mut group = criterion.benchmark_group(name);
                    group.throughput(Throughput::Elements(1));
                    for (name, store) in &stores {
                        // Limits of this benchmark alone, so that no other has exhausted them.
                        let limits =
                            (1..=limits).map(|of| format!("{outcome}-{limits}-{of}={limit}"));
                        let limits: Vec<_> = limits.collect();
                        let limiter = RateLimiter::new(Arc::clone(store), &limits);
                        let limiter = limiter.expect("the limits are valid");
                        // Every key is stored, and a quota of one is exhausted.
                        let warm_up = u64::try_from(2 * KEYS).expect("a small number");
                        runtime.block_on(time(&limiter, &keys, 64, warm_up));
                        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                            bencher.iter_custom(|calls| {
                                runtime.block_on(time(&limiter, &keys, in_flight, calls))
                            });
                        });
                    }
                    group.finish();
                }
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = compare
}
criterion_main!(benches);
