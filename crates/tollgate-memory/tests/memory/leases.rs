//! Leases in memory: at most `max_keys` keys, no lease dropped that is held, no token given twice,
//! and no lost update between threads.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tollgate_core::FixedWindow;
use tollgate_core::lease::{Acquisition, ConcurrencyLimiter, Lease, MAX_LEASES};
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Limit, Quota, StoreError, SyncStore, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

fn store(max_keys: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().max_keys(max_keys);
    (builder.clock(clock.clone()).build(), clock)
}

/// Two leases of ten seconds.
fn places(store: &MemoryStore) -> ConcurrencyLimiter<&MemoryStore> {
    ConcurrencyLimiter::new(store, "places", 2, 10 * SECOND).unwrap()
}

/// Acquires a lease by the store's clock, or returns `None` if it is denied.
fn acquire(store: &MemoryStore, key: &str, id: &str) -> Result<Option<Lease>, ErrorKind> {
    let acquired = places(store).acquire(key, id).run();
    acquired
        .map(|acquired| acquired.permit().ok())
        .map_err(|error| error.kind())
}

fn hold(store: &MemoryStore, key: &str, id: &str) -> Lease {
    acquire(store, key, id).unwrap().unwrap()
}

fn release(store: &MemoryStore, key: &str, lease: &Lease) -> bool {
    places(store).release(key, lease).run().unwrap()
}

fn consume(store: &MemoryStore, key: &str) -> Result<bool, ErrorKind> {
    let limit = Limit::new("once", FixedWindow::anchored(Quota::per_day(1))).unwrap();
    let decided = store.decide_now(&Request::consume(Check::new(&limit, key, 1)));
    decided
        .map(|verdicts| verdicts.is_allowed())
        .map_err(|error| error.kind())
}

#[test]
fn a_full_store_leases_for_keys_that_it_holds_only() {
    for max_keys in [1, 10, 300] {
        let (store, _clock) = store(max_keys);
        for key in 0..max_keys {
            hold(&store, &format!("held-{key}"), "a");
        }
        assert_eq!(store.len(), max_keys);
        let old = hold(&store, "held-0", "a");
        for key in 0..50 {
            let new = format!("new-{key}");
            assert_eq!(acquire(&store, &new, "a"), Err(ErrorKind::Full));
            assert_eq!(consume(&store, &new), Err(ErrorKind::Full));
        }
        // What holds nothing needs no room.
        let places = places(&store);
        assert_eq!(places.peek("new").run().unwrap().held(), 0);
        let (now, end) = (old.decided_at(), old.expires_at());
        let lost = Lease::new(old.id(), old.token(), old.weight(), now, end);
        assert!(!places.release("new", &lost).run().unwrap());
        assert_eq!(places.renew("new", &lost).run().unwrap(), None);
        let heavy = places.acquire("new", "a").weight(3).run().unwrap();
        assert!(!heavy.is_granted());
        for key in 0..max_keys {
            let key = format!("held-{key}");
            hold(&store, &key, "b");
            assert_eq!(acquire(&store, &key, "c"), Ok(None));
        }
        assert_eq!(store.len(), max_keys);
    }
}

#[test]
fn room_is_made_when_the_last_lease_has_ended_and_not_before() {
    for max_keys in [1_u32, 10, 64] {
        let (store, clock) = store(max_keys.try_into().unwrap());
        let start = clock.now();
        for key in 0..max_keys {
            clock.set(start.saturating_add(key * MICRO));
            hold(&store, &format!("early-{key}"), "a");
        }
        clock.set(start.saturating_add(10 * SECOND - MICRO));
        for key in 0..max_keys {
            assert_eq!(acquire(&store, "late", "a"), Err(ErrorKind::Full));
            assert_eq!(consume(&store, "late"), Err(ErrorKind::Full));
            // The lease of exactly one more key has ended.
            clock.advance(MICRO);
            let new = format!("late-{key}");
            // Leases make room for limits, too.
            match key % 2 {
                0 => drop(hold(&store, &new, "a")),
                _ => assert_eq!(consume(&store, &new), Ok(true)),
            }
            assert_eq!(acquire(&store, "late", "a"), Err(ErrorKind::Full));
        }
    }
}

