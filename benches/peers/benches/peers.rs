//! How long rate limiters of others take in memory, and layers for HTTP servers.

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_peers::{layers, memory};

fn beside(criterion: &mut Criterion) {
    let key = "user".to_owned();
    for (name, subjects) in [
        ("allowed, 1 key", memory::subjects()),
        ("HTTP layers", layers::subjects()),
    ] {
        let mut group = criterion.benchmark_group(name);
        for (name, subject) in subjects.expect("the quotas are valid") {
            group.bench_function(name, |bencher| bencher.iter(|| subject.check(&key)));
        }
        group.finish();
    }
}

criterion_group!(benches, beside);
criterion_main!(benches);
