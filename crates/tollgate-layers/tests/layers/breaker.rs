//! `Breaker` leaves a store alone, and comes back.

use std::future::IntoFuture;
use std::iter::{repeat, repeat_n};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::store::Source;
use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_layers::{Breaker, Fallback, Lazy};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

use crate::support::{Counted, Jumping, in_jumps};

const LIMIT: [&str; 1] = ["a=gcra:1000/1s"];

/// Returns whether the store is left alone after calls that end so, one after the other.
async fn opens(kinds: impl IntoIterator<Item = ErrorKind> + Clone) -> bool {
    let faults: Vec<_> = kinds.clone().into_iter().map(Fault::Fail).collect();
    let breaker = Breaker::new(FaultyStore::new(MemoryStore::new(), faults));
    let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
    for kind in kinds {
        assert!(!breaker.is_open());
        assert_eq!(limiter.check("k").await.unwrap_err().kind(), kind);
    }
    let says = format!("{breaker:?}").contains("is_open: true");
    assert_eq!(says, breaker.is_open());
    breaker.is_open()
}

/// What the store refuses itself is no sign of life.
#[test]
fn it_opens_for_a_store_that_does_not_answer() {
    use ErrorKind::{Full, Malformed, Misconfigured, Protocol, Unavailable, Unknown, Unsupported};
    for (kind, alone, between) in [
        (Unavailable, true, None),
        (Unknown, true, None),
        (Protocol, true, None),
        (Full, false, Some(false)),
        (Misconfigured, false, Some(false)),
        (Malformed, false, Some(true)),
        (Unsupported, false, Some(true)),
    ] {
        in_jumps(async {
            assert_eq!(opens([kind; 3]).await, alone, "{kind}");
            if let Some(opened) = between {
                let kinds = [Unavailable, Unavailable, kind, Unavailable];
                assert_eq!(opens(kinds).await, opened, "{kind}");
            }
        });
    }
}

#[test]
fn what_is_slow_is_said_by_the_program_or_is_100_ms() {
    for (set, took, expected) in [
        (Some(30), 30, false),
        (Some(30), 31, true),
        (None, 100, false),
        (None, 101, true),
    ] {
        in_jumps(async {
            let clock = Jumping::new();
            let delays = repeat(Fault::Delay(Duration::from_millis(took)));
            let mut breaker = Breaker::new(FaultyStore::new(clock.memory(), delays)).clock(clock);
            if let Some(set) = set {
                breaker = breaker.slow_after(Duration::from_millis(set));
            }
            let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
            for _ in 0..3 {
                assert!(limiter.check("k").await.unwrap().is_allowed());
            }
            // A call of its own is as slow.
            tokio::time::sleep(Duration::from_millis(took + 2)).await;
            assert_eq!(breaker.is_open(), expected, "{took}");
        });
    }
}

/// With a timeout of their own that is shorter than what the breaker calls slow, or longer.
#[test]
fn callers_who_all_give_up_on_a_store_that_hangs_reach_the_fallback() {
    for timeout in [1, 10, 50, 99, 101, 150, 60_000] {
        in_jumps(async {
            let clock = Jumping::new();
            let hangs = repeat(Fault::Delay(Duration::from_secs(90)));
            let breaker = Breaker::new(FaultyStore::new(clock.memory(), hangs)).clock(clock);
            let limiter = RateLimiter::new(Fallback::allow(breaker), LIMIT).unwrap();
            let mut gave_up = 0;
            for call in 0..4_000 {
                let answer = limiter.check(call).into_future();
                let answer = tokio::time::timeout(timeout * MILLI, answer).await;
                gave_up += u64::from(answer.is_err());
                tokio::time::sleep(MILLI).await;
            }
            assert!(
                gave_up <= 2 + 400 / u64::from(timeout),
                "{gave_up} of 4,000 after {timeout} ms"
            );
        });
    }
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
            // Nobody asks for 200 ms, and three tries take 60 ms.
            assert!((3..=60).contains(&instead), "{others}: {instead}");
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

/// However often it tries: the rest of the program goes on.
#[test]
fn a_store_that_fails_at_once_is_tried_without_end_and_without_harm() {
    in_jumps(async {
        let down = repeat_n(Fault::Fail(ErrorKind::Unavailable), 1_000);
        let breaker = Breaker::new(FaultyStore::new(MemoryStore::new(), down));
        let breaker = breaker.retry_every(Duration::ZERO);
        let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
        while limiter.check("k").await.is_err() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_breaker_that_is_dropped_tries_no_more() {
    in_jumps(async {
        let clock = Jumping::new();
        let down = repeat(Fault::Fail(ErrorKind::Unavailable));
        let store = Arc::new(Counted::new(FaultyStore::new(clock.memory(), down)));
        let breaker = Breaker::new(Arc::clone(&store)).clock(clock);
        let limiter = RateLimiter::new(breaker, LIMIT).unwrap();
        for _ in 0..3 {
            assert!(limiter.check("k").await.is_err());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let calls = store.calls();
        assert!(calls > 3);
        drop(limiter);
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!((store.calls(), Arc::strong_count(&store)), (calls, 1));
    });
}

/// A runtime without tasks, so that no task tries.
#[test]
fn without_tokio_the_calls_themselves_try() {
    let clock = ManualClock::new();
    let down = [Fault::Fail(ErrorKind::Unavailable); 3];
    let breaker = Breaker::new(FaultyStore::new(MemoryStore::new(), down)).clock(clock.clone());
    let limiter = RateLimiter::new(&breaker, LIMIT).unwrap();
    let check = || {
        let mut call = pin!(limiter.check("k").into_future());
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.is_ok(),
            Poll::Pending => panic!("it waits"),
        }
    };
    for _ in 0..4 {
        assert!(!check());
    }
    clock.advance(Duration::from_millis(200));
    for _ in 0..4 {
        assert!(check());
    }
    assert!(!breaker.is_open());
}