/// A renewed lease keeps its key, and so does a token that a later lease must exceed.
#[test]
fn room_is_made_when_tokens_are_past_and_not_before() {
    let (store, clock) = store(1);
    let lease = hold(&store, "k", "a");
    clock.advance(9 * SECOND);
    places(&store).renew("k", &lease).run().unwrap().unwrap();
    clock.advance(9 * SECOND);
    assert_eq!(store.sweep(), 0);
    assert_eq!(acquire(&store, "new", "a"), Err(ErrorKind::Full));
    assert!(release(&store, "k", &lease));
    hold(&store, "new", "a");
    assert_eq!(store.clear(), 1);
    // More leases in one microsecond than microseconds: their tokens are ahead of the clock.
    let mut last = 0;
    for _ in 0..5 {
        let lease = hold(&store, "k", "a");
        assert!(lease.token() > last);
        last = lease.token();
        assert!(release(&store, "k", &lease));
    }
    for _ in 0..5 {
        assert_eq!(store.sweep(), 0);
        assert_eq!(acquire(&store, "new", "a"), Err(ErrorKind::Full));
        clock.advance(MICRO);
    }
    assert_eq!(store.sweep(), 1);
    assert!(hold(&store, "k", "a").token() > last);
}

#[test]
fn a_clock_that_steps_back_makes_no_room_and_gives_no_token_twice() {
    let (store, clock) = store(1);
    let start = clock.now();
    let lease = hold(&store, "k", "a");
    clock.set(start.saturating_add(5 * SECOND));
    places(&store).renew("k", &lease).run().unwrap().unwrap();
    clock.set(Timestamp::from_micros(start.as_micros() - 1_000_000).unwrap());
    assert!(release(&store, "k", &lease));
    assert_eq!(store.sweep(), 0);
    assert_eq!(acquire(&store, "new", "a"), Err(ErrorKind::Full));
    let next = hold(&store, "k", "b");
    assert!(next.token() > lease.token());
    assert!(release(&store, "k", &next));
    clock.set(start.saturating_add(6 * SECOND));
    assert_eq!(store.sweep(), 1);
}

/// Whatever drops the leases of a key, and whatever its clock does.
#[test]
fn tokens_grow_for_ever() {
    let (store, clock) = store(1);
    let start = clock.now();
    let mut latest = 0;
    let mut next = |what: &str| {
        // Several at one instant, so that the last token is ahead of the clock.
        for id in ["a", "b"] {
            let token = hold(&store, "k", id).token();
            assert!(token > latest, "{token} after {latest}: {what}");
            latest = token;
        }
    };
    next("at first");
    places(&store).reset("k").run().unwrap();
    next("after a reset");
    store.clear();
    next("after everything was cleared");
    clock.set(start.saturating_add(11 * SECOND));
    assert_eq!(store.sweep(), 1);
    clock.set(start);
    next("after a sweep and a clock that steps back");
    places(&store).reset("k").run().unwrap();
    // What is denied, or only looks, leaves nothing.
    assert_eq!(places(&store).peek("k").run().unwrap().held(), 0);
    assert!(
        !places(&store)
            .acquire("k", "c")
            .weight(3)
            .run()
            .unwrap()
            .is_granted()
    );
    assert!(store.is_empty());
}

#[test]
fn leases_of_different_names_are_counted_apart() {
    let (store, _clock) = store(1_000);
    for name in 0..1_000 {
        let places = ConcurrencyLimiter::new(&store, &format!("name-{name}"), 1, SECOND).unwrap();
        assert!(places.acquire("k", "a").run().unwrap().is_granted());
        assert!(!places.acquire("k", "b").run().unwrap().is_granted());
    }
    assert_eq!(store.len(), 1_000);
}

