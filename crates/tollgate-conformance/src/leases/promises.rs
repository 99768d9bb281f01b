//! The promises about leases: each function panics when its promise is broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_oneof};
use tollgate_core::lease::{self, Acquisition, ConcurrencyLimiter};
use tollgate_core::{ErrorKind, StoreError, Timestamp};

use super::Leases;
use super::naive::NaiveLeases;
use crate::clock::wall_clock;
use crate::harness::{OwnedKey, fresh_key};
use crate::plan::{Outcome, Plan, Stop};
use crate::race::race;

const START: u64 = 1_780_000_123_456_789;
const MILLI: u64 = 1_000;

/// An operation; a lease is named by its id, and whether its latest token is used or an older one.
#[derive(Clone, Copy, Debug)]
enum Act {
    Acquire(usize, u64),
    Renew(usize, bool),
    Release(usize, bool),
    Peek,
}

/// Two amounts and times to live in milliseconds, because they may change while leases are held, and
/// operations: which of the two they use, and how far the clock has moved.
type History = ([(u64, u64); 2], Vec<(bool, i64, Act)>);

fn histories() -> impl Strategy<Value = History> {
    let id = 0_usize..8;
    let weight = prop_oneof![6 => Just(1_u64), 2 => 2_u64..4, 1 => Just(u64::MAX)];
    let act = prop_oneof![
        6 => (id.clone(), weight).prop_map(|(id, weight)| Act::Acquire(id, weight)),
        3 => (id.clone(), proptest::bool::weighted(0.8)).prop_map(|(id, new)| Act::Renew(id, new)),
        3 => (id, proptest::bool::weighted(0.8)).prop_map(|(id, new)| Act::Release(id, new)),
        1 => Just(Act::Peek),
    ];
    let moved = prop_oneof![
        6 => Just(0_i64),
        4 => 1_i64..2_000,
        2 => (1_i64..12).prop_map(|millis| millis * 1_000),
        1 => (1_i64..12).prop_map(|millis| millis * 1_000 - 1),
        1 => -6_000_i64..0,
    ];
    let terms = || (0_u64..6, 1_u64..10);
    let steps = vec((proptest::bool::weighted(0.2), moved, act), 1..60);
    ((terms(), terms()).prop_map(<[_; 2]>::from), steps)
}

const IDS: [&str; 8] = ["-", "c", "w", "f", "t", "e", "é", "a\u{0}b"];

fn stamp(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}

fn terms(amount: u64, ttl: Duration) -> lease::Terms {
    lease::Terms::new("places", amount, ttl).unwrap()
}

/// Every answer equals that of the state machine, whatever the clock does.
pub async fn agrees_with_the_machine(harness: &Leases, plan: &Plan) {
    plan.check(&histories(), async |history| {
        let mut row = Vec::new();
        check(harness, history, |request, now| {
            // In bytes, as a database would hold it.
            let mut state = lease::State::from_bytes(request.terms(), &row).unwrap();
            let answer = request.decide_on(&mut state, now);
            row = state.to_bytes();
            answer
        })
        .await
    });
}

/// Every answer equals that of the second definition, which keeps everything that ever happened.
pub async fn agrees_with_the_definition(harness: &Leases, plan: &Plan) {
    plan.check(&histories(), async |history| {
        let mut naive = NaiveLeases::default();
        check(harness, history, |request, now| naive.decide(request, now)).await
    });
}

