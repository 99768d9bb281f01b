//! Decisions in memory: every algorithm and governor, by number of keys, threads and outcome.

use std::env;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tollgate_benches::{Outcome, keys, subjects, time, warm_up};

fn memory(criterion: &mut Criterion) {
    let is_test = env::args().any(|argument| argument == "--test");
    for outcome in [Outcome::Allowed, Outcome::Denied] {
        for (label, count) in [("1-key", 1), ("10k-keys", 10_000), ("1M-keys", 1_000_000)] {
            // Whether the benchmark works shows with fewer keys: filling a million of each limiter
            // takes minutes if nothing is optimized.
            let keys = keys(if is_test { count.min(10_000) } else { count });
            let subjects = subjects(outcome).expect("the limits are possible");
            warm_up(&subjects, &keys);
            for (threads, elements) in [(1, 1), (2, 2)] {
                let name = format!("{outcome:?}/{label}/{threads}-threads").to_lowercase();
                let mut group = criterion.benchmark_group(name);
                group.throughput(Throughput::Elements(elements));
                for (name, subject) in &subjects {
                    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                        bencher.iter_custom(|calls| time(&**subject, &keys, threads, calls));
                    });
                }
                group.finish();
            }
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = memory
}
criterion_main!(benches);
