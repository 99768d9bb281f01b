//! What goes wrong, goes wrong as scheduled, and consumes as it says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::{Duration, Instant};

use tollgate_core::algorithm::FixedWindow;
use tollgate_core::{Check, ErrorKind, Limit, Quota, RateLimiter, Store, SyncStore};
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

/// Returns what is left, looking past the faults.
fn remaining(limiter: &RateLimiter<FaultyStore<MemoryStore>>) -> u64 {
    let inner = RateLimiter::new(limiter.store().inner(), limiter.limits().to_vec()).unwrap();
    inner.peek_now("k").unwrap().remaining()
}

#[test]
fn each_fault_consumes_as_it_says() {
    let schedule = [
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(5)),
    ];
    let limiter = limiter(schedule);
    assert!(limiter.check_now("k").unwrap().is_allowed());
    assert_eq!(remaining(&limiter), 9);
    assert_eq!(
        limiter.check_now("k").unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(remaining(&limiter), 9);
    let lost = limiter.check_now("k").unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Unknown);
    assert!(!lost.is_retryable());
    assert_eq!(remaining(&limiter), 8);
    let start = Instant::now();
    assert!(limiter.check_now("k").unwrap().is_allowed());
    assert!(start.elapsed() >= Duration::from_millis(5));
    // The schedule is used up.
    assert!(limiter.check_now("k").unwrap().is_allowed());
    assert_eq!(remaining(&limiter), 6);
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
        assert!(limiter.check_now("k").unwrap().is_allowed());
    }
    assert_eq!(remaining(&limiter), 7);
}

#[tokio::test]
async fn a_reset_goes_wrong_like_any_call() {
    let limiter = limiter([
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
        Fault::LoseReply,
    ]);
    let _ = limiter.check("k").await.unwrap();
    let checks = [Check::new(&limiter.limits()[0], "k", 0)];
    assert_eq!(
        limiter.store().reset_now(&checks).unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(remaining(&limiter), 9);
    assert_eq!(
        limiter.store().reset(&checks).await.unwrap_err().kind(),
        ErrorKind::Unknown
    );
    assert_eq!(remaining(&limiter), 10);
}
