//! `Breaker` leaves a store alone, and comes back.

use std::time::Duration;

use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_layers::Breaker;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

use crate::support::{Counted, Jumping, in_jumps};

const LIMIT: [&str; 1] = ["a=gcra:1000/1s"];

/// Makes calls that end so, and returns whether the store is left alone after them.
fn opens(kind: ErrorKind) -> bool {
    in_jumps(async {
        let store = FaultyStore::new(MemoryStore::new(), [Fault::Fail(kind); 3]);
        let breaker = Breaker::new(store).clock(ManualClock::new());
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        for _ in 0..3 {
            assert!(!breaker.is_open());
            assert_eq!(limiter.check("k").await.unwrap_err().kind(), kind);
        }
        let says = format!("{breaker:?}").contains("is_open: true");
        assert_eq!(says, breaker.is_open());
        breaker.is_open()
    })
}

#[test]
fn it_opens_for_a_store_that_does_not_answer() {
    for (kind, expected) in [
        (ErrorKind::Unavailable, true),
        (ErrorKind::Unknown, true),
        (ErrorKind::Protocol, true),
        (ErrorKind::Full, false),
        (ErrorKind::Misconfigured, false),
        (ErrorKind::Malformed, false),
        (ErrorKind::Unsupported, false),
    ] {
        assert_eq!(opens(kind), expected, "{kind}");
    }
}

#[test]
fn what_the_store_refuses_itself_is_no_sign_of_life() {
    in_jumps(async {
        let kinds = [
            ErrorKind::Unavailable,
            ErrorKind::Unavailable,
            ErrorKind::Malformed,
            ErrorKind::Unsupported,
            ErrorKind::Unavailable,
        ];
        let breaker = Breaker::new(FaultyStore::new(MemoryStore::new(), kinds.map(Fault::Fail)));
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        for kind in kinds {
            assert!(!breaker.is_open());
            assert_eq!(limiter.check("k").await.unwrap_err().kind(), kind);
        }
        assert!(breaker.is_open());
    });
}

#[test]
fn a_store_that_is_left_alone_is_not_asked_until_it_is_time() {
    let clock = ManualClock::new();
    let down = [Fault::Fail(ErrorKind::Unavailable); 3];
    let store = Counted::new(FaultyStore::new(MemoryStore::new(), down));
    let breaker = Breaker::new(&store)
        .retry_every(Duration::from_secs(5))
        .clock(clock.clone());
    let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
    in_jumps(async {
        for _ in 0..3 {
            assert!(limiter.check("k").await.is_err());
        }
        clock.advance(Duration::from_micros(4_999_999));
        let refused = limiter.check("k").await.unwrap_err();
        assert_eq!((refused.kind(), store.calls()), (ErrorKind::Unavailable, 3));
        clock.advance(Duration::from_micros(1));
        for _ in 0..3 {
            assert!(breaker.is_open());
            assert!(limiter.check("k").await.unwrap().is_allowed());
        }
        assert!(!breaker.is_open());
    });
}

#[test]
fn what_is_slow_is_said_by_the_program() {
    for (took, expected) in [(30, false), (31, true)] {
        in_jumps(async {
            let clock = Jumping::new();
            let delay = Fault::Delay(Duration::from_millis(took));
            let store = FaultyStore::new(clock.memory(), [delay; 3]);
            let breaker = Breaker::new(store)
                .slow_after(Duration::from_millis(30))
                .clock(clock);
            let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
            for _ in 0..3 {
                assert!(limiter.check("k").await.unwrap().is_allowed());
            }
            assert_eq!(breaker.is_open(), expected, "{took}");
        });
    }
}

#[test]
fn what_it_allows_is_100_ms_and_it_tries_every_200() {
    for (took, retry, expected) in [(100, 200, true), (101, 199, false), (101, 200, true)] {
        in_jumps(async {
            let clock = Jumping::new();
            let delay = Fault::Delay(Duration::from_millis(took));
            let store = FaultyStore::new(clock.memory(), [delay; 3]);
            let breaker = Breaker::new(store).clock(clock);
            let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
            for _ in 0..3 {
                assert!(limiter.check("k").await.unwrap().is_allowed());
            }
            assert_eq!(breaker.is_open(), took > 100);
            tokio::time::sleep(Duration::from_millis(retry)).await;
            assert_eq!(limiter.check("k").await.is_ok(), expected, "{took} {retry}");
        });
    }
}

#[test]
fn callers_who_go_away_are_counted_as_gone() {
    in_jumps(async {
        let clock = Jumping::new();
        let hangs = std::iter::repeat(Fault::Delay(Duration::from_secs(60)));
        let breaker = Breaker::new(FaultyStore::new(clock.memory(), hangs)).clock(clock);
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        for _ in 0..3 {
            assert!(!breaker.is_open());
            let call = limiter.check("k");
            let gave_up = tokio::time::timeout(Duration::from_millis(101), call).await;
            assert!(gave_up.is_err());
        }
        assert!(breaker.is_open());
    });
}
