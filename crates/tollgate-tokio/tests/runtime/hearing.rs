//! What others give back is heard of within a second, refusals say what is true now, and a bound on
//! how many wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, advance, sleep};
use tollgate_core::{RateLimiter, StoreError};
use tollgate_tokio::wait::WaitError;
use tollgate_tokio::{Outbound, WaitUpTo};

use crate::waiting::{MINUTE, Remote, SECOND, TICK, spawn_check, too_long};

const HOUR: Duration = Duration::from_secs(3_600);

fn limiter(store: &Arc<Remote>, limits: &[&str]) -> RateLimiter<Arc<Remote>> {
    RateLimiter::new(Arc::clone(store), limits.iter().copied()).unwrap()
}

/// Each limit, all of which is used for an hour.
const LONG: [&str; 7] = [
    "gcra:1/1h",
    "sliding-log:1/1h",
    "fixed-window:1/1h",
    "fixed-window:1/1h,anchored",
    "sliding-counter:1/1h",
    "sliding-buckets:1/1h,buckets=4",
    "sliding-log:1/1h,count-denied",
];

#[tokio::test(start_paused = true)]
async fn a_line_hears_within_a_second_what_another_process_gives_back() {
    for limit in LONG {
        let store = Remote::new();
        let [here, there] = [(); 2].map(|()| limiter(&store, &[&format!("l={limit}")]));
        let receipt = here.check("alice").await.unwrap().into_receipt().unwrap();
        let waiting = spawn_check(&here, 3 * HOUR);
        sleep(10 * SECOND + SECOND / 2).await;
        assert!(!waiting.is_finished(), "{limit}");
        // Limits that count denied calls count this one's, too, so that a refund does not suffice.
        if limit.ends_with("count-denied") {
            there.reset("alice").await.unwrap();
        } else {
            there.refund("alice", receipt).await.unwrap();
        }
        let given_back = Instant::now();
        waiting.await.unwrap().unwrap();
        let heard = given_back.elapsed();
        assert!(heard <= SECOND + TICK, "{limit}: {heard:?}");
        // It has asked once a second, and not more often.
        assert!(store.calls() <= 2 + 12, "{limit}: {}", store.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_rests_on_an_answer_of_the_last_second() {
    for limit in LONG {
        let store = Remote::new();
        let [here, there] = [(); 2].map(|()| limiter(&store, &[&format!("l={limit}")]));
        assert!(here.check("alice").await.unwrap().is_allowed());
        // The first in line asks once a second.
        let waiting = spawn_check(&here, 3 * HOUR);
        sleep(5 * SECOND / 2).await;
        let refused = too_long(here.check("alice").wait_up_to(MINUTE).await);
        assert!(refused.wait().duration().unwrap() > MINUTE, "{limit}");
        let before = store.calls();
        let refused = too_long(here.check("alice").wait_up_to(MINUTE).await);
        assert_eq!(refused.limit().name(), "l");
        assert_eq!(store.calls(), before, "{limit}: a refusal makes no call");
        there.reset("alice").await.unwrap();
        waiting.await.unwrap().unwrap();
        // Now the one that has waited has used all of it.
        let refused = too_long(here.check("alice").wait_up_to(MINUTE).await);
        assert!(refused.wait().duration().unwrap() > MINUTE, "{limit}");
        there.reset("alice").await.unwrap();
        here.check("alice").wait_up_to(MINUTE).await.unwrap();
    }
}

/// The store does not answer the first in line, so nobody knows whether others must be refused.
#[tokio::test(start_paused = true)]
async fn a_line_whose_store_is_silent_refuses_nobody_for_what_was_true_before() {
    let store = Remote::new();
    let limits = ["l=sliding-log:1/10s"];
    let limiter = limiter(&store, &limits);
    limiter.check("alice").wait_up_to(SECOND).await.unwrap();
    let waiting = spawn_check(&limiter, MINUTE);
    sleep(TICK).await;
    store.delay_ms.store(5_000, Ordering::SeqCst);
    sleep(5 * SECOND / 2).await;
    let begun = Instant::now();
    let refused = too_long(limiter.check("alice").wait_up_to(SECOND).await);
    assert!(refused.wait().duration().unwrap() > SECOND);
    assert!(begun.elapsed() >= SECOND, "{:?}", begun.elapsed());
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn an_outbound_hears_within_a_second_that_an_operator_ended_its_pause() {
    let store = Remote::new();
    let limits = ["api=sliding-log:100/1s"];
    let outbound = Outbound::builder(Arc::clone(&store), limits);
    let outbound = outbound.build().unwrap();
    outbound.penalize("k", HOUR).await.unwrap();
    let call = outbound.call("k");
    let waiting = tokio::spawn(async move { call.await.map(drop) });
    sleep(10 * SECOND).await;
    let refused = too_long(outbound.call("k").wait_up_to(MINUTE).await);
    assert_eq!(refused.limit().name(), "api-paused");
    let operator = RateLimiter::new(Arc::clone(&store), outbound.limits()).unwrap();
    operator.reset("k").await.unwrap();
    let ended = Instant::now();
    waiting.await.unwrap().unwrap();
    assert!(ended.elapsed() <= SECOND + TICK, "{:?}", ended.elapsed());
}

/// A call that asks only to hear of this is no attempt, so it keeps nobody out.
#[tokio::test(start_paused = true)]
async fn limits_that_count_denied_calls_do_not_count_that_a_line_asks_again() {
    let store = Remote::new();
    let limiter = limiter(&store, &["l=sliding-log:1/10s,count-denied"]);
    assert!(limiter.check("alice").await.unwrap().is_allowed());
    sleep(5 * SECOND).await;
    let begun = Instant::now();
    // Its first check is denied and counted.
    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
    let elapsed = begun.elapsed();
    assert!(elapsed <= 10 * SECOND + 10 * TICK, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_never_starts_before_its_start() {
    // Timers tick in whole milliseconds, and starts fall between them.
    for limit in ["gcra:3/1s,burst=1", "gcra:7/10s,burst=1"] {
        let store = Remote::new();
        let limiter = limiter(&store, &[&format!("l={limit}")]);
        let start = Instant::now();
        let (amount, window) = if limit.contains("3/1s") {
            (3, SECOND)
        } else {
            (7, 10 * SECOND)
        };
        for number in 0..20 {
            // So that a start that is rounded down falls into an earlier tick.
            advance(TICK * 4 / 5).await;
            limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
            let earliest = window * number / amount;
            let elapsed = start.elapsed();
            assert!(elapsed >= earliest, "{limit}: {number} at {elapsed:?}");
            assert!(elapsed <= earliest + 3 * TICK, "{limit}: {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_as_many_calls_wait_for_a_key_as_they_allow() {
    for limit in ["gcra:1/1h", "sliding-log:1/1h"] {
        let store = Remote::new();
        let limiter = limiter(&store, &[&format!("l={limit}")]);
        limiter.check("alice").wait_up_to(SECOND).await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..3 {
            let limiter = limiter.clone();
            waiting.spawn(async move {
                let call = limiter.check("alice").wait_up_to(9 * HOUR);
                call.most_waiting(3).await.map(drop)
            });
            yield_now().await;
        }
        sleep(TICK).await;
        let before = store.calls();
        let refused = limiter.check("alice").wait_up_to(9 * HOUR);
        let refused = refused.most_waiting(3).await;
        match &refused {
            Err(error @ WaitError::TooManyWaiting { most: 3 }) => assert_eq!(
                error.to_string(),
                "3 calls wait for this key already: try again later, or let more of them wait with \
                 `most_waiting`"
            ),
            other => panic!("{other:?}"),
        }
        assert_eq!(store.calls(), before, "{limit}");
        // Other keys, and calls that may wait behind more, are not refused.
        limiter
            .check("bob")
            .wait_up_to(SECOND)
            .most_waiting(1)
            .await
            .unwrap();
        let patient = limiter.check("alice").wait_up_to(9 * HOUR);
        let patient = patient.most_waiting(4).into_future();
        let holds = tokio::time::timeout(TICK, patient).await.is_err();
        assert!(holds, "{limit}");
        waiting.abort_all();
        while waiting.join_next().await.is_some() {}
        let again = limiter.check("alice").wait_up_to(9 * HOUR);
        let again = again.most_waiting(1).into_future();
        assert!(tokio::time::timeout(TICK, again).await.is_err(), "{limit}");
    }
    let store = Remote::new();
    let outbound = Outbound::builder(store, ["api=sliding-log:1/1h"]);
    let outbound = outbound.build().unwrap();
    drop(outbound.call("k").most_waiting(1).await.unwrap());
    let first = outbound.call("k").into_future();
    let beside = async {
        sleep(TICK).await;
        outbound.call("k").most_waiting(1).await
    };
    let (_, refused) = tokio::join!(tokio::time::timeout(10 * TICK, first), beside);
    assert!(matches!(
        refused,
        Err(WaitError::TooManyWaiting { most: 1 })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_how_long_the_call_may_wait_and_no_more() {
    let store = Remote::new();
    let outbound = Outbound::builder(store, ["api=sliding-log:1/1s"]);
    let outbound = outbound.build().unwrap();
    drop(outbound.call("k").await.unwrap());
    advance(Duration::from_nanos(20)).await;
    let refused = too_long(outbound.call("k").wait_up_to(Duration::ZERO).await);
    let said = "but may wait 0s";
    assert!(refused.to_string().ends_with(said), "{refused}");
}

/// Calls for many keys wait in the process, too, not in the queue of a connection.
#[tokio::test(start_paused = true)]
async fn a_limiter_has_a_bounded_number_of_calls_on_their_way() {
    for limit in ["gcra:1/1s", "sliding-log:1/1s"] {
        let store = Remote::new();
        store.delay_ms.store(100, Ordering::SeqCst);
        let limiter = limiter(&store, &[&format!("l={limit}")]);
        let mut calls = JoinSet::new();
        for number in 0..3_000 {
            let limiter = limiter.clone();
            calls.spawn(async move {
                let key = format!("user-{number}");
                limiter.check(&key).wait_up_to(MINUTE).await.map(drop)
            });
        }
        for hundreds in 1..=3 {
            sleep(50 * TICK).await;
            assert_eq!(store.calls(), (1_024 * hundreds).min(3_000), "{limit}");
            sleep(50 * TICK).await;
        }
        let outcomes = calls.join_all().await;
        let holds = outcomes.into_iter().all(|outcome| outcome.is_ok());
        assert!(holds, "{limit}");
    }
}

/// What a call waits for in the process counts as its own time.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_on_its_way_in_time_is_refused_then() {
    for limit in ["gcra:1/1s", "sliding-log:1/1s"] {
        let store = Remote::new();
        store.delay_ms.store(400, Ordering::SeqCst);
        let limiter = limiter(&store, &[&format!("l={limit}")]);
        let started = Instant::now();
        let mut calls = JoinSet::new();
        for number in 0..3_000 {
            let limiter = limiter.clone();
            calls.spawn(async move {
                let key = format!("user-{number}");
                limiter.check(&key).wait_up_to(100 * TICK).await.map(drop)
            });
        }
        let outcomes = calls.join_all().await;
        assert_eq!(started.elapsed(), 400 * TICK, "{limit}");
        let admitted = outcomes.iter().filter(|outcome| outcome.is_ok());
        assert_eq!(admitted.count(), 1_024, "{limit}");
        assert_eq!(store.calls(), 1_024, "{limit}");
    }
}

/// A day may have 25 hours.
#[test]
fn a_report_about_a_long_day_is_about_the_day() {
    let limits = [
        "day=fixed-window:100/day@Europe/Berlin",
        "month=fixed-window:900/month@Europe/Berlin",
    ];
    let outbound = Outbound::builder(Remote::new(), limits).build().unwrap();
    for (hours, described) in [(1, 0), (24, 0), (25, 0), (60, 1), (31 * 24 + 1, 1)] {
        let reset = Duration::from_secs(hours * 3_600);
        let found = outbound.described_by(Some(reset));
        assert_eq!(found, Some(described), "{hours}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_is_sent_whole_or_is_an_error() -> Result<(), StoreError> {
    let store = Remote::new();
    let limits = ["second=sliding-log:100/1s", "minute=sliding-log:900/1m"];
    let outbound = Outbound::builder(Arc::clone(&store), limits);
    let outbound = outbound.margin(50 * TICK).build().unwrap();
    // The reply to the pause is lost.
    store.lose_replies(1);
    let reported = outbound.observe("k", 0, Some(SECOND)).await;
    assert_eq!(reported.unwrap_err().to_string(), "lost");
    assert_eq!(store.calls(), 1);
    outbound.observe("k", 0, Some(SECOND)).await?;
    assert_eq!(store.calls(), 3);
    // It is about the service's windows, whatever the margin makes of them.
    assert_eq!(outbound.described_by(Some(1_020 * TICK)), Some(1));
    // Also a pause of no time lasts until what was sent before it has arrived.
    let pause = outbound.penalize("other", Duration::ZERO).await?;
    assert_eq!(pause.duration(), Some(50 * TICK));
    Ok(())
}
