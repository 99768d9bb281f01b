//! Leases, their answers and their terms: what they return, how they are shown, and where they end.

use std::fmt::Debug;
use std::time::Duration;

use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, Acquisition, ConcurrencyLimiter, Lease, NoLease, Occupancy};
use tollgate_core::{Key, LimitErrorKind, StoreError, Timestamp, Wait};

const NOW: u64 = 1_780_000_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Acquires a lease of weight 1 of a millisecond, and returns it.
fn hold(state: &mut lease::State, id: &[u8], now: u64) -> Lease {
    let terms = lease::Terms::new("places", 9, Duration::from_millis(1)).unwrap();
    let acquire = lease::Operation::Acquire { id, weight: 1 };
    match lease::Request::new(&terms, "k", acquire).decide_on(state, at(now)) {
        lease::Answer::Acquired(Acquisition::Granted { lease, .. }) => lease,
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn a_lease_is_valid_for_a_thousandth_less_than_the_store_holds_it() {
    for (left, valid) in [
        (0, 0),
        (1, 0),
        (1_000, 999),
        (1_001, 999),
        (30_000_000, 29_970_000),
    ] {
        let lease = Lease::new(*b"a", 7, 1, at(NOW), at(NOW + left));
        assert_eq!(lease.expires_at(), at(NOW + left));
        assert_eq!(lease.valid_for(), Duration::from_micros(valid), "{left}");
    }
    let over = Lease::new(*b"a", 7, 1, at(NOW), at(NOW - 1));
    assert_eq!(over.valid_for(), Duration::ZERO);
}

/// After the store's clock has stepped back by an hour, leases end by it in an hour and a time to live.
/// Their holders rely on a time to live: once the clock is corrected, that may be all that is left.
#[test]
fn no_lease_is_valid_for_longer_than_its_time_to_live() {
    const HOUR: u64 = 3_600_000_000;
    let valid = Duration::from_micros(999);
    let mut state = lease::State::default();
    hold(&mut state, b"a", NOW + HOUR);
    let lease = hold(&mut state, b"b", NOW);
    assert_eq!((lease.valid_for(), lease.decided_at()), (valid, at(NOW)));
    assert_eq!(lease.expires_at(), at(NOW + HOUR + 1_000));
    // The same lease again, and renewed.
    assert_eq!(hold(&mut state, b"b", NOW).valid_for(), valid);
    let terms = lease::Terms::new("places", 9, Duration::from_millis(1)).unwrap();
    let renew = lease::Operation::Renew {
        id: b"b",
        token: lease.token(),
    };
    let renewed = lease::Request::new(&terms, "k", renew).decide_on(&mut state, at(NOW));
    let lease::Answer::Renewed(Some(renewed)) = renewed else {
        panic!("{renewed:?}");
    };
    assert_eq!(renewed.valid_for(), valid);
    // A time to live that is longer than what is left changes nothing.
    let lease = Lease::new(*b"a", 7, 1, at(NOW), at(NOW + 1_000));
    assert_eq!(lease.clone().with_ttl(Duration::from_secs(1)), lease);
}

/// A store that knows nothing of times to live.
struct Careless;

#[async_trait::async_trait]
impl lease::Store for Careless {
    async fn lease<'a>(&'a self, request: lease::Request<'a>) -> Result<lease::Answer, StoreError> {
        self.lease_now(&request)
    }

    async fn reset_leases<'a>(&'a self, _: &'a lease::Terms, _: Key<'a>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl lease::SyncStore for Careless {
    fn lease_now(&self, _: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        let lease = Lease::new(*b"a", 7, 1, at(NOW), at(NOW + 3_600_000_000));
        let is_new = true;
        Ok(lease::Answer::Acquired(Acquisition::Granted {
            lease,
            is_new,
        }))
    }

    fn reset_leases_now(&self, _: &lease::Terms, _: Key<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn limiter_bounds_the_leases_of_any_store_by_the_time_to_live() {
    let ttl = Duration::from_secs(30);
    let limiter = ConcurrencyLimiter::new(Careless, "places", 9, ttl).unwrap();
    let lease = limiter.acquire("k", "a").run().unwrap().permit().unwrap();
    assert_eq!(lease.valid_for(), ttl - ttl / 1_000);
}

#[test]
fn a_denial_says_how_much_is_held_and_when_there_is_room() {
    let denied = NoLease::new(3, 4, Wait::from_micros(1_500_000));
    assert_eq!(
        denied.to_string(),
        "3 of 4 are held; without renewals, there is room in 1.5s"
    );
    let never = NoLease::new(0, 4, Wait::NEVER);
    assert_eq!(
        never.to_string(),
        "0 of 4 are held, and a lease of this weight never fits: choose a smaller weight"
    );
}

#[test]
fn nothing_remains_where_more_is_held_than_the_amount() {
    for (held, amount, remaining) in [(1, 3, 2), (3, 3, 0), (5, 3, 0)] {
        assert_eq!(Occupancy::new(held, amount).remaining(), remaining);
    }
}

#[test]
fn debug_output_of_leases_shows_the_length_of_ids_only() {
    let places = ConcurrencyLimiter::new((), "places", 9, Duration::from_secs(1)).unwrap();
    let lease = Lease::new(*b"secret", 7, 2, at(NOW), at(NOW + 1));
    let shown = format!("{lease:?}");
    let expected = format!(
        "Lease {{ id_bytes: 6, token: 7, weight: 2, decided_at: {:?}, expires_at: {:?} }}",
        lease.decided_at(),
        lease.expires_at()
    );
    assert_eq!(shown, expected);
    let shown = |call: &dyn Debug| format!("{call:?}");
    for (call, operation) in [
        (shown(&places.acquire("k", "secret")), "Acquire(6 bytes, 1)"),
        (shown(&places.renew("k", &lease)), "Renew(6 bytes, 7)"),
        (shown(&places.release("k", &lease)), "Release(6 bytes, 7)"),
        (shown(&places.peek("k")), "Peek"),
    ] {
        assert!(call.starts_with("Call { request: "), "{call}");
        assert!(call.contains(&format!("operation: {operation},")), "{call}");
    }
    let reset = format!("{:?}", places.reset("k"));
    assert!(
        reset.starts_with("Reset { limiter: \"places\", key: "),
        "{reset}"
    );
}

#[test]
fn terms_of_leases_have_a_name_and_whole_microseconds() {
    let second = Duration::from_secs(1);
    let terms = lease::Terms::new("places", 9, second).unwrap();
    assert_eq!(
        (terms.name(), terms.identity()),
        ("places", "places:leases")
    );
    let error = lease::Terms::new("two words", 9, second).unwrap_err();
    assert_eq!(error.kind(), LimitErrorKind::Name, "{error}");
    let ttl = second + Duration::from_nanos(1);
    let error = lease::Terms::new("places", 9, ttl).unwrap_err();
    assert_eq!(error.kind(), LimitErrorKind::Duration, "{error}");
}

/// A lease that has ended takes no memory once another one is acquired.
#[test]
fn a_lease_that_has_ended_leaves_nothing_behind() {
    let (mut used, mut new) = (lease::State::default(), lease::State::default());
    let first = hold(&mut used, b"a", NOW);
    let end = first.expires_at().as_micros();
    assert_eq!(hold(&mut used, b"b", end), hold(&mut new, b"b", end));
    assert_eq!(used, new);
}

#[test]
fn a_lease_ends_at_the_latest_instant_at_the_latest() {
    let mut state = lease::State::default();
    let lease = hold(&mut state, b"a", Timestamp::MAX.as_micros() - 1);
    assert_eq!(lease.expires_at(), Timestamp::MAX);
    let terms = lease::Terms::new("places", 9, Duration::from_millis(1)).unwrap();
    let peek = lease::Request::new(&terms, "k", lease::Operation::Peek);
    for (now, held) in [
        (Timestamp::MAX.as_micros() - 1, 1),
        (Timestamp::MAX.as_micros(), 0),
    ] {
        let answer = peek.decide_on(&mut state, at(now));
        let lease::Answer::Occupied(occupancy) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(occupancy.held(), held);
    }
}