/// One call does not look at every key.
#[tokio::test]
async fn a_lease_is_renewed_and_released_under_its_own_key_and_name_only() {
    let (store, _clock) = store(10);
    let held = hold(&store, "a", "id");
    let other = hold(&store, "b", "id");
    let renamed = ConcurrencyLimiter::new(&store, "others", 2, 10 * SECOND).unwrap();
    let own = places(&store);
    for (limiter, key) in [(&own, "b"), (&renamed, "a")] {
        let refused = [
            limiter.renew(key, &held).run().unwrap_err(),
            limiter.renew(key, &held).await.unwrap_err(),
            limiter.release(key, &held).run().unwrap_err(),
            limiter.release(key, &held).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Malformed);
            assert!(
                error.to_string().contains("another limiter or key"),
                "{error}"
            );
        }
    }
    // A renewed lease belongs to the same key, and so does a lease that nobody acquired here.
    let renewed = own.renew("a", &held).await.unwrap().unwrap();
    assert_eq!(
        own.release("b", &renewed).run().unwrap_err().kind(),
        ErrorKind::Malformed
    );
    assert!(own.release("a", &renewed).run().unwrap());
    let parts = (
        other.token(),
        other.weight(),
        other.decided_at(),
        other.expires_at(),
    );
    let by_hand = Lease::new(other.id(), parts.0, parts.1, parts.2, parts.3);
    assert!(own.release("b", &by_hand).run().unwrap());
}

#[test]
fn room_is_made_in_small_steps() {
    let (store, clock) = store(4_000);
    for key in 0..4_000 {
        hold(&store, &key.to_string(), "a");
    }
    clock.advance(10 * SECOND);
    assert_eq!(consume(&store, "new"), Ok(true));
    let left = store.len();
    assert!((4_000 - 512..4_000).contains(&left), "{left}");
    assert_eq!(store.sweep(), left - 1);
    assert_eq!(store.len(), 1);
}

#[test]
fn new_keys_drop_leases_that_have_ended() {
    let (store, clock) = store(1_000_000);
    let mut most = 0;
    for key in 0..20_000 {
        hold(&store, &key.to_string(), "a");
        clock.advance(Duration::from_millis(10));
        most = most.max(store.len());
    }
    // A thousand are held at a time.
    assert!((1_000..4_000).contains(&most), "{most}");
}

#[test]
fn sweeps_clear_and_reset_drop_what_they_say() {
    let (store, clock) = store(100);
    let places = places(&store);
    let now = clock.now();
    let empty = store.bytes();
    let both = |at: Timestamp| {
        for key in ["a", "b"] {
            hold(&store, key, "x");
            assert!(places.acquire(key, "x").at(at).run().unwrap().is_granted());
        }
    };
    both(now);
    assert!(store.bytes() > empty);
    assert_eq!(store.len(), 4);
    let over = now.saturating_add(10 * SECOND);
    // Callers' instants and the store's clock count apart.
    assert_eq!(store.sweep(), 0);
    assert_eq!(store.sweep_at(now), 0);
    assert_eq!(store.sweep_at(over), 2);
    assert_eq!(store.len(), 2);
    clock.set(over);
    assert_eq!(store.sweep_at(over), 0);
    assert_eq!(store.sweep(), 2);
    assert!(store.is_empty());

    both(over);
    assert_eq!(consume(&store, "a"), Ok(true));
    // A reset ends the leases that either clock has for the key, and nothing else.
    places.reset("a").run().unwrap();
    assert_eq!(store.len(), 3);
    assert_eq!(consume(&store, "a"), Ok(false));
    assert_eq!(places.peek("a").run().unwrap().held(), 0);
    assert_eq!(places.peek("b").run().unwrap().held(), 1);
    assert_eq!(store.clear(), 3);
    assert!(store.is_empty());
    assert_eq!(places.peek("b").at(over).run().unwrap().held(), 0);
    assert_eq!(consume(&store, "a"), Ok(true));
}

