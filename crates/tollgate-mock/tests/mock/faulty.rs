//! Faults happen in scheduled order, and consume what their documentation says.

use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tollgate_core::FixedWindow;
use tollgate_core::lease::SyncStore as _;
use tollgate_core::lease::{self, Acquisition, ConcurrencyLimiter};
use tollgate_core::schedule::{Placement, Schedule, SyncStore as _};
use tollgate_core::store::{Check, Checks, Request, Verdicts};
use tollgate_core::{
    ErrorKind, Limit, Quota, RateLimiter, Store, StoreError, SyncStore, Timestamp,
};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_mock::{Fault, FaultyStore};

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

#[test]
fn each_fault_consumes_as_documented() {
    let schedule = [
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(500)),
    ];
    let limiter = limiter(schedule);
    assert!(limiter.check("k").run().unwrap().is_allowed());
    assert_eq!(remaining(&limiter), 9);
    assert_eq!(
        limiter.check("k").run().unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(remaining(&limiter), 9);
    let lost = limiter.check("k").run().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
    assert!(!lost.is_retryable());
    assert_eq!(remaining(&limiter), 8);
    let start = Instant::now();
    assert!(limiter.check("k").run().unwrap().is_allowed());
    assert!(start.elapsed() >= Duration::from_millis(500));
    // The schedule has ended.
    assert!(limiter.check("k").run().unwrap().is_allowed());
    assert_eq!(remaining(&limiter), 6);
}

/// A store that notes when it decides.
struct Stamping(MemoryStore, Mutex<Option<Instant>>);

#[async_trait::async_trait]
impl Store for Stamping {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.decide_now(&request)
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset_now(&checks)
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.0.supports(request)
    }
}

impl SyncStore for Stamping {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        *self.1.lock().unwrap() = Some(Instant::now());
        self.0.decide_now(request)
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        *self.1.lock().unwrap() = Some(Instant::now());
        self.0.reset_now(checks)
    }
}

/// A caller must find the call counted while its reply is on its way.
#[test]
fn synchronous_call_is_decided_before_its_delay() {
    let delay = Duration::from_millis(50);
    let stamping = Stamping(MemoryStore::new(), Mutex::default());
    let store = FaultyStore::new(stamping, [Fault::Delay(delay), Fault::Delay(delay)]);
    let limiter = RateLimiter::new(store, ["daily=fixed-window:10/1d"]).unwrap();
    let since_decided = || {
        limiter
            .store()
            .inner()
            .1
            .lock()
            .unwrap()
            .take()
            .unwrap()
            .elapsed()
    };
    limiter.check("k").run().unwrap().permit().unwrap();
    assert!(since_decided() >= delay);
    limiter.reset("k").run().unwrap();
    assert!(since_decided() >= delay);
}

#[tokio::test]
async fn faults_come_in_order_with_and_without_waiting() {
    let limiter = limiter(
        [Fault::Fail(ErrorKind::Full), Fault::None]
            .into_iter()
            .cycle(),
    );
    for _ in 0..3 {
        assert_eq!(
            limiter.check("k").await.unwrap_err().kind(),
            ErrorKind::Full
        );
        assert!(limiter.check("k").run().unwrap().is_allowed());
    }
    assert_eq!(remaining(&limiter), 7);
}

