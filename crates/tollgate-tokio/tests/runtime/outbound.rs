//! Calls to another service keep a margin and a part for urgent calls, stop everywhere when the service asks for
//! it, and never start with a permit that is too old.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store};
use tollgate_tokio::Outbound;
use tollgate_tokio::outbound::{OutboundError, Permit};
use tollgate_tokio::wait::WaitError;

use crate::waiting::{MINUTE, Remote, SECOND, TICK};

const KEY: &str = "api.example.com";
const MARGIN: Duration = Duration::from_millis(50);
const NOW: Duration = Duration::ZERO;

type Fleet = Outbound<Arc<Remote>>;

/// Returns one process of a fleet on `store`.
fn process(store: &Arc<Remote>, limits: &[&str]) -> Fleet {
    let outbound = Outbound::builder(Arc::clone(store), limits.iter().copied());
    outbound.margin(MARGIN).build().unwrap()
}

async fn urgent(outbound: &Fleet) -> Result<Permit<Arc<Remote>>, WaitError> {
    outbound.call(KEY).wait_up_to(NOW).await
}

async fn background(outbound: &Fleet) -> Result<Permit<Arc<Remote>>, WaitError> {
    outbound.call(KEY).background().wait_up_to(NOW).await
}

/// Requests and tokens of a language model: each limit has its own cost, also what it leaves to background
/// calls, and one that is named like that of another is not mistaken for it.
#[tokio::test(start_paused = true)]
async fn each_limit_has_a_cost_of_its_own_and_is_settled_at_its_own() {
    let limits = [
        "a=sliding-log:60/1m",
        "b=sliding-log:1000/1m",
        "pause=block:1s",
    ];
    let outbound = Outbound::builder(Remote::new(), limits)
        .keep_for_urgent_of("b", 100)
        .build()
        .unwrap();
    let left = |permit: &Permit<Arc<Remote>>| -> Vec<u64> {
        let verdicts = permit.verdicts().as_slice().iter();
        verdicts.map(|verdict| verdict.remaining()).collect()
    };
    let call = || outbound.call(KEY).background().cost(2);
    let permit = call().cost_of("b", 1).cost_of("b", 300).await.unwrap();
    assert_eq!(permit.cost(), 2);
    let (a, b, b_background) = (58, 700, 600);
    let all = left(&permit);
    assert_eq!([all[0], all[1], all[3]], [a, b, b_background]);
    let permit = permit.settle(1).cost_of("b", 120).await.unwrap();
    let all = left(&permit);
    assert_eq!([all[0], all[1], all[3]], [59, 880, 780]);
    // That was all: nothing is consumed any more.
    let permit = permit.settle(9).await.unwrap();
    permit.give_back().await.unwrap();
    let all = left(&call().cost_of("b", 0).cost(0).await.unwrap());
    assert_eq!([all[0], all[1], all[3]], [59, 880, 780]);

    // It waits for the limit that lacks its own cost.
    let refused = call().cost_of("b", 800).wait_up_to(NOW).await;
    assert_eq!(refused_by(refused), "b-background");
    let urgent = outbound.call(KEY).cost_of("b", 800);
    urgent.wait_up_to(NOW).await.unwrap();

    // Whatever consumes anything waits for a pause.
    outbound.back_off(KEY).await.unwrap();
    let paused = call().cost(0).cost_of("b", 1).wait_up_to(NOW).await;
    assert_eq!(refused_by(paused), "pause");
    assert!(call().cost(0).cost_of("b", 0).wait_up_to(NOW).await.is_ok());

    for unknown in ["c", "pause", "b-background"] {
        match call().cost_of(unknown, 1).wait_up_to(NOW).await {
            Err(WaitError::Store(error)) => {
                assert_eq!(error.kind(), ErrorKind::Malformed);
                assert!(error.to_string().ends_with("`a`, `b`"), "{error}");
            }
            other => panic!("{other:?} instead of an error"),
        }
        // Nothing was sent, so the receipt still settles.
        let permit = outbound.call(KEY).await.unwrap();
        let limiter = permit.limiter().clone();
        let error = permit.settle(1).cost_of(unknown, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().ends_with("`a`, `b`"), "{error}");
        let receipt = error.into_receipt().unwrap();
        limiter.settle(KEY, receipt, 0).await.unwrap();
    }

    let limits = ["a=sliding-log:60/1m", "a-background=sliding-log:60/1m"];
    let outbound = Outbound::builder(Remote::new(), limits).build().unwrap();
    let permit = outbound.call(KEY).cost_of("a", 5).await.unwrap();
    assert_eq!(left(&permit)[..2], [55, 59]);
    permit.settle(1).cost_of("a", 3).await.unwrap();
    assert_eq!(left(&outbound.call(KEY).await.unwrap())[..2], [56, 58]);
}

