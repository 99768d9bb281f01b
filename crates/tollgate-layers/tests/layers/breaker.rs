//! `Breaker` leaves a store alone, and comes back.

use std::future::Future;
use std::iter::repeat;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_core::store::Source;
use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_layers::{Breaker, Fallback, Lazy};
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
    let breaker = Breaker::new(&store).retry_every(Duration::from_secs(5));
    let breaker = breaker.clock(clock.clone());
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
            let breaker = Breaker::new(store).slow_after(Duration::from_millis(30));
            let breaker = breaker.clock(clock);
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
        let hangs = repeat(Fault::Delay(Duration::from_secs(60)));
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

const MILLI: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Makes `attempts` honest calls, one every 5 ms, beside `others` calls a millisecond whose callers go
/// away after `gone_after`, and returns how many were decided by a fallback, and how many allowed.
async fn beside_callers_who_go_away(
    store: impl Store + 'static,
    others: u64,
    gone_after: Duration,
    attempts: u32,
) -> (u32, u32) {
    let limiter = RateLimiter::new(store, ["login=sliding-log:5/1m"]).unwrap();
    let leaving = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            for number in 0_u64.. {
                let limiter = limiter.clone();
                let call = async move { limiter.check(number % 200).await.is_ok() };
                drop(tokio::spawn(tokio::time::timeout(gone_after, call)));
                if number % others == 0 {
                    tokio::time::sleep(MILLI).await;
                }
            }
        }
    });
    let (mut instead, mut allowed) = (0, 0);
    for _ in 0..attempts {
        tokio::time::sleep(5 * MILLI).await;
        let decision = limiter.check("victim").await.unwrap();
        instead += u32::from(decision.source() == Source::Fallback);
        allowed += u32::from(decision.is_allowed());
    }
    leaving.abort();
    (instead, allowed)
}

#[test]
fn callers_who_go_away_do_not_switch_a_limit_off() {
    for (others, gone_after) in [(1, 6), (1, 10), (5, 19), (1, 30)] {
        in_jumps(async {
            let clock = Jumping::new();
            let delays = repeat(Fault::Delay(ROUND_TRIP));
            let breaker = Breaker::new(FaultyStore::new(clock.memory(), delays)).clock(clock);
            let store = Fallback::allow(breaker);
            let found = beside_callers_who_go_away(store, others, gone_after * MILLI, 100).await;
            assert_eq!(found, (0, 5), "{others} a ms, gone after {gone_after} ms");
        });
    }
}

#[test]
fn callers_who_go_away_do_not_keep_a_store_left_alone() {
    for (others, gone_after) in [(1, 6), (5, 6), (20, 19)] {
        in_jumps(async {
            let clock = Jumping::new();
            let faults = [Fault::Fail(ErrorKind::Unavailable); 3].into_iter();
            let faults = faults.chain(repeat(Fault::Delay(ROUND_TRIP)));
            let breaker = Breaker::new(FaultyStore::new(clock.memory(), faults)).clock(clock);
            let store = Fallback::allow(breaker);
            let (instead, allowed) =
                beside_callers_who_go_away(store, others, gone_after * MILLI, 300).await;
            // Half a second, of which 200 ms are the time in which nobody asks.
            assert!((3..=100).contains(&instead), "{others}: {instead}");
            assert_eq!(allowed, instead + 5);
        });
    }
}

#[test]
fn callers_who_go_away_do_not_keep_a_store_from_connecting() {
    in_jumps(async {
        let clock = Jumping::new();
        let lazy = Lazy::new(move || async move {
            tokio::time::sleep(5 * MILLI).await;
            Ok(clock.memory())
        });
        let store = Fallback::allow(Breaker::new(lazy).clock(clock));
        let found = beside_callers_who_go_away(store, 1, 3 * MILLI, 100).await;
        assert_eq!(found, (0, 5));
    });
}

/// The program's timers are late, too, so what is late may be the program.
#[test]
fn a_program_that_stalls_does_not_open_it() {
    in_jumps(async {
        let clock = ManualClock::new();
        let delays = repeat(Fault::Delay(MILLI));
        let breaker =
            Breaker::new(FaultyStore::new(MemoryStore::new(), delays)).clock(clock.clone());
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        let mut left = pin!(limiter.check("left").into_future());
        let mut context = Context::from_waker(Waker::noop());
        assert!(left.as_mut().poll(&mut context).is_pending());
        for _ in 0..20 {
            let stall = async { clock.advance(Duration::from_millis(150)) };
            let (answer, ()) = tokio::join!(limiter.check("k").into_future(), stall);
            assert!(answer.is_ok() && !breaker.is_open());
        }
        assert!(left.await.is_ok());
    });
}

#[test]
fn a_store_that_hangs_is_left_alone() {
    in_jumps(async {
        let clock = Jumping::new();
        let hangs = repeat(Fault::Delay(Duration::from_secs(60)));
        let breaker = Breaker::new(FaultyStore::new(clock.memory(), hangs)).clock(clock);
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        let waits = async { limiter.check("a").await.is_ok() };
        let comes_later = async {
            tokio::time::sleep(Duration::from_millis(114)).await;
            let refused = limiter.check("b").await.unwrap_err();
            (refused.kind(), breaker.is_open())
        };
        tokio::select! {
            found = comes_later => assert_eq!(found, (ErrorKind::Unavailable, true)),
            _ = waits => panic!("it does not hang"),
        }
    });
}