#[tokio::test]
async fn a_reset_takes_a_fault_like_any_call() {
    let limiter = limiter([
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
    ]);
    assert!(limiter.check("k").await.unwrap().is_allowed());
    let checks = [Check::new(&limiter.limits()[0], "k", 0)];
    assert_eq!(
        limiter.store().reset_now(&checks).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(remaining(&limiter), 9);
    assert_eq!(
        limiter
            .store()
            .reset(checks.into())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Unknown
    );
    assert_eq!(remaining(&limiter), 10);
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
    let limiter = limiter([Fault::LoseReply, Fault::Fail(ErrorKind::Unavailable)]);
    let twice = Check::new(&limiter.limits()[0], "k", 1);
    let malformed = Request::consume(twice).and(twice);
    let store = limiter.store();
    let error = store.decide(malformed.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let error = store.decide_now(&malformed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    // Both faults are still to come.
    let error = limiter.check("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    let error = limiter.check("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(remaining(&limiter), 9);
}

/// Supports no request.
struct Unsupporting;

#[async_trait::async_trait]
impl Store for Unsupporting {
    async fn decide<'a>(&self, _request: Request<'a>) -> Result<Verdicts, StoreError> {
        Err(StoreError::new(ErrorKind::Unsupported, "not by this store"))
    }

    async fn reset<'a>(&self, _checks: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _request: &Request<'a>) -> bool {
        false
    }
}

impl SyncStore for Unsupporting {
    fn decide_now(&self, _request: &Request<'_>) -> Result<Verdicts, StoreError> {
        Err(StoreError::new(ErrorKind::Unsupported, "not by this store"))
    }

    fn reset_now(&self, _checks: &[Check<'_>]) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn unsupported_request_is_unsupported_whatever_is_scheduled() {
    for fault in [Fault::LoseReply, Fault::Fail(ErrorKind::Unavailable)] {
        let store = FaultyStore::new(Unsupporting, [fault]);
        let limit = Limit::new("daily", FixedWindow::aligned(Quota::per_day(10))).unwrap();
        let limiter = RateLimiter::new(store, [limit]).unwrap();
        assert!(!limiter.store().supports(&limiter.check("k").into_request()));
        let error = limiter.check("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = limiter.check("k").run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        // The fault is still to come.
        assert!(limiter.reset("k").await.is_err());
        assert!(limiter.reset("k").await.is_ok());
    }
    let supporting = limiter([]);
    let request = supporting.check("k").into_request();
    assert!(supporting.store().supports(&request));
}

/// Errors come from a store that is full, and from a receipt of another key.
#[tokio::test]
async fn errors_of_the_store_are_lost_like_replies_unless_nothing_was_consumed() {
    let limit = Limit::new("daily", FixedWindow::aligned(Quota::per_day(10))).unwrap();
    let late = Fault::Delay(Duration::from_millis(1));
    for (fault, full) in [
        (Fault::None, ErrorKind::Full),
        (late, ErrorKind::Full),
        (Fault::LoseReply, ErrorKind::Unknown),
    ] {
        let store = MemoryStore::builder().max_keys(1).build();
        let store = FaultyStore::new(store, [Fault::None, fault, fault, fault, fault]);
        let limiter = RateLimiter::new(store, [limit.clone()]).unwrap();
        let receipt = limiter.check("k").run().unwrap().into_receipt().unwrap();
        let checks = [
            limiter.check("l").await.unwrap_err().kind(),
            limiter.check("l").run().unwrap_err().kind(),
        ];
        assert_eq!(checks, [full, full], "{fault:?}");
        let refused = limiter.refund("l", receipt).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Malformed, "{fault:?}");
        let receipt = refused.into_receipt().unwrap();
        let refused = limiter.refund("l", receipt).run().unwrap_err();
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
    assert_eq!(
        format!("{:?}", FaultyStore::new("a store", [])),
        r#"FaultyStore { store: "a store", .. }"#
    );
}

#[tokio::test(start_paused = true)]
async fn delayed_call_is_counted_before_its_reply_comes() {
    let limiter = limiter([Fault::Delay(Duration::MAX), Fault::Delay(Duration::ZERO)]);
    let day = Duration::from_secs(86_400);
    assert!(
        tokio::time::timeout(day, limiter.check("k")).await.is_err(),
        "the reply comes later"
    );
    assert_eq!(remaining(&limiter), 9);
    assert!(limiter.check("k").run().unwrap().is_allowed());
}

const NOON: Timestamp = Timestamp::saturating_from_micros(1_780_000_000_000_000);

fn schedule<I>(faults: I) -> Schedule<FaultyStore<MemoryStore>>
where
    I: IntoIterator<Item = Fault>,
    I::IntoIter: Send + 'static,
{
    let store = FaultyStore::new(MemoryStore::new(), faults);
    Schedule::new(store, "reminders", ["1/1h"]).unwrap()
}

/// Returns how many events the inner store holds for `k`, bypassing the faults.
fn planned(schedule: &Schedule<FaultyStore<MemoryStore>>) -> usize {
    let inner = Schedule::with_terms(schedule.store().inner(), schedule.terms().clone());
    let all = inner.list("k", Timestamp::UNIX_EPOCH, Timestamp::MAX);
    all.at(NOON).run().unwrap().len()
}

#[test]
fn each_fault_plans_as_it_says() {
    let schedule = schedule([
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(100)),
        Fault::LoseReply,
        Fault::Fail(ErrorKind::Full),
    ]);
    let add = || schedule.add("k", "a", NOON).at(NOON).run();
    assert_eq!(add().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(planned(&schedule), 0);
    assert_eq!(add().unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(planned(&schedule), 1);
    // A caller who asks again with the same id learns that the event is planned.
    let start = Instant::now();
    let is_old = Placement::Planned {
        time: NOON,
        is_new: false,
    };
    assert_eq!(add().unwrap(), is_old);
    assert!(start.elapsed() >= Duration::from_millis(100));
    let cancelled = schedule.cancel("k", "a").at(NOON).run();
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(planned(&schedule), 0);
    let next = schedule.next_free("k", NOON).at(NOON).run();
    assert_eq!(next.unwrap_err().kind(), ErrorKind::Full);
    // There are no more faults.
    assert!(add().unwrap().is_planned());
}

#[tokio::test]
async fn faults_of_schedules_come_with_and_without_waiting() {
    let faults = [Fault::Fail(ErrorKind::Full), Fault::LoseReply];
    let schedule = schedule(faults.into_iter().cycle());
    let kind = |error: StoreError| error.kind();
    let add = schedule.add("k", "a", NOON).at(NOON);
    assert_eq!(add.await.map_err(kind), Err(ErrorKind::Full));
    let add = schedule.add("k", "a", NOON).at(NOON);
    assert_eq!(add.run().map_err(kind), Err(ErrorKind::Unknown));
    assert_eq!(planned(&schedule), 1);
    let reset = schedule.reset("k").await;
    assert_eq!(reset.map_err(kind), Err(ErrorKind::Full));
    assert_eq!(planned(&schedule), 1);
    let store = schedule.store();
    let reset = store.reset_schedule_now(schedule.terms(), "k".into());
    assert_eq!(reset.map_err(kind), Err(ErrorKind::Unknown));
    assert_eq!(planned(&schedule), 0);
}

#[tokio::test]
async fn malformed_calls_of_schedules_use_up_no_fault() {
    let schedule = schedule([Fault::LoseReply]);
    for _ in 0..2 {
        let error = schedule.add("k", "", NOON).at(NOON).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let error = schedule.add("k", "", NOON).at(NOON).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
    let lost = schedule.add("k", "a", NOON).at(NOON).run().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
}

fn places<I>(faults: I) -> ConcurrencyLimiter<FaultyStore<MemoryStore>>
where
    I: IntoIterator<Item = Fault>,
    I::IntoIter: Send + 'static,
{
    let store = FaultyStore::new(MemoryStore::new(), faults);
    ConcurrencyLimiter::new(store, "places", 2, Duration::from_secs(30)).unwrap()
}

/// Returns how much the inner store holds for `k`, bypassing the faults.
fn held(places: &ConcurrencyLimiter<FaultyStore<MemoryStore>>) -> u64 {
    let peek = lease::Request::new(places.terms(), "k", lease::Operation::Peek);
    match places.store().inner().lease_now(&peek.at(NOON)).unwrap() {
        lease::Answer::Occupied(occupancy) => occupancy.held(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_fault_leases_as_it_says() {
    let places = places([
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(100)),
        Fault::LoseReply,
        Fault::LoseReply,
        Fault::Fail(ErrorKind::Full),
    ]);
    let acquire = || places.acquire("k", "a").at(NOON).run();
    assert_eq!(acquire().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(held(&places), 0);
    assert_eq!(acquire().unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(held(&places), 1);
    // A caller who asks again with the same id gets the lease.
    let start = Instant::now();
    let Acquisition::Granted { lease, is_new } = acquire().unwrap() else {
        panic!("denied");
    };
    assert!(!is_new && start.elapsed() >= Duration::from_millis(100));
    let later = NOON.saturating_add(Duration::from_secs(20));
    let renewed = places.renew("k", &lease).at(later).run();
    assert_eq!(renewed.unwrap_err().kind(), ErrorKind::Unknown);
    let released = places.release("k", &lease).at(later).run();
    assert_eq!(released.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(held(&places), 0);
    let peeked = places.peek("k").at(later).run();
    assert_eq!(peeked.unwrap_err().kind(), ErrorKind::Full);
    // There are no more faults.
    assert!(!places.release("k", &lease).at(later).run().unwrap());
}

#[tokio::test]
async fn faults_of_leases_come_with_and_without_waiting() {
    let faults = [Fault::Fail(ErrorKind::Full), Fault::LoseReply];
    let places = places(faults.into_iter().cycle());
    let kind = |error: StoreError| error.kind();
    let acquire = || places.acquire("k", "a").at(NOON);
    assert_eq!(acquire().await.map_err(kind), Err(ErrorKind::Full));
    assert_eq!(held(&places), 0);
    assert_eq!(acquire().run().map_err(kind), Err(ErrorKind::Unknown));
    assert_eq!(held(&places), 1);
    let reset = places.reset("k").await;
    assert_eq!(reset.map_err(kind), Err(ErrorKind::Full));
    assert_eq!(held(&places), 1);
    let store = places.store();
    let reset = store.reset_leases_now(places.terms(), "k".into());
    assert_eq!(reset.map_err(kind), Err(ErrorKind::Unknown));
    assert_eq!(held(&places), 0);
}

#[tokio::test]
async fn malformed_calls_of_leases_use_up_no_fault() {
    let places = places([Fault::LoseReply]);
    for _ in 0..2 {
        let error = places.acquire("k", "").at(NOON).run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let error = places.acquire("k", "a").weight(0).at(NOON).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Malformed);
    }
    let lost = places.acquire("k", "a").at(NOON).run().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
}