/// Documented as 300 + 80 max(`E`, 2) + `E` `L` bytes.
#[test]
fn leases_cost_what_the_documentation_says() {
    for (leases, length) in [
        (1_usize, 1),
        (2, 16),
        (3, 200),
        (5, 32),
        (1_000, 200),
        (700, 8),
    ] {
        let (store, _clock) = store(1_000_000);
        let places = ConcurrencyLimiter::new(&store, "places", MAX_LEASES, SECOND).unwrap();
        let keys = (20_000 / leases).clamp(2, 5_000);
        for key in 0..keys {
            let key = key.to_string();
            for lease in 0..leases {
                let id = format!("{lease:0>length$}");
                let id = &id[id.len() - length..];
                assert!(places.acquire(&key, id).run().unwrap().is_granted());
            }
        }
        let most = 300 + 80 * leases.max(2) + leases * length;
        // The tables of 32 shards hold a few buckets each, however few keys there are.
        let tables = 32 * 8 * 80;
        let bytes = store.bytes();
        assert!(
            bytes <= keys * most + tables,
            "{leases} of {length}: {bytes}"
        );
        assert!(
            2 * bytes >= keys * leases * (40 + length),
            "{bytes} are too few"
        );
    }
    // The most that a key takes.
    let leases = usize::try_from(MAX_LEASES).unwrap();
    let most = 300 + 80 * leases + leases * 200;
    assert!((270_000..285_000).contains(&most), "{most}");
}

/// Leases that come and go leave no memory behind.
#[test]
fn the_bytes_of_a_key_do_not_grow_with_use() {
    let (store, clock) = store(10);
    let mut most = 0;
    for lease in 0..10_000 {
        let held = hold(&store, "k", &format!("{lease:0>200}"));
        match lease % 3 {
            0 => drop(release(&store, "k", &held)),
            _ => clock.advance(6 * SECOND),
        }
        if lease == 100 {
            most = store.bytes();
        }
    }
    assert!(store.bytes() <= most + 500, "{} of {most}", store.bytes());
    assert_eq!(store.len(), 1);
}

/// Threads never hold more than the amount, and no token is given twice.
#[test]
fn threads_share_no_place_and_no_token() {
    const THREADS: usize = 8;
    const EACH: usize = 300;
    let (store, clock) = store(1_000);
    let (held, tokens) = (Mutex::new([0_u64; 4]), Mutex::new(BTreeSet::new()));
    let keys: Vec<String> = (0..4).map(|key| format!("key-{key}")).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, held, tokens, keys, clock) = (&store, &held, &tokens, &keys, &clock);
            scope.spawn(move || {
                for number in 0..EACH {
                    let (of, id) = (number % 4, format!("{thread}-{number}"));
                    let key = &keys[of];
                    let acquired = places(store).acquire(key, &id).run().unwrap();
                    let Acquisition::Granted { lease, .. } = acquired else {
                        continue;
                    };
                    let mut counts = held.lock().unwrap();
                    counts[of] += 1;
                    assert!(counts[of] <= 2, "{counts:?}");
                    drop(counts);
                    let is_new = tokens.lock().unwrap().insert((of, lease.token()));
                    assert!(is_new, "{} was given twice", lease.token());
                    thread::yield_now();
                    held.lock().unwrap()[of] -= 1;
                    assert!(release(store, key, &lease));
                    clock.advance(MICRO);
                }
            });
        }
    });
    assert!(!tokens.into_inner().unwrap().is_empty());
    for key in &keys {
        assert_eq!(places(&store).peek(key).run().unwrap().held(), 0);
    }
    assert_eq!(store.len(), keys.len());
}

#[test]
fn resets_come_with_waiting_too() {
    use std::task::{Context, Poll, Waker};
    let (store, _clock) = store(2);
    hold(&store, "k", "a");
    let places = places(&store);
    let mut reset = places.reset("k").into_future();
    let polled: Poll<Result<(), StoreError>> =
        reset.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(()))));
    assert!(store.is_empty());
}
