//! Calls in a time zone wait like others, each zone in a line of its own.

use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tollgate_core::ErrorKind;
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::{WaitError, calls_waiting};

use crate::waiting::{MINUTE, SECOND, limiter};

fn zones() -> [TimeZone; 2] {
    ["Europe/Berlin", "Pacific/Kiritimati"].map(|name| TimeZone::get(name).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_limits_in_its_zone() {
    let (_, limiter) = limiter(&["pace=sliding-log:1/1s", "bill=fixed-window:30/year@local"]);
    for zone in zones() {
        let name = zone.iana_name().unwrap();
        let limiter = limiter.in_zone(&zone).unwrap();
        for remaining in [20, 10, 0] {
            let call = limiter.check("alice").cost_of("bill", 10);
            let admitted = call.wait_up_to(MINUTE).await.unwrap();
            let (limit, verdict) = admitted.decision().verdicts().nth(1).unwrap();
            assert!(limit.to_string().ends_with(name), "{limit}");
            assert_eq!(verdict.remaining(), remaining, "{name}");
        }
        let call = limiter.check("alice").wait_up_to(MINUTE);
        let WaitError::TooLong(refused) = call.await.unwrap_err() else {
            panic!("not refused for its wait");
        };
        assert!(refused.limit().to_string().ends_with(name), "{refused}");
    }
}

/// A limit that counts in all zones alike is one limit, whichever zone gives back.
#[tokio::test(start_paused = true)]
async fn what_one_zone_gives_back_is_heard_at_once_in_the_others() {
    let (_, limiter) = limiter(&["slots=sliding-log:1/1h", "bill=fixed-window:30/year@local"]);
    let zones = zones();
    let [berlin, kiritimati] = zones.each_ref().map(|zone| limiter.in_zone(zone).unwrap());
    let first = berlin.check("alice").await.unwrap();
    let receipt = first.into_receipt().unwrap();
    let started = Instant::now();
    let waits = async {
        let call = kiritimati.check("alice");
        call.wait_up_to(100 * MINUTE).await.map(drop).unwrap();
        started.elapsed()
    };
    let gives_back = async {
        sleep(SECOND / 4).await;
        assert_eq!(calls_waiting(&limiter), 1);
        let _ = berlin.refund("alice", receipt).await.unwrap();
        yield_now().await;
    };
    let (waited, ()) = tokio::join!(waits, gives_back);
    assert!(waited < SECOND / 2, "{waited:?}");
    assert_eq!(calls_waiting(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_zone_asks_nobody() {
    let (store, limiter) = limiter(&["bill=fixed-window:30/year@local"]);
    for call in [
        limiter.check("alice").wait_up_to(Duration::MAX),
        limiter
            .check("alice")
            .cost_of("bill", 2)
            .wait_up_to(Duration::MAX),
    ] {
        let WaitError::Store(error) = call.await.unwrap_err() else {
            panic!("not an error of the store");
        };
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("in_zone"), "{error}");
    }
    assert_eq!(store.calls(), 0);
}