#[test]
fn a_limit_in_the_zone_or_on_the_day_of_each_call_is_refused_when_it_is_made() {
    for limit in [
        "a=fixed-window:60/day@local",
        "a=fixed-window:60/month@UTC,day=local",
    ] {
        let error = Outbound::builder((), [limit]).build().unwrap_err();
        assert!(matches!(error, OutboundError::NeedsZone { .. }), "{error}");
    }
}

/// Returns the name of the limit that refused a call.
fn refused_by<T>(result: Result<T, WaitError>) -> String {
    match result {
        Err(WaitError::TooLong(refused)) => refused.limit().name().to_owned(),
        Err(error) => panic!("{error} instead of a refusal"),
        Ok(_) => panic!("admitted"),
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_margin_the_limits_are_the_services() {
    let store = Remote::new();
    let limits = ["a=sliding-log:2/1s", "b=fixed-window:9/1m"];
    let outbound = Outbound::builder(store, limits).build().unwrap();
    assert_eq!(outbound.stricter_limits(), outbound.limits());
    assert_eq!(
        outbound.limits()[2].to_string(),
        "a-paused=block:1s,doublings=6"
    );
}

#[tokio::test(start_paused = true)]
async fn any_store_will_do() {
    let store: Arc<dyn Store> = Remote::new();
    let outbound = Outbound::builder(store, ["a=gcra:2/1s"]).build().unwrap();
    assert_eq!(outbound.call(KEY).await.unwrap().remaining(), 1);
}

#[tokio::test(start_paused = true)]
async fn margins_are_rounded_up_to_microseconds() {
    let nano = Duration::from_nanos(1);
    for (margin, stricter) in [
        (nano, "a=sliding-log:2/1000001us"),
        (MARGIN - nano, "a=sliding-log:2/1050ms"),
        (MARGIN, "a=sliding-log:2/1050ms"),
        (MARGIN + nano, "a=sliding-log:2/1050001us"),
    ] {
        let outbound = Outbound::builder(Remote::new(), ["a=sliding-log:2/1s"]);
        let outbound = outbound.margin(margin).build().unwrap();
        assert_eq!(outbound.stricter_limits()[0].to_string(), stricter);
        assert_eq!(outbound.margin(), margin);
    }
}

#[tokio::test(start_paused = true)]
async fn background_calls_leave_what_is_kept_to_urgent_ones() {
    for limit in ["a=sliding-log:10/1s", "a=sliding-buckets:10/1s,buckets=4"] {
        let store = Remote::new();
        let builder = || Outbound::builder(Arc::clone(&store), [limit]).keep_for_urgent(3);
        let [one, other] = [(); 2].map(|()| builder().build().unwrap());
        for _ in 0..7 {
            let permit = background(&one).await.unwrap();
            assert_eq!(permit.limits()[2].name(), "a-background");
        }
        assert_eq!(refused_by(background(&one).await), "a-background");
        assert_eq!(refused_by(background(&other).await), "a-background");
        for _ in 0..3 {
            assert!(urgent(&other).await.is_ok(), "{limit}");
        }
        assert_eq!(refused_by(urgent(&one).await), "a");

        // Urgent calls may use everything.
        sleep(2 * SECOND).await;
        for _ in 0..10 {
            assert!(urgent(&one).await.is_ok(), "{limit}");
        }
        assert_eq!(refused_by(background(&other).await), "a");
    }
}

#[tokio::test(start_paused = true)]
async fn with_nothing_kept_all_calls_are_alike() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:2/1s"]);
    assert_eq!(background(&outbound).await.unwrap().limits().len(), 2);
    assert!(urgent(&outbound).await.is_ok());
    assert_eq!(refused_by(background(&outbound).await), "a");
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_every_process_until_it_ends() {
    let store = Remote::new();
    let limits = ["a=sliding-log:2/1s"];
    let one = process(&store, &limits);
    let fleet = [one.clone(), process(&store, &limits)];
    for outbound in &fleet {
        assert!(urgent(outbound).await.is_ok());
    }
    // These wait for the window when the pause begins.
    let started = Instant::now();
    let mut waiting = JoinSet::new();
    for outbound in &fleet {
        let calls = [outbound.call(KEY), outbound.call(KEY).background()];
        for call in calls {
            waiting.spawn(async move {
                call.wait_up_to(MINUTE).await.unwrap();
                started.elapsed()
            });
        }
    }
    sleep(SECOND / 2).await;
    let pause = one.penalize(KEY, 5 * SECOND).await.unwrap();
    assert_eq!(pause.duration(), Some(5 * SECOND + MARGIN));
    // A shorter pause does not end a longer one.
    let pause = one.penalize(KEY, SECOND).await.unwrap();
    assert!(pause.duration() > Some(4 * SECOND));
    // A process in which nobody waits asks the store.
    let third = process(&store, &limits);
    assert_eq!(refused_by(urgent(&third).await), "a-paused");
    assert_eq!(refused_by(background(&third).await), "a-paused");
    for outbound in &fleet {
        assert!(urgent(outbound).await.is_err());
        let other = outbound.call("other.example.com").wait_up_to(NOW).await;
        assert!(other.is_ok());
    }
    let ends = SECOND / 2 + 5 * SECOND + MARGIN;
    while let Some(call) = waiting.join_next().await {
        let at = call.unwrap();
        assert!(at >= ends && at <= ends + 3 * SECOND, "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_double_if_the_service_does_not_say_how_long() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:2/1s"]);
    let other = process(&store, &["a=sliding-log:2/1s"]);
    for seconds in [1, 2, 4] {
        let pause = outbound.back_off(KEY).await.unwrap();
        assert_eq!(pause.as_secs_ceil(), Some(seconds));
        // The other processes of the fleet that hear the same do not make it longer.
        let pause = other.back_off(KEY).await.unwrap();
        assert_eq!(pause.as_secs_ceil(), Some(seconds));
        assert_eq!(refused_by(urgent(&other).await), "a-paused");
        sleep(Duration::from_secs(seconds) + TICK).await;
        assert!(urgent(&other).await.is_ok());
    }

    let limits = ["stop=block:3s", "a=sliding-log:2/1s"];
    let outbound = process(&Remote::new(), &limits);
    assert_eq!(outbound.limits().len(), 2);
    let pause = outbound.back_off(KEY).await.unwrap();
    assert_eq!(pause.as_secs_ceil(), Some(3));
    assert_eq!(refused_by(urgent(&outbound).await), "stop");
}

#[tokio::test(start_paused = true)]
async fn a_report_lowers_what_remains_and_never_raises_it() {
    for limit in [
        "a=sliding-log:10/1s",
        "a=sliding-buckets:10/1s,buckets=4",
        "a=gcra:10/10s",
    ] {
        let store = Remote::new();
        let [one, other] = [(); 2].map(|()| process(&store, &[limit]));
        one.observe(KEY, 3, None).await.unwrap();
        // Twice, or more than that, changes nothing.
        one.observe(KEY, 3, Some(SECOND)).await.unwrap();
        one.observe(KEY, 8, None).await.unwrap();
        for left in [2, 1, 0] {
            assert_eq!(urgent(&other).await.unwrap().remaining(), left, "{limit}");
        }
        assert_eq!(refused_by(urgent(&other).await), "a");
        one.observe(KEY, 100, Some(SECOND)).await.unwrap();
        assert_eq!(refused_by(urgent(&one).await), "a");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_nothing_remains_pauses_until_the_reset() {
    let store = Remote::new();
    let limits = ["a=sliding-log:10/1s"];
    let [one, other] = [(); 2].map(|()| process(&store, &limits));
    one.observe(KEY, 0, Some(5 * SECOND)).await.unwrap();
    assert_eq!(refused_by(background(&other).await), "a-paused");
    sleep(5 * SECOND + MARGIN - TICK).await;
    assert_eq!(refused_by(urgent(&other).await), "a-paused");
    sleep(2 * TICK).await;
    assert!(urgent(&other).await.is_ok());

    // Without a reset, the limit itself says when there is more.
    one.observe(KEY, 0, None).await.unwrap();
    assert_eq!(refused_by(urgent(&other).await), "a");
}

#[tokio::test(start_paused = true)]
async fn a_report_is_about_the_limit_that_fits_its_reset() {
    for (reset_after, lowered) in [
        (None, "second"),
        (Some(SECOND), "second"),
        (Some(2 * SECOND), "minute"),
        (Some(MINUTE), "minute"),
        (Some(2 * MINUTE), "hour"),
        (Some(100 * MINUTE), "hour"),
    ] {
        let limits = [
            "minute=sliding-log:20/1m",
            "second=sliding-log:10/1s",
            "hour=sliding-log:30/1h",
        ];
        let outbound = process(&Remote::new(), &limits);
        outbound.observe(KEY, 1, reset_after).await.unwrap();
        let permit = urgent(&outbound).await.unwrap();
        for (verdict, limit) in permit.verdicts().as_slice().iter().zip(permit.limits()) {
            let is_lowered = verdict.remaining() == 0;
            assert_eq!(
                is_lowered,
                limit.name() == lowered,
                "{reset_after:?}, {limit}"
            );
        }
    }
    // Unless the report says which limit it is about.
    let outbound = process(
        &Remote::new(),
        &["a=sliding-log:20/1m", "b=sliding-log:30/1s"],
    );
    let report = outbound.observe_limit(KEY, "a", 9, Some(SECOND));
    report.await.unwrap();
    let permit = urgent(&outbound).await.unwrap();
    assert_eq!(permit.verdicts().as_slice()[0].remaining(), 8);
    assert_eq!(permit.verdicts().as_slice()[1].remaining(), 29);

    let outbound = process(&Remote::new(), &["a=sliding-log:20/1m"]);
    for unknown in ["b", "a-paused"] {
        let error = outbound.observe_limit(KEY, unknown, 1, None).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let message = error.to_string();
        let expected = format!("no limit `{unknown}` counts calls here: choose one of `a`");
        assert!(message.contains(&expected), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_too_old_is_given_back() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:5/1h"]);
    // The store is slow for two calls, and a part of the second refund.
    let slow = Arc::clone(&store);
    slow.delay_ms.store(80, Ordering::SeqCst);
    tokio::spawn(async move {
        while slow.calls() < 2 {
            sleep(TICK).await;
        }
        sleep(Duration::from_millis(90)).await;
        slow.delay_ms.store(40, Ordering::SeqCst);
    });
    let permit = outbound.call(KEY).wait_up_to(MINUTE).await.unwrap();
    assert!(permit.age() <= MARGIN, "{:?}", permit.age());
    // What was given back is there again.
    assert_eq!(permit.remaining(), 4);
    let stats = outbound.stats();
    assert_eq!((stats.admitted, stats.stale), (1, 2));
    assert_eq!(outbound.clone().stats(), stats);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_as_old_as_the_question_and_may_be_just_as_old_as_was_set() {
    let store = Remote::new();
    store.delay_ms.store(100, Ordering::SeqCst);
    let tenth = SECOND / 10;
    for (age, stale) in [(tenth, 0), (tenth - TICK, 1)] {
        let outbound = Outbound::builder(Arc::clone(&store), ["a=sliding-log:5/1h"]);
        let outbound = outbound.permit_age(age).build().unwrap();
        let permit = urgent(&outbound).await;
        assert_eq!(outbound.stats().stale, stale);
        if let Ok(permit) = permit {
            assert_eq!((permit.age(), permit.is_stale()), (tenth, false));
            sleep(TICK).await;
            assert_eq!((permit.age(), permit.is_stale()), (tenth + TICK, true));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_permit_was_too_old_waits_no_longer_than_it_may_in_all() {
    // Then the window of another process's call is over, with the margin.
    let ready = Duration::from_millis(180) + SECOND + MARGIN;
    for (longest, is_admitted) in [(ready, true), (ready - TICK, false)] {
        let store = Remote::new();
        let outbound = process(&store, &["a=sliding-log:1/1s"]);
        store.delay_ms.store(100, Ordering::SeqCst);
        let call = tokio::spawn(outbound.call(KEY).wait_up_to(longest).into_future());
        // The permit came too late, and was given back in the store.
        sleep(Duration::from_millis(180)).await;
        store.delay_ms.store(0, Ordering::SeqCst);
        // Another process takes it before the call asks again.
        let other = process(&store, &["a=sliding-log:1/1s"]);
        assert!(urgent(&other).await.is_ok());
        let answer = call.await.unwrap();
        assert_eq!(outbound.stats().stale, 1);
        match answer {
            Ok(_) => assert!(is_admitted),
            Err(WaitError::TooLong(refused)) => {
                assert!(!is_admitted);
                // In all, since it was made.
                assert_eq!(refused.wait().duration(), Some(ready));
                assert_eq!(refused.excess().duration(), Some(TICK));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_slow_is_an_error_and_nothing_is_consumed() {
    // Its answer takes 120 ms, and so does giving the permit back.
    let once = Duration::from_millis(240);
    for (longest, asked) in [
        (SECOND / 10, 1),
        (once, 1),
        (once + TICK, 2),
        (MINUTE, 8),
        (Duration::MAX, 8),
    ] {
        let store = Remote::new();
        let outbound = process(&store, &["a=sliding-log:5/1h"]);
        store.delay_ms.store(120, Ordering::SeqCst);
        let error = outbound.call(KEY).wait_up_to(longest).await.unwrap_err();
        let WaitError::Store(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("120ms"), "{error}");
        assert_eq!(
            (store.calls(), outbound.stats().stale),
            (asked, u64::try_from(asked).unwrap())
        );
        store.delay_ms.store(0, Ordering::SeqCst);
        assert_eq!(urgent(&outbound).await.unwrap().remaining(), 4);
    }
    // Without a margin, permits have any age.
    let store = Remote::new();
    let outbound = Outbound::builder(Arc::clone(&store), ["a=sliding-log:5/1h"]);
    let outbound = outbound.build().unwrap();
    store.delay_ms.store(120, Ordering::SeqCst);
    assert!(urgent(&outbound).await.is_ok());
    let outbound = Outbound::builder(Arc::clone(&store), ["a=sliding-log:5/1h"]);
    let outbound = outbound.permit_age(2 * SECOND / 20).build().unwrap();
    assert!(urgent(&outbound).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_away_gives_its_permit_back() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:5/1h"]);
    store.delay_ms.store(80, Ordering::SeqCst);
    for millis in (5..200).step_by(10) {
        let call = outbound.call(KEY).wait_up_to(MINUTE).into_future();
        let gone = tokio::time::timeout(Duration::from_millis(millis), call).await;
        assert!(gone.is_err());
    }
    sleep(SECOND).await;
    store.delay_ms.store(0, Ordering::SeqCst);
    assert_eq!(urgent(&outbound).await.unwrap().remaining(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_permit_can_be_given_back_or_settled() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:10/1h"]);
    let permit = outbound.call(KEY).cost(4).wait_up_to(NOW).await.unwrap();
    assert_eq!((permit.cost(), permit.remaining()), (4, 6));
    assert_eq!(*permit.key().partition(), *KEY.as_bytes());
    permit.give_back().await.unwrap();
    let permit = outbound.call(KEY).cost(4).wait_up_to(NOW).await.unwrap();
    assert_eq!(permit.remaining(), 6);
    permit.settle(2).await.unwrap();
    let permit = outbound.call(KEY).cost(8).wait_up_to(NOW).await.unwrap();
    assert_eq!(permit.remaining(), 0);
    // Who waits for the key is admitted at once.
    let waiting = tokio::spawn(outbound.call(KEY).wait_up_to(SECOND * 10_000).into_future());
    sleep(SECOND).await;
    let started = Instant::now();
    permit.settle(7).await.unwrap();
    let waiting = waiting.await.unwrap().unwrap();
    assert!(started.elapsed() <= 5 * TICK);
    sleep(SECOND).await;
    // Or as any other call, by its receipt.
    let permit = outbound.call(KEY).cost(1).wait_up_to(NOW).await;
    assert_eq!(refused_by(permit), "a");
    let receipt = waiting.into_receipt().unwrap();
    let limiter = RateLimiter::new(store, outbound.stricter_limits()).unwrap();
    let left = limiter.refund(KEY, receipt).await.unwrap();
    assert_eq!(left.remaining(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_costs_nothing_is_admitted_at_once_whatever_others_wait_for() {
    let store = Remote::new();
    let outbound = process(&store, &["a=sliding-log:1/1h"]);
    assert!(urgent(&outbound).await.is_ok());
    let _waiting = tokio::spawn(outbound.call(KEY).wait_up_to(100 * MINUTE).into_future());
    sleep(SECOND).await;
    outbound.penalize(KEY, MINUTE).await.unwrap();
    // It gives nothing back, so it is never too old.
    store.delay_ms.store(100, Ordering::SeqCst);
    let free = outbound.call(KEY).cost(0).wait_up_to(NOW).await.unwrap();
    assert!(free.age() > MARGIN, "{:?}", free.age());
    assert!(!free.is_stale());
    assert_eq!((free.cost(), outbound.stats().stale), (0, 0));
    assert!(free.into_receipt().is_none());
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_not_possible_are_errors() {
    let error = |limits: &str, kept| {
        let outbound = Outbound::builder(Remote::new(), limits.split_whitespace());
        let outbound = outbound.margin(MARGIN).keep_for_urgent(kept).build();
        outbound.unwrap_err()
    };
    for row in [
        " | 0 | at least one limit",
        "stop=block:1s other=block:2s | 0 | limit `stop` is a block, which counts no calls",
        "a=sliding-log:5/1 | 0 | expected a unit",
        "a=sliding-log:5/1s a=gcra:1/1s | 0 | called \"a\"",
        "a=sliding-log:5/1s,count-denied | 0 | leave out `count-denied`",
        "a=fixed-window:5/1s | 0 | or `.margin_of(\"a\", Duration::ZERO)`",
        "a=sliding-log:5/1s b=gcra:9/1m | 5 | `a` to others: choose at most 4",
        "a=sliding-log:1/1s | 1 | keeping 1 for urgent calls leaves nothing of limit `a` to others",
        "a=sliding-log:1/1s | 1 | leaves nothing of limit `a` to others: leave out `keep_for_urgent`",
    ] {
        let [limits, kept, expected] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let error = error(limits, kept.parse().unwrap()).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let counts = error("a=sliding-log:5/1s,count-denied", 0);
    assert!(matches!(counts, OutboundError::CountsDenied { limit } if limit == "a"));
    let shadow = error("a=sliding-log:5/1s b=gcra:5/1s,shadow", 0);
    assert!(matches!(shadow, OutboundError::InShadow { limit } if limit == "b"));
}

/// A window that begins at set times, such as a month, has none: others keep theirs.
#[test]
fn one_limit_may_have_another_margin() {
    let limits = [
        "second=sliding-log:10/1s",
        "day=fixed-window:1000/1d",
        "ban=block:1s",
    ];
    let builder = || {
        Outbound::builder((), limits)
            .margin(Duration::from_millis(50))
            .margin_of("day", Duration::from_millis(50))
    };
    let error = builder().build().unwrap_err();
    assert!(matches!(error, OutboundError::FixedWindowWithMargin { limit } if limit == "day"));
    let outbound = builder().margin_of("day", Duration::ZERO).build().unwrap();
    let stricter = outbound.stricter_limits()[..2].iter().map(Limit::to_string);
    let expected = ["second=sliding-log:10/1050ms", "day=fixed-window:1000/1d"];
    assert_eq!(stricter.collect::<Vec<_>>(), expected);
    assert_eq!(outbound.margin(), Duration::from_millis(50));
    for name in ["month", "ban"] {
        for builder in [
            builder().margin_of(name, Duration::ZERO),
            builder().keep_for_urgent_of(name, 1),
        ] {
            let unknown = builder.build().unwrap_err();
            assert!(matches!(unknown, OutboundError::UnknownLimit { limit } if limit == name));
        }
    }
}
