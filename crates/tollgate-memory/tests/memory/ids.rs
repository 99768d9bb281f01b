//! Answers to calls with ids in memory: they count as keys, expire, and take documented memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, Verdict, Verdicts};
use tollgate_core::{Key, Limit, SyncStore};
use tollgate_memory::{CallId, Clock, ErrorKind, ManualClock, MemoryStore, RateLimiter, Timestamp};

fn limiter(max_keys: usize, limits: &[&str]) -> (RateLimiter<MemoryStore>, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder()
        .max_keys(max_keys)
        .clock(clock.clone());
    let limiter = RateLimiter::new(store.build(), limits.iter().copied()).unwrap();
    (limiter, clock)
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

#[test]
fn an_answer_counts_as_a_key_until_it_is_forgotten() {
    let (limiter, clock) = limiter(10, &["a=gcra:5/1d"]);
    let store = limiter.store();
    let id = CallId::new("one").kept(Duration::from_secs(60));
    let first = limiter.check("k").id(id).run().unwrap();
    assert_eq!(store.len(), 2);
    assert_eq!(limiter.check("k").id(id).run().unwrap(), first);
    assert_eq!(store.len(), 2);
    clock.advance(Duration::from_micros(59_999_999));
    assert_eq!((store.sweep(), store.len()), (0, 2));
    assert_eq!(limiter.check("k").id(id).run().unwrap(), first);
    clock.advance(Duration::from_micros(1));
    assert_eq!((store.sweep(), store.len()), (1, 1));
    let second = limiter.check("k").id(id).run().unwrap();
    assert_eq!(second.remaining(), first.remaining() - 1);
    assert_eq!((store.clear(), store.len()), (2, 0));
}

#[test]
fn answers_at_callers_instants_are_kept_apart() {
    let (limiter, _clock) = limiter(10, &["a=gcra:5/1d"]);
    let then = Timestamp::from_micros(1_000_000).unwrap();
    let first = limiter.check("k").id("one").at(then).run().unwrap();
    let now = limiter.check("k").id("one").run().unwrap();
    assert_ne!(first, now);
    let later = then.saturating_add(Duration::from_secs(600));
    let before = then.saturating_add(Duration::from_micros(599_999_999));
    assert_eq!(
        limiter.check("k").id("one").at(before).run().unwrap(),
        first
    );
    assert_ne!(limiter.check("k").id("one").at(later).run().unwrap(), first);
    assert_eq!(limiter.store().sweep_at(later), 0);
    let end = later.saturating_add(Duration::from_secs(600));
    // The answer; the state lasts for longer.
    assert_eq!(limiter.store().sweep_at(end), 1);
}

#[test]
fn a_full_store_refuses_new_ids_and_consumes_nothing() {
    let (limiter, clock) = limiter(3, &["a=gcra:5/1d"]);
    let left = || limiter.peek("k").run().unwrap().remaining();
    for id in ["one", "two"] {
        let _ = limiter.check("k").id(id).run().unwrap();
    }
    assert_eq!((limiter.store().len(), left()), (3, 3));
    let error = limiter.check("k").id("three").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!((limiter.store().len(), left()), (3, 3));
    // What is known is answered all the same.
    assert_eq!(limiter.check("k").id("two").run().unwrap().remaining(), 3);
    // Answers that are forgotten make room.
    clock.advance(Duration::from_secs(600));
    let _ = limiter.check("k").id("three").run().unwrap();
    assert!(limiter.store().len() <= 3);
}

/// There is room for the answer, but not for the state.
#[test]
fn failed_call_leaves_no_answer() {
    let (limiter, _clock) = limiter(1, &["a=gcra:5/1d"]);
    let error = limiter.check("k").id("one").run().unwrap_err();
    assert_eq!((error.kind(), limiter.store().len()), (ErrorKind::Full, 0));
    // The id belongs to no call.
    let error = limiter.check("k").cost(2).id("one").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(limiter.check("k").run().unwrap().is_allowed());
}

#[test]
fn new_ids_drop_answers_that_are_forgotten() {
    let (limiter, clock) = limiter(1_000_000, &["a=gcra:1000000/1s"]);
    for turn in 0..20_000_u32 {
        let id = turn.to_le_bytes();
        let id = CallId::new(&id).kept(Duration::from_secs(1));
        let _ = limiter.check("k").id(id).run().unwrap();
        clock.advance(Duration::from_millis(1));
    }
    // A thousand are kept at a time.
    assert!(limiter.store().len() < 4_000, "{}", limiter.store().len());
}

#[test]
fn answers_take_the_documented_memory() {
    let limits = ["a", "b", "c", "d", "e"].map(|name| format!("{name}=gcra:1000000/1s"));
    let limits = limits.each_ref().map(|text| &**text);
    for (count, more) in [(1, 0), (2, 0), (4, 0), (5, 5 * 64)] {
        let (limiter, _clock) = limiter(1_000_000, &limits[..count]);
        let before = limiter.store().bytes();
        // Tables have just grown after some of these numbers of calls.
        for turn in 1..=60_000_u32 {
            let _ = limiter
                .check("k")
                .id(&turn.to_le_bytes()[..])
                .run()
                .unwrap();
            if turn >= 10_000 && turn.is_multiple_of(500) {
                let bytes = limiter.store().bytes() - before;
                let each = bytes / usize::try_from(turn).unwrap();
                // In a store that only fills up, a table's share is at most 160.
                assert!(each <= 160 + 256 + more, "{each} bytes of {turn}");
            }
        }
    }
}

#[test]
fn answers_to_delayed_reservations_take_the_documented_memory() {
    // So many that the tables of all shards are about two thirds full, and none has just grown.
    const CALLS: usize = 20_000;
    for (count, more) in [(1, 168), (2, 168), (4, 168), (5, 168 + 5 * 40)] {
        let bytes = |quota: &str, are_delayed: bool| {
            let limits = ["a", "b", "c", "d", "e"].map(|name| format!("{name}=gcra:{quota}"));
            let limits = limits.each_ref().map(|text| &**text);
            let (limiter, _clock) = limiter(1_000_000, &limits[..count]);
            let _ = limiter.check("k").run().unwrap();
            for turn in 0..CALLS {
                let call = limiter.reserve("k").within(Duration::MAX);
                let decision = call.id(&turn.to_le_bytes()[..]).run().unwrap();
                assert_eq!(!decision.delay().is_zero(), are_delayed);
            }
            limiter.store().bytes()
        };
        let (delayed, at_once) = (bytes("1/1s", true), bytes("1000000/1s", false));
        assert_eq!(delayed - at_once, CALLS * more, "{count} limits");
    }
}

#[test]
fn an_id_belongs_to_the_first_limit_and_key_of_a_call() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let [a, b, c] = ["a=gcra:9/1d", "b=gcra:9/1d", "c=gcra:9/1d"].map(limit);
    let on = |limit, key: &'static str| Check::new(limit, key, 1);
    let split = |partition, rest| Check::new(&a, Key::new(partition).with_rest(rest), 1);
    for (index, checks) in [
        vec![on(&a, "k")],
        vec![on(&b, "k")],
        vec![on(&a, "l"), on(&c, "k")],
        vec![on(&b, "l"), on(&c, "k")],
        vec![on(&a, "m"), on(&c, "k")],
        vec![split("ab", "c")],
        vec![split("a", "bc")],
        vec![split("abc", "")],
        vec![split("", "abc")],
    ]
    .into_iter()
    .enumerate()
    {
        let request = Request::new(Operation::Consume, checks).id("one");
        let left = |verdicts: &Verdicts| verdicts.as_slice()[0].remaining();
        let first = store.decide_now(&request).unwrap();
        assert_eq!(left(&first), 8, "call {index}");
        assert_eq!(store.decide_now(&request).unwrap(), first, "call {index}");
    }
    // What follows the first limit and key does not make it another id.
    let other = Request::new(Operation::Consume, [on(&a, "k"), on(&b, "k")]).id("one");
    let error = store.decide_now(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

#[test]
fn an_id_of_one_call_is_refused_to_any_other() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let [a, b, c] = ["a=gcra:9/1d", "b=gcra:9/1d", "c=gcra:9/1d"].map(limit);
    let quota = limit("b=gcra:8/1d");
    let two = |limit, key, cost| [Check::new(&a, "k", 1), Check::new(limit, key, cost)];
    let within = |seconds| Operation::Reserve {
        max_delay: Duration::from_secs(seconds),
    };
    let calls = || {
        vec![
            Request::new(Operation::Consume, two(&b, "k", 1)),
            Request::new(Operation::TakeUpTo, two(&b, "k", 1)),
            Request::new(within(0), two(&b, "k", 1)),
            Request::new(within(1), two(&b, "k", 1)),
            Request::new(within(2), two(&b, "k", 1)),
            Request::new(Operation::Consume, two(&b, "k", 2)),
            Request::new(Operation::Consume, two(&b, "l", 1)),
            Request::new(Operation::Consume, two(&c, "k", 1)),
            Request::new(Operation::Consume, two(&quota, "k", 1)),
            Request::new(Operation::Consume, [Check::new(&a, "k", 1)]),
        ]
    };
    for (first, call) in calls().into_iter().enumerate() {
        store.clear();
        let answer = store.decide_now(&call.id("one")).unwrap();
        assert!(answer.is_allowed());
        for (second, call) in calls().into_iter().enumerate() {
            match store.decide_now(&call.id("one")) {
                Ok(again) => {
                    assert_eq!(first, second);
                    assert_eq!(again, answer);
                }
                Err(error) => {
                    assert_ne!(first, second);
                    assert_eq!(error.kind(), ErrorKind::Malformed, "{first} and {second}");
                }
            }
        }
    }
}

#[test]
fn the_bytes_of_answers_are_counted_until_they_are_forgotten() {
    let verdict = size_of::<Verdict>();
    let limits = ["a", "b", "c", "d", "e"].map(|name| format!("{name}=gcra:9/1d"));
    let limits = limits.each_ref().map(String::as_str);
    for (count, beside) in [(1, 0), (2, 0), (5, 5 * verdict)] {
        let (limiter, clock) = limiter(100, &limits[..count]);
        let store = limiter.store();
        let _ = limiter.check("k").run().unwrap();
        let without = store.bytes();
        for id in ["one", "two", "three", "four"] {
            let _ = limiter.check("k").id(id).run().unwrap();
        }
        let with = store.bytes();
        let each = size_of::<Verdicts>() + beside;
        assert!(with > without + 4 * each, "{with} after {without}");
        clock.advance(Duration::from_secs(600));
        assert_eq!(store.sweep(), 4);
        // Their places in the table remain.
        assert_eq!(with - store.bytes(), 4 * each);
    }
}

/// A clock that panics once.
#[derive(Clone, Debug, Default)]
struct Panicking {
    clock: ManualClock,
    /// How often it still tells the time; zero if it never panics.
    left: Arc<AtomicUsize>,
}

impl Clock for Panicking {
    fn now(&self) -> Timestamp {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        assert_ne!(left, 1, "the test says to panic");
        self.clock.now()
    }
}

#[test]
fn a_call_that_panicked_is_decided_when_it_is_repeated() {
    let (mut panicked, mut kept) = (0, 0);
    for reading in 1..6 {
        let clock = Panicking::default();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = RateLimiter::new(store, ["a=gcra:9/1d"]).unwrap();
        let call = || limiter.check("k").id("one").run();
        clock.left.store(reading, Ordering::Relaxed);
        panicked += usize::from(catch_unwind(AssertUnwindSafe(call)).is_err());
        clock.left.store(0, Ordering::Relaxed);
        if !limiter.store().is_empty() {
            kept += 1;
        }
        let (len, bytes) = (limiter.store().len(), limiter.store().bytes());
        let is_counted = limiter.peek("k").run().unwrap().remaining() < 9;
        if !is_counted && len == 1 {
            // The place of an answer that is not known yet takes nothing beside the table.
            clock.clock.advance(Duration::from_secs(600));
            assert_eq!(limiter.store().sweep(), 1);
            assert_eq!(limiter.store().bytes(), bytes);
        }
        let answer = call().unwrap();
        assert!(answer.is_allowed());
        assert_eq!(call().unwrap(), answer);
    }
    assert!(panicked >= 3 && kept >= 1, "{panicked}, {kept}");
}

#[test]
fn a_malformed_call_is_refused_as_such_even_if_its_id_is_taken() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let (a, b) = (limit("a=gcra:9/1d"), limit("a=gcra:8/1d"));
    let first = Request::consume(Check::new(&a, "k", 1)).id("one");
    assert!(store.decide_now(&first).unwrap().is_allowed());
    // The same key twice under one name.
    let twice = [Check::new(&a, "k", 1), Check::new(&b, "k", 1)];
    let malformed = Request::new(Operation::Consume, twice);
    let expected = store.decide_now(&malformed).unwrap_err();
    let error = store.decide_now(&malformed.id("one")).unwrap_err();
    assert_eq!(error.to_string(), expected.to_string());
}
