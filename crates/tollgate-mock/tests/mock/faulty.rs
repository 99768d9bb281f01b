//! Faults happen in scheduled order, and consume what their documentation says.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_core::FixedWindow;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::schedule::Schedule;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Limit, Quota, RateLimiter, Store, SyncStore, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

use crate::NOON;

fn limiter<I>(schedule: I) -> RateLimiter<FaultyStore<MemoryStore>>
where
    I: IntoIterator<Item = Fault>,
    I::IntoIter: Send + 'static,
{
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let limit = Limit::new("daily", FixedWindow::aligned(Quota::per_day(10))).unwrap();
    RateLimiter::new(FaultyStore::new(store, schedule), [limit]).unwrap()
}

#[test]
fn calls_under_several_limits_fail_as_those_under_one() {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    let store = FaultyStore::new(store, [Fault::None, Fault::LoseReply]);
    let limiter = RateLimiter::new(store, ["day=sliding-log:9/1d", "hour=sliding-log:5/1h"]);
    let limiter = limiter.unwrap();
    let first = limiter.check("k").run().unwrap();
    assert!(first.is_allowed());
    assert_eq!(first.remaining(), 4);
    let lost = limiter.check("k").run().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
    assert_eq!(remaining(&limiter), 3);
}

/// Returns what remains in the inner store, bypassing the faults.
fn remaining(limiter: &RateLimiter<FaultyStore<MemoryStore>>) -> u64 {
    let inner = RateLimiter::new(limiter.store().inner(), limiter.limits().to_vec()).unwrap();
    inner.peek("k").run().unwrap().remaining()
}

/// A clock that notes when it is read, which is when a store decides.
struct Noting(Arc<Mutex<Option<Instant>>>);

impl Clock for Noting {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap() = Some(Instant::now());
        NOON
    }
}

/// A caller must find the call counted while its reply is on its way.
#[test]
fn synchronous_call_is_decided_before_its_delay() {
    let decided = Arc::default();
    let clock = Noting(Arc::clone(&decided));
    let store = MemoryStore::builder().clock(clock).build();
    let delay = Duration::from_millis(50);
    let store = FaultyStore::new(store, [Fault::Delay(delay)]);
    let limiter = RateLimiter::new(store, ["daily=fixed-window:10/1d"]).unwrap();
    limiter.check("k").run().unwrap().permit().unwrap();
    assert!(decided.lock().unwrap().unwrap().elapsed() >= delay);
}

#[tokio::test]
async fn schedule_that_has_ended_does_not_start_again() {
    let mut turn = 0;
    let schedule = iter::from_fn(move || {
        turn += 1;
        (turn != 2).then_some(Fault::Fail(ErrorKind::Unavailable))
    });
    let limiter = limiter(schedule);
    assert!(limiter.check("k").await.is_err());
    for _ in 0..3 {
        assert!(limiter.check("k").await.unwrap().is_allowed());
    }
}

#[tokio::test]
async fn call_that_the_store_refuses_takes_no_fault() {
    for fault in [Fault::LoseReply, Fault::Fail(ErrorKind::Unavailable)] {
        let limiter = limiter([fault]);
        let check = Check::new(&limiter.limits()[0], "k", 1);
        let max_delay = Duration::from_secs(1);
        let unsupported = Request::new(Operation::Reserve { max_delay }, [check]);
        let store = limiter.store();
        assert!(
            store.supports(&Request::consume(check)).is_ok()
                && store.supports(&unsupported).is_err()
        );
        for (request, kind) in [
            (Request::consume(check).and(check), ErrorKind::Malformed),
            (unsupported, ErrorKind::Unsupported),
        ] {
            assert_eq!(store.decide_now(&request).unwrap_err().kind(), kind);
            assert_eq!(store.decide(request).await.unwrap_err().kind(), kind);
        }
        // The fault is still to come.
        assert!(limiter.check("k").await.is_err());
        assert!(limiter.check("k").await.is_ok());
    }
}

