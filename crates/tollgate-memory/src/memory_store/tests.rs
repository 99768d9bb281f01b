//! Tests of how keys are spread.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::FixedWindow;
use tollgate_core::store::Check;
use tollgate_core::{Key, Limit, Quota, RateLimiter};

use super::MemoryStore;
use super::builder::shards;
use crate::clock::Timeline;
use crate::probe::StoredKey;

#[test]
fn shards_are_many_for_the_processors_and_few_for_the_keys() {
    for (processors, max_keys, expected) in [
        (1, 1_000_000, 32),
        (2, 1_000_000, 64),
        (3, 1_000_000, 128),
        (64, 1_000_000, 2_048),
        (1 << 20, usize::MAX, 1 << 16),
        (64, 1_000, 128),
        (64, 24, 4),
        (64, 23, 2),
        (64, 16, 2),
        (64, 15, 1),
        (64, 1, 1),
        (64, 0, 1),
    ] {
        let found = shards(processors, max_keys);
        assert_eq!(found, expected, "{processors} processors, {max_keys} keys");
    }
}

/// A table finds an entry by the lowest and the highest bits of its hash. If the entries of a
/// shard had some of those in common, finding one would be slow.
#[test]
fn keys_are_spread_evenly_over_shards_and_within_each() {
    let store = MemoryStore::new();
    let limit = Limit::new("one", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let count = store.shard_mask + 1;
    let mut shards: BTreeMap<usize, BTreeSet<(u64, u64)>> = BTreeMap::new();
    for number in 0..count * 200 {
        let key = number.to_string();
        let check = Check::new(&limit, &key, 1);
        let probe = store.probe(&check);
        let shard = store.shard_of(probe.key_hash, Timeline::Store);
        assert!(shard < count);
        assert_eq!(
            store.shard_of(probe.key_hash, Timeline::Caller),
            shard + count
        );
        let searched = (probe.hash & 0xff, probe.hash >> 57);
        shards.entry(shard).or_default().insert(searched);
    }
    assert_eq!(shards.len(), count);
    for (shard, searched) in shards {
        // Out of 200 random values, more than a hundred are distinct.
        assert!(searched.len() > 100, "{} in shard {shard}", searched.len());
        let lowest: BTreeSet<u64> = searched.iter().map(|of| of.0).collect();
        assert!(
            lowest.len() > 64,
            "{} places in shard {shard}",
            lowest.len()
        );
    }
}

/// Otherwise calls of a key under several limits would look for several rows.
#[test]
fn limits_that_are_called_together_share_a_row_whoever_came_first() {
    let limits: [Limit; 5] = ["a", "b", "c", "d", "e"].map(|name| {
        let algorithm = FixedWindow::aligned(Quota::per_minute(9));
        Limit::new(name, algorithm).unwrap()
    });
    let store = MemoryStore::new();
    let key = StoredKey::new(&Key::from("alice"), &store.hasher);
    let hash = store.hasher.hash(&key);
    let shard = || store.lock(store.shard_of(hash, Timeline::Store));
    let call = |limits: &[Limit]| {
        let limiter = RateLimiter::new(&store, limits.to_vec()).unwrap();
        assert!(limiter.check("alice").run().unwrap().is_allowed());
    };
    let [a, b, c, d, _] = &limits;
    let pair = [b.clone(), a.clone()];
    call(&limits[..1]);
    assert!(shard().find_few(hash, &key, &pair).is_none());
    call(&pair);
    assert!(shard().find_few(hash, &key, &pair).is_some());
    let three = [c.clone(), b.clone(), a.clone()];
    call(&limits[2..3]);
    call(&three);
    assert!(shard().find_few(hash, &key, &three).is_some());
    assert!(shard().find_few(hash, &key, &pair).is_some());
    // The last place in the row is taken by a limit that is called alone.
    call(&limits[3..4]);
    let four = [d.clone(), c.clone(), b.clone(), a.clone()];
    assert!(shard().find_few(hash, &key, &four).is_some());
    call(&limits);
    assert!(shard().find_few(hash, &key, &four).is_some());
    assert_eq!(store.len(), 5);
}
