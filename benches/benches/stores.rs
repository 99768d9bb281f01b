//! `cargo bench`: the stores side by side, and the algorithms in memory beside governor.

use criterion::{criterion_group, criterion_main};
use tollgate_benches::{algorithms, config, stores};

criterion_group! {
    name = benches;
    config = config();
    targets = stores, algorithms
}
criterion_main!(benches);
