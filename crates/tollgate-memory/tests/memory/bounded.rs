//! The store holds at most `max_keys` keys, and drops no key that still counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::schedule::Schedule;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{
    Algorithm, ErrorKind, FixedWindow, Gcra, Key, Limit, Quota, RateLimiter, SlidingBuckets,
    SlidingCounter, SlidingLog, SyncStore, Timestamp,
};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

use crate::held::store;

fn limit(name: &str, algorithm: impl Into<Algorithm>) -> Limit {
    Limit::new(name, algorithm).unwrap()
}

fn once_a_minute() -> Limit {
    limit("once", FixedWindow::anchored(Quota::per_minute(1)))
}

fn consume(store: &MemoryStore, limit: &Limit, key: &str) -> Result<bool, ErrorKind> {
    let request = Request::consume(Check::new(limit, key, 1));
    match store.decide_now(&request) {
        Ok(decision) => Ok(decision.is_allowed()),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn a_full_store_decides_calls_that_need_no_state() {
    let (store, _clock) = store(1);
    let limit = once_a_minute();
    assert_eq!(consume(&store, &limit, "held"), Ok(true));
    let peek = Request::peek(Check::new(&limit, "new", 0));
    assert_eq!(store.decide_now(&peek).unwrap().remaining(), 1);
    let consume = |cost| store.decide_now(&Request::consume(Check::new(&limit, "new", cost)));
    assert!(consume(2).unwrap().is_denied());
    assert_eq!(
        consume(1).unwrap_err().to_string(),
        "no room for a new key: 1 of at most 1 keys are held; raise max_keys, or limit by a coarser key"
    );
}

#[test]
fn a_full_store_makes_room_for_all_keys_of_a_call() {
    let (store, clock) = store(40);
    let limit = once_a_minute();
    for key in 0..30 {
        assert_eq!(consume(&store, &limit, &format!("early-{key}")), Ok(true));
    }
    let keys: Vec<String> = (0..32).map(|key| format!("late-{key}")).collect();
    let checks: Vec<_> = keys.iter().map(|key| Check::new(&limit, key, 1)).collect();
    let request = Request::new(Operation::Consume, &checks);
    let error = store.decide_now(&request).unwrap_err();
    // There is room for some, which are not held either.
    assert_eq!((error.kind(), store.len()), (ErrorKind::Full, 30));
    clock.advance(Duration::from_secs(60));
    assert!(store.decide_now(&request).unwrap().is_allowed());
    assert!(store.decide_now(&request).unwrap().is_denied());
    assert!(store.len() <= 40);
}

/// A clock that counts how often it is read.
#[derive(Clone)]
struct Counting(ManualClock, Arc<AtomicU64>);

impl Clock for Counting {
    fn now(&self) -> Timestamp {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.now()
    }
}

impl Counting {
    fn store(max_keys: usize) -> (Self, MemoryStore) {
        let clock = Self(ManualClock::new(), Arc::default());
        let store = MemoryStore::builder()
            .max_keys(max_keys)
            .clock(clock.clone());
        (clock, store.build())
    }

    fn readings(&self) -> u64 {
        self.1.swap(0, Ordering::Relaxed)
    }
}

/// Limits for requests about one key and about several.
fn one_and_two() -> [Vec<Limit>; 2] {
    let one = || limit("one", FixedWindow::anchored(Quota::per_day(100)));
    let two = limit("two", Gcra::new(Quota::per_day(100)).unwrap());
    [vec![one()], vec![one(), two]]
}

#[test]
fn a_call_for_a_held_key_reads_the_clock_once() {
    for limits in one_and_two() {
        let (clock, store) = Counting::store(10);
        let limiter = RateLimiter::new(store, limits).unwrap();
        assert!(limiter.check("k").run().unwrap().is_allowed());
        clock.readings();
        assert!(limiter.check("k").run().unwrap().is_allowed());
        assert_eq!(clock.readings(), 1);
    }
}

/// A request with a caller's instant reads the store's clock only to search for stale keys among
/// the store's own states, once for each shard that it searches.
#[test]
fn the_search_for_room_is_bounded() {
    for limits in one_and_two() {
        // One shard, and many shards: a search of 512 hash table buckets covers few of those.
        for (max_keys, most) in [(8, 1), (50_000, 32)] {
            let (clock, store) = Counting::store(max_keys);
            let long = limit("long", FixedWindow::anchored(Quota::per_day(1)));
            for key in 0..max_keys {
                assert_eq!(consume(&store, &long, &key.to_string()), Ok(true));
            }
            let limiter = RateLimiter::new(&store, limits.clone()).unwrap();
            clock.readings();
            let error = limiter.check("k").at(Timestamp::MAX).run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Full);
            let readings = clock.readings();
            assert!(
                (1..=most).contains(&readings),
                "{readings} shards of {max_keys} keys"
            );
            let schedule = Schedule::new(&store, "plans", ["1/1h"]).unwrap();
            let add = schedule.add("k", "a", Timestamp::MAX).at(Timestamp::MAX);
            assert_eq!(add.run().unwrap_err().kind(), ErrorKind::Full);
            let readings = clock.readings();
            assert!(
                (1..=most).contains(&readings),
                "{readings} shards of {max_keys} keys for a schedule"
            );
        }
    }
}

#[test]
fn a_large_full_store_finds_its_one_stale_key_within_a_few_calls() {
    let (store, clock) = store(20_000);
    let brief = limit("brief", FixedWindow::anchored(Quota::per_second(1)));
    let long = limit("long", FixedWindow::anchored(Quota::per_day(1)));
    assert_eq!(consume(&store, &brief, "stale"), Ok(true));
    for key in 1..20_000 {
        assert_eq!(consume(&store, &long, &key.to_string()), Ok(true));
    }
    clock.advance(Duration::from_secs(1));
    let found = (0..1_000).position(|_| consume(&store, &long, "new") == Ok(true));
    assert!(found.is_some(), "no call found the stale key");
}

#[test]
fn sweeping_an_idle_store_frees_its_memory() {
    let (store, clock) = store(1_000_000);
    let limits = [
        limit("log", SlidingLog::new(Quota::per_minute(5)).unwrap()),
        limit(
            "ring",
            SlidingBuckets::new(Quota::per_minute(5), 6).unwrap(),
        ),
        limit("bucket", Gcra::new(Quota::per_minute(5)).unwrap()),
    ];
    for key in 0..30_000 {
        for limit in &limits {
            let key = format!("a rather long key, number {key}");
            assert_eq!(consume(&store, limit, &key), Ok(true));
        }
    }
    let full = store.bytes();
    assert_eq!(store.sweep(), 0);
    clock.advance(Duration::from_secs(71));
    assert_eq!(store.sweep(), 90_000);
    assert!(store.is_empty());
    assert!(
        store.bytes() * 20 < full,
        "{} of {full} bytes",
        store.bytes()
    );
}

/// The store is one table. It has 16 buckets once it holds eight keys, and four insertions search
/// them all.
#[test]
fn new_keys_drop_what_has_been_stale_for_a_second() {
    for limits in one_and_two() {
        let (store, clock) = store(15);
        assert_eq!(consume(&store, &once_a_minute(), "stale"), Ok(true));
        clock.advance(Duration::from_micros(60_999_999));
        let insert = |keys: &[&str]| {
            for key in keys {
                // The other limit, if there is one, uses the same key in every call.
                let shared = limits[1..].iter().map(|limit| Check::new(limit, "all", 1));
                let checks = [Check::new(&limits[0], *key, 1)].into_iter().chain(shared);
                let request = Request::new(Operation::Consume, checks);
                assert!(store.decide_now(&request).unwrap().is_allowed());
            }
        };
        insert(&["a", "b", "c", "d"][limits.len() - 1..]);
        assert_eq!(store.len(), 5);
        clock.advance(Duration::from_micros(1));
        // Calls for existing keys do not search for stale ones.
        for _ in 0..20 {
            insert(&["d"]);
        }
        assert_eq!(store.len(), 5);
        insert(&["e", "f", "g"]);
        insert(&["h", "i", "j", "k"]);
        assert_eq!(store.len(), 11);
    }
}

#[test]
fn new_keys_drop_nothing_in_the_first_second_of_a_clock() {
    let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
    let store = MemoryStore::builder().max_keys(15).clock(clock.clone());
    let store = store.build();
    let limit = once_a_minute();
    for key in 0..15 {
        assert_eq!(consume(&store, &limit, &key.to_string()), Ok(true));
    }
    for key in 0..15 {
        assert_eq!(consume(&store, &limit, &key.to_string()), Ok(false));
    }
}

#[test]
fn every_shard_counts_its_bytes() {
    let (store, clock) = store(8);
    assert_eq!(store.bytes(), 0);
    assert!(store.is_empty());
    assert_eq!(consume(&store, &once_a_minute(), "k"), Ok(true));
    assert!(!store.is_empty());
    let table = store.bytes();
    assert!(table > 0);
    assert_eq!(store.clear(), 1);
    // The memory that a log allocates outside the table counts, too.
    let limit = limit("log", SlidingLog::new(Quota::per_minute(5)).unwrap());
    assert_eq!(consume(&store, &limit, "k"), Ok(true));
    let own = store.bytes();
    assert!(own > table);
    let request = Request::consume(Check::new(&limit, "k", 1)).at(clock.now());
    assert!(store.decide_now(&request).unwrap().is_allowed());
    assert_eq!(store.bytes(), 2 * own);
}

/// Every algorithm, with the documented maximum size of one state's own allocation, in bytes.
fn algorithms(amount: u64) -> [(Limit, usize); 6] {
    let quota = Quota::new(amount, Duration::from_secs(3_600)).unwrap();
    let entries = usize::try_from(amount).unwrap();
    let log = SlidingLog::new(quota).unwrap();
    [
        (limit("aligned", FixedWindow::aligned(quota)), 0),
        (limit("anchored", FixedWindow::anchored(quota)), 0),
        (limit("bucket", Gcra::new(quota).unwrap()), 0),
        (limit("counter", SlidingCounter::new(quota).unwrap()), 0),
        (
            limit("ring", SlidingBuckets::new(quota, 127).unwrap()),
            48 + 8 * 128,
        ),
        (limit("log", log.count_denied()), 16 + 8 * entries.max(4)),
    ]
}

#[test]
fn keys_take_the_documented_memory() {
    for (limit, state) in algorithms(5) {
        let (store, _clock) = store(1_000_000);
        for key in 0..30_000 {
            assert_eq!(consume(&store, &limit, &format!("user:{key}")), Ok(true));
        }
        let per_key = store.bytes() / store.len();
        assert!(per_key <= 160 + state, "{limit}: {per_key} bytes a key");
    }
}

/// Several limits of a key share its row.
#[test]
fn keys_under_several_limits_take_less_for_each() {
    for (count, most) in [(1, 160), (2, 130), (3, 160), (4, 120), (5, 160)] {
        let (store, _clock) = store(1_000_000);
        let limits = (0..count).map(|number| {
            let name = format!("limit-{number}");
            limit(&name, Gcra::new(Quota::per_hour(5)).unwrap())
        });
        let limiter = RateLimiter::new(store, limits.collect::<Vec<_>>()).unwrap();
        for key in 0..30_000 {
            let key = format!("user:{key}");
            assert!(limiter.check(&key).run().unwrap().is_allowed());
        }
        let store = limiter.store();
        assert_eq!(store.len(), count * 30_000);
        let each = store.bytes() / store.len();
        assert!(each <= most, "{each} bytes for each of {count} limits");
    }
}

#[test]
fn long_keys_cost_no_more_than_short_ones() {
    for (limit, state) in algorithms(5) {
        let (store, _clock) = store(100);
        let empty = store.bytes();
        let mut text = "k".repeat(100_000);
        for key in 0..50 {
            text.push(char::from(b'0' + key));
            assert_eq!(consume(&store, &limit, &text), Ok(true));
            let key = Key::from("k").with_rest(&text);
            let request = Request::consume(Check::new(&limit, key, 1));
            assert!(store.decide_now(&request).unwrap().is_allowed());
        }
        assert_eq!(store.len(), 100);
        let most = empty + 100 * (300 + state);
        assert!(store.bytes() <= most, "{limit}: {} bytes", store.bytes());
    }
}

/// Keys come and go, and some are called as often as possible: the worst case for tables and logs.
#[test]
fn a_full_store_keeps_within_its_bytes_as_keys_come_and_go() {
    const KEYS: usize = 500;
    for (limit, state) in algorithms(30) {
        let (store, clock) = store(KEYS);
        let mut refused = 0;
        for round in 0..6 {
            for key in 0..KEYS {
                let key = format!("round {round}, key {key}");
                for _ in 0..if key.ends_with('7') { 40 } else { 1 } {
                    // The last stale keys of a round are found late, so that a few calls fail.
                    refused += usize::from(consume(&store, &limit, &key).is_err());
                    clock.advance(Duration::from_micros(1));
                }
            }
            let most = KEYS * (300 + state);
            assert!(store.bytes() <= most, "{limit}: {} bytes", store.bytes());
            clock.advance(Duration::from_secs(2 * 3_600));
        }
        assert!(refused < KEYS, "{limit}: {refused} refused");
    }
}

#[test]
fn new_keys_in_several_shards_drop_expired_states_in_each() {
    let (store, clock) = store(1_000_000);
    let limit: Limit = "a=fixed-window:9/1ms".parse().unwrap();
    for turn in 0..100_000_u32 {
        let keys = [2 * turn, 2 * turn + 1].map(|key| key.to_string());
        let checks = keys.each_ref().map(|key| Check::new(&limit, key, 1));
        let request = Request::new(Operation::Consume, checks);
        assert!(store.decide_now(&request).unwrap().is_allowed());
        clock.advance(Duration::from_millis(1));
    }
    assert!(store.len() < 10_000, "{} keys are left", store.len());
}

/// A check of cost zero consumes nothing, and is not kept.
#[test]
fn composite_takes_room_only_for_what_it_consumes_from() {
    let (store, _clock) = store(1);
    let [one, other] = ["one", "other"].map(|name| limit(name, *once_a_minute().algorithm()));
    let checks = [Check::new(&one, "k", 1), Check::new(&other, "k", 0)];
    let request = Request::new(Operation::Consume, checks);
    assert!(store.decide_now(&request).unwrap().is_allowed());
    assert_eq!((store.len(), store.clear(), store.len()), (1, 1, 0));
}

#[test]
fn a_refund_of_a_missing_state_creates_none() {
    let (store, _clock) = store(1);
    let limit = once_a_minute();
    let check = Check::new(&limit, "a", 1);
    let decision = store.decide_now(&Request::consume(check)).unwrap();
    let receipt = decision.into_receipt().unwrap();
    store.reset_now(&[check]).unwrap();
    let refund = Request::refund(&receipt, check);
    assert!(store.decide_now(&refund).unwrap().is_allowed());
    assert!(store.is_empty());
    assert_eq!(consume(&store, &limit, "b"), Ok(true));
    assert!(store.decide_now(&refund).unwrap().is_allowed());
    assert_eq!(consume(&store, &limit, "b"), Ok(false));
}

/// After a limit's rate is lowered, its states must not be dropped by the former rate. With
/// `count_denied`, a denied call counts, too.
#[test]
fn a_state_is_stale_by_the_limit_that_last_counted() {
    let other = limit("other", FixedWindow::anchored(Quota::per_day(100)));
    let by = |amount, seconds| Quota::new(amount, Duration::from_secs(seconds)).unwrap();
    let gcra = |seconds| limit("rate", Gcra::new(by(2, seconds)).unwrap());
    let log = |seconds| {
        limit(
            "rate",
            SlidingLog::new(by(1, seconds)).unwrap().count_denied(),
        )
    };
    let cases: [(Operation<'_>, &dyn Fn(u64) -> Limit); 3] = [
        (Operation::Consume, &gcra),
        (Operation::TakeUpTo, &gcra),
        (Operation::Consume, &log),
    ];
    for (together, (operation, rate)) in [false, true]
        .into_iter()
        .flat_map(|t| cases.map(|c| (t, c)))
    {
        let (store, clock) = store(10);
        let (fast, slow) = (rate(1), rate(86_400));
        let consume = |rate: &Limit| {
            let mut request = Request::new(operation, [Check::new(rate, "k", 1)]);
            if together {
                request = request.and(Check::new(&other, "k", 1));
            }
            store.decide_now(&request).unwrap().is_allowed()
        };
        assert!(consume(&fast));
        while consume(&slow) {}
        clock.advance(Duration::from_secs(10));
        assert_eq!(store.sweep(), 0);
        assert!(!consume(&slow));
    }
}

#[test]
fn debug_of_a_store_shows_its_size() {
    let (store, clock) = store(8);
    assert_eq!(consume(&store, &once_a_minute(), "k"), Ok(true));
    assert_eq!(
        format!("{store:?}"),
        "MemoryStore { keys: 1, max_keys: 8, shards: 2, .. }"
    );
    let builder = MemoryStore::builder().max_keys(8).clock(clock.clone());
    let shown = format!(
        "MemoryStoreBuilder {{ max_keys: 8, clock: Some(Clock({:?})) }}",
        clock.now()
    );
    assert_eq!(format!("{builder:?}"), shown);
}