/// Errors come from a store that is full, and from a receipt of another key.
#[tokio::test]
async fn errors_of_the_store_are_lost_like_replies_unless_nothing_was_consumed() {
    let late = Fault::Delay(Duration::from_millis(1));
    for (fault, full) in [
        (late, ErrorKind::Full),
        (Fault::LoseReply, ErrorKind::Unknown),
    ] {
        let store = MemoryStore::builder().max_keys(1).build();
        let store = FaultyStore::new(store, [Fault::None, fault, fault, fault]);
        let limiter = RateLimiter::new(store, ["daily=fixed-window:10/1d"]).unwrap();
        let receipt = limiter.check("k").run().unwrap().into_receipt().unwrap();
        assert_eq!(limiter.check("l").await.unwrap_err().kind(), full);
        assert_eq!(limiter.check("l").run().unwrap_err().kind(), full);
        let refused = limiter.refund("l", receipt).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Malformed, "{fault:?}");
        // Each of these calls took one fault.
        assert_eq!(limiter.check("k").run().unwrap().remaining(), 8);
    }
}

#[test]
fn schedule_continues_after_a_panic() {
    let mut turn = 0;
    let limiter = limiter(iter::from_fn(move || {
        turn += 1;
        assert!(turn != 1, "the first fault is none");
        Some(Fault::Fail(ErrorKind::Full))
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.check("k").run())).is_err());
    let error = limiter.check("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    assert_eq!(error.to_string(), "scheduled to fail: Full");
}

#[test]
fn debug_of_a_faulty_store_shows_the_wrapped_store() {
    let found = format!("{:?}", FaultyStore::new("a store", []));
    assert_eq!(found, r#"FaultyStore { store: "a store", .. }"#);
}

#[tokio::test(start_paused = true)]
async fn delayed_call_is_counted_before_its_reply_comes() {
    let limiter = limiter([Fault::Delay(Duration::MAX), Fault::Delay(Duration::ZERO)]);
    let day = Duration::from_secs(86_400);
    let holds = tokio::time::timeout(day, limiter.check("k")).await.is_err();
    assert!(holds, "the reply comes later");
    assert_eq!(remaining(&limiter), 9);
    assert!(limiter.check("k").run().unwrap().is_allowed());
}

/// The calls of one kind, on a store with faults: each is made awaited, or at once.
struct Calls<'c> {
    /// Makes a call that counts one more.
    count: &'c dyn Fn(bool) -> Outcome<'c>,
    /// Forgets what was counted.
    reset: &'c dyn Fn(bool) -> Outcome<'c>,
    /// Makes a call that no store accepts.
    malformed: &'c dyn Fn(bool) -> Outcome<'c>,
    /// Returns what the inner store has counted, bypassing the faults.
    counted: &'c dyn Fn() -> u64,
}

type Outcome<'c> = Pin<Box<dyn Future<Output = Result<(), ErrorKind>> + 'c>>;

/// Makes an [`Outcome`] of a call that is awaited if `$awaited`, and made at once otherwise.
macro_rules! outcome {
    ($awaited:expr, $call:expr) => {
        Box::pin(async move {
            let outcome = if $awaited { $call.await } else { $call.run() };
            outcome.map(drop).map_err(|error| error.kind())
        })
    };
}

const FAULTS: [Fault; 10] = [
    Fault::Fail(ErrorKind::Full),
    Fault::Fail(ErrorKind::Unavailable),
    Fault::LoseReply,
    Fault::LoseReply,
    Fault::Delay(Duration::from_millis(50)),
    Fault::Delay(Duration::from_millis(50)),
    Fault::Fail(ErrorKind::Full),
    Fault::LoseReply,
    Fault::LoseReply,
    Fault::None,
];

/// Checks that calls on a store with [`FAULTS`] do what those say, and then that there are no more.
#[expect(clippy::future_not_send, reason = "a test awaits it on its thread")]
async fn each_fault_does_as_it_says(calls: Calls<'_>) {
    let Calls {
        count,
        reset,
        malformed,
        counted,
    } = calls;
    for is_awaited in [false, true] {
        // A call that is not valid uses up no fault.
        assert_eq!(malformed(is_awaited).await, Err(ErrorKind::Malformed));
    }
    assert_eq!(count(false).await, Err(ErrorKind::Full));
    assert_eq!(count(true).await, Err(ErrorKind::Unavailable));
    assert_eq!(counted(), 0);
    assert_eq!(count(false).await, Err(ErrorKind::Unknown));
    assert_eq!(counted(), 1);
    assert_eq!(count(true).await, Err(ErrorKind::Unknown));
    assert_eq!(counted(), 2);
    for is_awaited in [false, true] {
        let start = Instant::now();
        assert_eq!(count(is_awaited).await, Ok(()));
        assert!(start.elapsed() >= Duration::from_millis(50));
    }
    assert_eq!(counted(), 4);
    assert_eq!(reset(true).await, Err(ErrorKind::Full));
    assert_eq!(counted(), 4);
    assert_eq!(reset(true).await, Err(ErrorKind::Unknown));
    assert_eq!(counted(), 0);
    assert_eq!(reset(false).await, Err(ErrorKind::Unknown));
    // One of the faults is none, and then there are no more.
    for n in 1..=3 {
        assert_eq!(count(n == 2).await, Ok(()));
        assert_eq!(counted(), n);
    }
}

#[tokio::test]
async fn calls_of_limits_fail_as_scheduled() {
    let limiter = &limiter(FAULTS);
    each_fault_does_as_it_says(Calls {
        count: &|awaited| outcome!(awaited, limiter.check("k")),
        reset: &|awaited| outcome!(awaited, limiter.reset("k")),
        malformed: &|awaited| outcome!(awaited, limiter.check("k").cost_of("none", 1)),
        counted: &|| 10 - remaining(limiter),
    })
    .await;
}

#[tokio::test]
async fn calls_of_schedules_fail_as_scheduled() {
    let store = FaultyStore::new(MemoryStore::new(), FAULTS);
    let schedule = &Schedule::new(store, "reminders", ["10/1h"]).unwrap();
    let inner = Schedule::with_terms(schedule.store().inner(), schedule.terms().clone());
    let id = &AtomicU64::new(0);
    let next = || id.fetch_add(1, Ordering::Relaxed).to_string();
    each_fault_does_as_it_says(Calls {
        count: &|awaited| outcome!(awaited, schedule.add("k", &next(), NOON).at(NOON)),
        reset: &|awaited| outcome!(awaited, schedule.reset("k")),
        malformed: &|awaited| outcome!(awaited, schedule.add("k", "", NOON).at(NOON)),
        counted: &|| {
            let all = inner.list("k", Timestamp::UNIX_EPOCH, Timestamp::MAX);
            all.at(NOON).run().unwrap().len() as u64
        },
    })
    .await;
}

#[tokio::test]
async fn calls_of_leases_fail_as_scheduled() {
    let store = FaultyStore::new(MemoryStore::new(), FAULTS);
    let ttl = Duration::from_secs(30);
    let places = &ConcurrencyLimiter::new(store, "places", 10, ttl).unwrap();
    let id = &AtomicU64::new(0);
    let next = || id.fetch_add(1, Ordering::Relaxed).to_string();
    each_fault_does_as_it_says(Calls {
        count: &|awaited| outcome!(awaited, places.acquire("k", &next()).at(NOON)),
        reset: &|awaited| outcome!(awaited, places.reset("k")),
        malformed: &|awaited| outcome!(awaited, places.acquire("k", "").at(NOON)),
        counted: &|| {
            let peek = lease::Request::new(places.terms(), "k", lease::Operation::Peek);
            match places.store().inner().lease_now(&peek.at(NOON)).unwrap() {
                lease::Answer::Occupied(occupancy) => occupancy.held(),
                other => panic!("{other:?}"),
            }
        },
    })
    .await;
}
