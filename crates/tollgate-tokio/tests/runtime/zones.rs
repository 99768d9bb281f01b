//! Calls that bring a time zone wait like others, each zone in a line of its own.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tollgate_core::ErrorKind;
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::{WaitError, Waiting, calls_waiting};

use crate::waiting::{Limiter, MINUTE, Remote, SECOND, limiter};

/// Sets what a call costs and its zone, in some order.
type Order = fn(&Limiter, TimeZone) -> Waiting<'_, Arc<Remote>>;

fn zones() -> [TimeZone; 2] {
    ["Europe/Berlin", "Pacific/Kiritimati"].map(|name| TimeZone::get(name).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_limits_in_its_zone() {
    let (_, limiter) = limiter(&["pace=sliding-log:1/1s", "bill=fixed-window:30/year@local"]);
    let [berlin, kiritimati] = zones();
    for (zone, name) in [
        (&berlin, "Europe/Berlin"),
        (&kiritimati, "Pacific/Kiritimati"),
    ] {
        let zone = || zone.clone();
        let orders: [Order; 3] = [
            |limiter, zone| {
                let call = limiter.check("alice").zone(zone).cost_of("bill", 10);
                call.wait_up_to(MINUTE)
            },
            |limiter, zone| {
                let call = limiter.check("alice").cost_of("bill", 10).zone(zone);
                call.wait_up_to(MINUTE)
            },
            |limiter, zone| {
                let call = limiter.check("alice").cost(1);
                let call = call.zone(zone).cost_of("bill", 10);
                call.wait_up_to(MINUTE)
            },
        ];
        for (number, order) in (1..).zip(orders) {
            let admitted = order(&limiter, zone()).await.unwrap();
            let (limit, verdict) = admitted.decision().verdicts().nth(1).unwrap();
            assert!(limit.to_string().ends_with(name), "{limit}");
            assert_eq!(verdict.remaining(), 30 - 10 * number, "{name}");
        }
        let call = limiter.check("alice").zone(zone());
        let WaitError::TooLong(refused) = call.wait_up_to(MINUTE).await.unwrap_err() else {
            panic!("not refused for its wait");
        };
        assert!(refused.limit().to_string().ends_with(name), "{refused}");
    }
}

/// A limit that counts in all zones alike is one limit, whichever zone gives back.
#[tokio::test(start_paused = true)]
async fn what_one_zone_gives_back_is_heard_at_once_in_the_others() {
    let (_, limiter) = limiter(&["slots=sliding-log:1/1h", "bill=fixed-window:30/year@local"]);
    let [berlin, kiritimati] = zones();
    let first = limiter.check("alice").zone(berlin.clone()).await.unwrap();
    let receipt = first.into_receipt().unwrap();
    let started = Instant::now();
    let waits = async {
        let call = limiter.check("alice").zone(kiritimati);
        call.wait_up_to(100 * MINUTE).await.map(drop).unwrap();
        started.elapsed()
    };
    let gives_back = async {
        sleep(SECOND / 4).await;
        assert_eq!(calls_waiting(&limiter), 1);
        let _ = limiter.refund("alice", receipt).zone(berlin).await.unwrap();
        yield_now().await;
    };
    let (waited, ()) = tokio::join!(waits, gives_back);
    assert!(waited < SECOND / 2, "{waited:?}");
    assert_eq!(calls_waiting(&limiter), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_zone_that_has_a_name_asks_nobody() {
    let (store, limiter) = limiter(&["bill=fixed-window:30/year@local"]);
    let nameless = TimeZone::fixed(jiff::tz::offset(1));
    let calls = [
        limiter.check("alice").wait_up_to(Duration::MAX),
        limiter
            .check("alice")
            .zone(nameless.clone())
            .wait_up_to(Duration::MAX),
        limiter
            .check("alice")
            .cost_of("bill", 2)
            .wait_up_to(Duration::MAX),
        limiter
            .check("alice")
            .cost_of("bill", 2)
            .zone(nameless)
            .wait_up_to(Duration::MAX),
    ];
    for call in calls {
        let WaitError::Store(error) = call.await.unwrap_err() else {
            panic!("not an error of the store");
        };
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("`zone`"), "{error}");
    }
    assert_eq!(store.calls(), 0);
}
