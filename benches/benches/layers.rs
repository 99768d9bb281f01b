//! What the layers cost beside a decision in memory, and how fast the cache refuses.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use metrics_exporter_prometheus::PrometheusBuilder;
use tollgate_benches::{Problem, keys};
use tollgate_core::store::Source;
use tollgate_core::{Decision, RateLimiter, Store};
use tollgate_layers::{AllowAll, DenyCache, Observed, Prefetch, usual};
use tollgate_memory::MemoryStore;

const KEY: &str = "customer-4711";
/// How many clients are refused in turn.
const CLIENTS: usize = 1_000;
const ADMITS: [&str; 2] = ["requests=gcra:1000000000/1s", "bursts=gcra:2000000000/1s"];
const DENIES: [&str; 1] = ["requests=sliding-log:1/1h"];

/// Makes a call that has to be awaited, of a store that decides at once.
fn awaited<'l>(limiter: &'l RateLimiter<impl Store>, key: &String) -> Option<Decision<'l>> {
    let call = pin!(limiter.check(key).into_future());
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decision) => decision.ok(),
        Poll::Pending => None,
    }
}

fn layers(criterion: &mut Criterion) {
    measure(criterion).expect("the limits are possible");
}

fn measure(criterion: &mut Criterion) -> Result<(), Problem> {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::set_global_recorder(recorder)?;
    let mut group = criterion.benchmark_group("layers");
    group.throughput(Throughput::Elements(1));
    for (name, limits) in [("1-limit", &ADMITS[..1]), ("2-limits", &ADMITS[..])] {
        let limiter = RateLimiter::new(MemoryStore::new(), limits.iter().copied())?;
        group.bench_function(format!("memory/{name}"), |bencher| {
            bencher.iter(|| limiter.check(KEY).run());
        });
        let limiter = RateLimiter::new(Observed::new(MemoryStore::new()), limits.iter().copied())?;
        group.bench_function(format!("observed/{name}"), |bencher| {
            bencher.iter(|| limiter.check(KEY).run());
        });
    }
    let keys = keys(CLIENTS);
    // What every call costs that has to be awaited.
    let limiter = RateLimiter::new(AllowAll, DENIES)?;
    group.bench_function("awaited", |bencher| {
        let mut keys = keys.iter().cycle();
        bencher.iter(|| keys.next().map(|key| awaited(&limiter, key).is_some()));
    });
    let limiter = RateLimiter::new(DenyCache::new(MemoryStore::new()), DENIES)?;
    group.bench_function("refused/cache", |bencher| {
        refuses(&limiter, &keys);
        let mut keys = keys.iter().cycle();
        bencher.iter(|| keys.next().map(|key| awaited(&limiter, key).is_some()));
    });
    let limiter = RateLimiter::new(usual(MemoryStore::new(), AllowAll), DENIES)?;
    group.bench_function("refused/usual", |bencher| {
        refuses(&limiter, &keys);
        let mut keys = keys.iter().cycle();
        bencher.iter(|| keys.next().map(|key| awaited(&limiter, key).is_some()));
    });
    let runtime = tokio::runtime::Runtime::new()?;
    let _entered = runtime.enter();
    let within = Duration::from_millis(200);
    for (name, limits) in [("1-limit", &ADMITS[..1]), ("2-limits", &ADMITS[..])] {
        let limiter = RateLimiter::new(MemoryStore::new(), limits.iter().copied())?;
        group.bench_function(format!("awaited-memory/{name}"), |bencher| {
            bencher.iter(|| awaited(&limiter, &keys[0]).is_some());
        });
        let store = Prefetch::new(MemoryStore::new(), within);
        let limiter = RateLimiter::new(store, limits.iter().copied())?;
        group.bench_function(format!("prefetched/{name}"), |bencher| {
            bencher.iter(|| awaited(&limiter, &keys[0]).is_some());
        });
    }
    group.finish();
    Ok(())
}

/// Asserts that the cache refuses calls, after the store has denied one of each key.
fn refuses(limiter: &RateLimiter<impl Store>, keys: &[String]) {
    for key in keys.iter().chain(keys) {
        let _ = awaited(limiter, key);
    }
    for key in keys {
        let source = awaited(limiter, key).map(|decision| decision.source());
        assert!(source == Some(Source::Cache), "{source:?}");
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = layers
}
criterion_main!(benches);
