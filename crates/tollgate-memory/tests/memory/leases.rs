//! Leases in memory: no token is given twice, and what they cost.

use tollgate_core::lease::{ConcurrencyLimiter, Lease, MAX_LEASES};
use tollgate_core::{ErrorKind, Timestamp};
use tollgate_memory::{Clock, MemoryStore};

use crate::held::{MICRO, SECOND, places, store};

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

#[test]
fn what_holds_no_lease_needs_no_room() {
    let (store, _clock) = store(1);
    let old = hold(&store, "held", "a");
    let places = places(&store);
    assert_eq!(places.peek("new").run().unwrap().held(), 0);
    let (now, end) = (old.decided_at(), old.expires_at());
    let lost = Lease::new(old.id(), old.token(), old.weight(), now, end);
    assert!(!places.release("new", &lost).run().unwrap());
    assert_eq!(places.renew("new", &lost).run().unwrap(), None);
    let heavy = places.acquire("new", "a").weight(3).run().unwrap();
    assert!(!heavy.is_granted());
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
    // A token is greater than those of states that were cleared in the same part of the table.
    clock.advance(MICRO);
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