async fn check(
    harness: &Leases,
    (both, acts): History,
    mut expect: impl FnMut(&lease::Request<'_>, Timestamp) -> lease::Answer,
) -> Outcome {
    let store = harness.store().await;
    let both = both.map(|(amount, ttl)| terms(amount, Duration::from_millis(ttl)));
    let key = OwnedKey::fresh("alice");
    let mut tokens: Vec<Vec<u64>> = vec![Vec::new(); IDS.len()];
    let mut now = START;
    for (other, moved, act) in acts {
        let terms = &both[usize::from(other)];
        now = now.saturating_add_signed(moved);
        let token = |id: usize, newest: bool| {
            let known = &tokens[id];
            let token = if newest { known.last() } else { known.first() };
            token.copied().unwrap_or(START)
        };
        let id = |id: usize| IDS[id].as_bytes();
        let operation = match act {
            Act::Acquire(of, weight) => lease::Operation::Acquire { id: id(of), weight },
            Act::Renew(of, newest) => lease::Operation::Renew {
                id: id(of),
                token: token(of, newest),
            },
            Act::Release(of, newest) => lease::Operation::Release {
                id: id(of),
                token: token(of, newest),
            },
            Act::Peek => lease::Operation::Peek,
        };
        let request = lease::Request::new(terms, key.key(), operation).at(stamp(now));
        let found = store.lease(request).await.unwrap();
        let expected = expect(&request, stamp(now));
        if found != expected {
            return Err(Stop::Broken(format!(
                "{act:?} at {now}\n  answered {found:?}\n  expected {expected:?}"
            )));
        }
        if let (Act::Acquire(of, _), lease::Answer::Acquired(Acquisition::Granted { lease, .. })) =
            (act, found)
        {
            tokens[of].push(lease.token());
        }
    }
    Ok(())
}

/// Acquiring again with the same id returns the same lease and takes nothing more; a second release
/// finds nothing; neither does a renewal after it.
pub async fn a_repeated_acquisition_is_the_same_lease(harness: &Leases, _plan: &Plan) {
    let store = harness.store().await;
    let limiter = ConcurrencyLimiter::new(store, "places", 3, Duration::from_secs(60)).unwrap();
    let key = fresh_key("alice");
    let first = limiter.acquire(&key, "a").weight(2).await.unwrap();
    let Acquisition::Granted {
        lease,
        is_new: true,
    } = first
    else {
        panic!("not granted: {first:?}");
    };
    let second = limiter.acquire(&key, "a").await.unwrap().permit().unwrap();
    assert_eq!((second.token(), second.weight()), (lease.token(), 2));
    assert_eq!(second.expires_at(), lease.expires_at());
    let occupancy = limiter.peek(&key).await.unwrap();
    assert_eq!((occupancy.held(), occupancy.remaining()), (2, 1));
    let denied = limiter.acquire(&key, "b").weight(2).await;
    let denied = denied.unwrap().permit().unwrap_err();
    assert_eq!((denied.held(), denied.amount()), (2, 3));
    assert!(denied.ends_within().duration().unwrap() <= Duration::from_secs(60));
    // All of the amount can be held.
    let other = limiter.acquire(&key, "c").await.unwrap().permit().unwrap();
    assert_eq!(limiter.peek(&key).await.unwrap().remaining(), 0);
    let renewed = limiter.renew(&key, &lease).await.unwrap().unwrap();
    assert!(renewed.expires_at() >= lease.expires_at());
    assert!(limiter.release(&key, &lease).await.unwrap());
    assert!(!limiter.release(&key, &lease).await.unwrap());
    assert_eq!(limiter.renew(&key, &lease).await.unwrap(), None);
    // A later lease with the same id is another one.
    let again = limiter.acquire(&key, "a").await.unwrap().permit().unwrap();
    assert!(again.token() > other.token());
    assert!(!limiter.release(&key, &lease).await.unwrap());
    assert_eq!(limiter.peek(&key).await.unwrap().held(), 2);
    limiter.reset(&key).await.unwrap();
    assert_eq!(limiter.peek(&key).await.unwrap().held(), 0);
    assert_eq!(limiter.renew(&key, &again).await.unwrap(), None);
}

/// A lease that is not renewed ends at its instant, neither earlier nor later than a few
/// milliseconds; one that is renewed does not.
pub async fn ends_by_itself_at_its_own_clock(harness: &Leases, _plan: &Plan) {
    let store = harness.store().await;
    let ttl = Duration::from_millis(400);
    let limiter = ConcurrencyLimiter::new(store, "places", 2, ttl).unwrap();
    let key = fresh_key("alice");
    let renewed = limiter.acquire(&key, "renewed").await;
    let renewed = renewed.unwrap().permit().unwrap();
    let left = limiter.acquire(&key, "left").await;
    let left = left.unwrap().permit().unwrap();
    let mut renewed = renewed;
    for _ in 0..200 {
        renewed = limiter
            .renew(&key, &renewed)
            .await
            .unwrap()
            .expect("renewed in time");
        match limiter.acquire(&key, "next").await.unwrap() {
            Acquisition::Granted { lease, .. } => {
                assert!(
                    lease.decided_at() >= left.expires_at(),
                    "{left:?}, {lease:?}"
                );
                assert_eq!(limiter.renew(&key, &left).await.unwrap(), None);
                assert!(!limiter.release(&key, &left).await.unwrap());
                return;
            }
            Acquisition::Denied(denied) => {
                assert!(denied.ends_within().duration().unwrap() <= ttl);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lease did not end");
}

/// Returns the token of the lease that was granted.
#[track_caller]
fn granted(answer: Result<lease::Answer, StoreError>) -> u64 {
    match answer {
        Ok(lease::Answer::Acquired(Acquisition::Granted { lease, .. })) => lease.token(),
        answer => panic!("not granted: {answer:?}"),
    }
}

/// Tokens grow from lease to lease, also after all leases have ended, and for calls at one instant.
pub async fn tokens_only_grow(harness: &Leases, _plan: &Plan) {
    let store = harness.store().await;
    let terms = terms(2, Duration::from_millis(1));
    let key = OwnedKey::fresh("alice");
    let mut last = 0;
    for round in 0..40 {
        // Four acquisitions at each instant.
        let now = stamp(START + round / 4 * MILLI);
        let id = format!("id-{round}");
        let id = id.as_bytes();
        let ask =
            |operation| store.lease(lease::Request::new(&terms, key.key(), operation).at(now));
        let token = granted(ask(lease::Operation::Acquire { id, weight: 1 }).await);
        assert!(token > last, "{token} after {last}");
        last = token;
        let released = ask(lease::Operation::Release { id, token }).await.unwrap();
        assert_eq!(released, lease::Answer::Released(true));
    }
    // By the store's own clock, with keys that expire in between.
    let (real, mut last) = (OwnedKey::fresh("real"), 0);
    for _ in 0..5 {
        let acquire = lease::Operation::Acquire {
            id: b"a",
            weight: 1,
        };
        let acquired = store.lease(lease::Request::new(&terms, real.key(), acquire));
        let token = granted(acquired.await);
        assert!(token > last, "{token} after {last}");
        last = token;
        tokio::time::sleep(Duration::from_millis(6)).await;
    }
}

/// Leases of one key, or of one limiter, take nothing from another.
pub async fn keys_are_independent(harness: &Leases, _plan: &Plan) {
    let store = harness.store().await;
    let base = fresh_key("k");
    for name in ["places", "places-2"] {
        let ttl = Duration::from_secs(60);
        let limiter = ConcurrencyLimiter::new(Arc::clone(&store), name, 1, ttl).unwrap();
        for (partition, rest) in [("", ""), (":", ""), ("", ":"), ("{", ""), ("", "}")] {
            let key = OwnedKey::of(format!("{base}{partition}"), rest);
            let granted = limiter.acquire(key.key(), "a").await.unwrap();
            assert!(granted.is_granted(), "{name}, {key:?}");
            let denied = limiter.acquire(key.key(), "b").await.unwrap();
            assert!(!denied.is_granted(), "{name}, {key:?}");
            // The store's clock and callers' instants count apart.
            let apart = limiter.acquire(key.key(), "b");
            let apart = apart.at(wall_clock()).await.unwrap();
            assert!(apart.is_granted(), "{name}, {key:?}");
        }
    }
}

/// A request that is not valid fails with `ErrorKind::Malformed` and changes nothing.
pub async fn malformed_requests_change_nothing(harness: &Leases, _plan: &Plan) {
    let store = harness.store().await;
    let terms = terms(1, Duration::from_secs(60));
    let key = OwnedKey::fresh("alice");
    let long = "x".repeat(lease::LONGEST_ID + 1);
    let ask = |operation| store.lease(lease::Request::new(&terms, key.key(), operation));
    for operation in [
        lease::Operation::Acquire { id: b"", weight: 1 },
        lease::Operation::Acquire {
            id: long.as_bytes(),
            weight: 1,
        },
        lease::Operation::Acquire {
            id: b"a",
            weight: 0,
        },
        lease::Operation::Renew { id: b"", token: 1 },
        lease::Operation::Release {
            id: long.as_bytes(),
            token: 1,
        },
    ] {
        let error = ask(operation).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{operation:?}: {error}");
    }
    let id = &long.as_bytes()[..lease::LONGEST_ID];
    for token in [0, 1, u64::MAX] {
        let renewed = ask(lease::Operation::Renew { id, token }).await.unwrap();
        assert_eq!(renewed, lease::Answer::Renewed(None));
    }
    granted(ask(lease::Operation::Acquire { id, weight: 1 }).await);
    let nothing = self::terms(0, Duration::from_secs(60));
    let key = OwnedKey::fresh("nobody");
    let acquire = lease::Operation::Acquire { id, weight: 1 };
    let answer = store
        .lease(lease::Request::new(&nothing, key.key(), acquire))
        .await
        .unwrap();
    let lease::Answer::Acquired(Acquisition::Denied(denied)) = answer else {
        panic!("granted: {answer:?}");
    };
    assert!(denied.ends_within().is_never());
}

/// However many callers acquire and release at once, never more than the amount is held, and all of
/// it can be.
pub async fn concurrent_holders_never_exceed_the_amount(harness: &Leases, _plan: &Plan) {
    const AMOUNT: u64 = 3;
    const CALLERS: usize = 16;
    let store = harness.store().await;
    let ttl = Duration::from_secs(60);
    let limiter = ConcurrencyLimiter::new(store, "places", AMOUNT, ttl).unwrap();
    let key = fresh_key("alice");
    let (held, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let granted = race(CALLERS, |caller| {
        let (limiter, key) = (limiter.clone(), key.clone());
        let (held, most) = (Arc::clone(&held), Arc::clone(&most));
        async move {
            let mut granted = 0_u32;
            for round in 0..30 {
                let id = format!("{caller}-{round}");
                let Ok(lease) = limiter.acquire(&key, &id).await.unwrap().permit() else {
                    tokio::task::yield_now().await;
                    continue;
                };
                granted += 1;
                // Counted while it is certainly held.
                let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                assert!(now <= AMOUNT, "{now} leases of {AMOUNT} at once");
                tokio::task::yield_now().await;
                held.fetch_sub(1, Ordering::SeqCst);
                assert!(limiter.release(&key, &lease).await.unwrap());
            }
            granted
        }
    });
    let granted: u32 = granted.await.into_iter().sum();
    assert!(granted > 0);
    assert_eq!(limiter.peek(&key).await.unwrap().held(), 0);
    for holder in ["a", "b", "c"] {
        assert!(limiter.acquire(&key, holder).await.unwrap().is_granted());
    }
    assert!(!limiter.acquire(&key, "d").await.unwrap().is_granted());
}
