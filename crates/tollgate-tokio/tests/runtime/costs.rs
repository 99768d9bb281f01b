//! A call that waits can cost something else under each limit: requests and tokens wait together.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::WaitError;

use crate::waiting::{Limiter, MINUTE, SECOND, TICK, finish, limiter, too_long};

#[derive(Clone, Copy)]
struct Costs {
    tokens: u64,
    /// Of each other limit.
    others: u64,
}

/// Starts calls for "alice" in this order. Returns which was admitted when, in that order.
async fn all(limiter: &Limiter, costs: &[Costs]) -> Vec<(usize, Duration)> {
    let (started, mut calls) = (Instant::now(), JoinSet::new());
    for (number, Costs { tokens, others }) in costs.iter().copied().enumerate() {
        let limiter = limiter.clone();
        calls.spawn(async move {
            let call = limiter.check("alice").cost(others);
            let call = call.cost_of("tokens", tokens).wait_up_to(100 * MINUTE);
            let admitted = call.await.unwrap();
            let consumed = admitted.decision().verdict("tokens").unwrap();
            assert!(consumed.is_allowed());
            (number, started.elapsed())
        });
        yield_now().await;
    }
    finish(calls).await
}

#[tokio::test(start_paused = true)]
async fn they_are_admitted_in_order_at_the_first_instant_that_all_limits_allow() {
    // Many that cost nothing or little, and some that cost nearly all; or as much of each limit.
    let apart = |number: usize| Costs {
        tokens: [0, 1, 20, 69, 3, 1][number * 5 % 6],
        others: 1,
    };
    let alike = |number: usize| {
        let each = 1 + number as u64 * 5 % 7;
        Costs {
            tokens: each,
            others: each,
        }
    };
    let separate = [
        "requests=gcra:5/1s tokens=gcra:70/1s",
        "requests=gcra:5/1s,burst=1 tokens=gcra:70/1s",
        "requests=sliding-log:5/1s tokens=sliding-log:70/1s",
        "requests=gcra:5/1s tokens=sliding-log:200/10s",
        "requests=fixed-window:5/1s,anchored tokens=sliding-log:70/1s",
        "tokens=sliding-buckets:70/1s,buckets=3 requests=sliding-counter:5/1s",
    ];
    let equal = [
        "tokens=gcra:7/1s",
        "tokens=sliding-log:7/1s",
        "tokens=fixed-window:7/1s",
        "tokens=fixed-window:7/1s,anchored",
        "tokens=sliding-counter:7/1s",
        "tokens=sliding-buckets:7/1s,buckets=3",
        "a=gcra:7/1s tokens=sliding-log:20/10s",
        "a=gcra:7/1s tokens=gcra:20/10s",
        "a=fixed-window:7/1s tokens=sliding-counter:20/10s c=sliding-log:100/5m",
    ];
    let separate = separate.map(|limits| (&apart as &dyn Fn(usize) -> Costs, limits));
    let equal = equal.map(|limits| (&alike as &dyn Fn(usize) -> Costs, limits));
    for (index, (costs, limits)) in separate.into_iter().chain(equal).enumerate() {
        let limits: Vec<_> = limits.split(' ').collect();
        for delay_ms in [0, 10] {
            let (store, limiter) = limiter(&limits);
            store.delay_ms.store(delay_ms, Ordering::SeqCst);
            let costs: Vec<Costs> = (0..60).map(costs).collect();
            let admitted = all(&limiter, &costs).await;
            // One each, some that are denied, and the first in line asks once a second.
            let seconds = usize::try_from(admitted[59].1.as_secs()).unwrap();
            let calls = store.calls();
            let holds = calls <= 60 + seconds + 5 || index >= 6;
            assert!(holds, "{limits:?}: {calls}, {seconds} s");

            // The same calls in this order, each as soon as it is allowed.
            let clock = ManualClock::new();
            let alone = MemoryStore::builder().clock(clock.clone()).build();
            let alone = RateLimiter::new(alone, limits.iter().copied()).unwrap();
            let mut soonest = Duration::ZERO;
            for (number, Costs { tokens, others }) in costs.into_iter().enumerate() {
                let peek = alone.peek("alice").cost(others);
                let peek = peek.cost_of("tokens", tokens).run().unwrap();
                let wait = peek.retry_after().duration().unwrap();
                clock.advance(wait);
                soonest += wait;
                let check = alone.check("alice").cost(others).cost_of("tokens", tokens);
                assert!(check.run().unwrap().is_allowed());
                let (found, at) = admitted[number];
                assert_eq!(found, number, "{limits:?}");
                // Windows are aligned to the store's clock, which started in another millisecond.
                let late = Duration::from_millis(delay_ms) * 60 + SECOND / 5;
                let holds = at + TICK >= soonest && at <= soonest + late;
                assert!(holds, "{limits:?}: {number} at {at:?}, not {soonest:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_limit_that_would_be_waited_for() {
    for kind in ["gcra", "sliding-log"] {
        let limits = [
            format!("requests={kind}:100/1s"),
            format!("tokens={kind}:60/1m"),
        ];
        let (store, limiter) = limiter(&[&limits[0], &limits[1]]);
        let call = |tokens| limiter.check("alice").cost_of("tokens", tokens);
        call(60).wait_up_to(SECOND).await.unwrap();
        let calls = store.calls();
        let refused = too_long(call(30).wait_up_to(SECOND).await);
        assert_eq!(refused.limit().name(), "tokens");
        let wait = if kind == "gcra" { MINUTE / 2 } else { MINUTE };
        assert_eq!(refused.wait().duration(), Some(wait), "{kind}");
        // What costs no tokens need not wait for them.
        let started = Instant::now();
        call(0).wait_up_to(Duration::ZERO).await.unwrap();
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(store.calls() <= calls + 2);

        // More than fits is said at once, without a call.
        let calls = store.calls();
        let refused = too_long(call(61).wait_up_to(Duration::MAX).await);
        assert_eq!(refused.limit().name(), "tokens");
        assert!(refused.wait().is_never());
        assert_eq!(store.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_does_not_exist_is_said_without_a_store_call() {
    let (store, limiter) = limiter(&["requests=gcra:100/1s"]);
    let call = limiter.check("alice").cost_of("tokens", 5);
    match call.wait_up_to(SECOND).await {
        Err(WaitError::Store(error)) => assert_eq!(error.kind(), ErrorKind::Malformed),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.calls(), 0);
}

/// What a call has reserved goes to the next one whose costs are the same, all of them.
#[tokio::test(start_paused = true)]
async fn a_start_is_handed_on_only_to_a_call_that_costs_the_same_everywhere() {
    for (tokens, calls) in [(7, 2), (8, 3)] {
        let (store, limiter) = limiter(&["requests=gcra:1/1s,burst=1", "tokens=gcra:1000/1s"]);
        let call = |tokens| limiter.check("alice").cost_of("tokens", tokens);
        call(7).wait_up_to(SECOND).await.unwrap();
        let gives_up = call(7).wait_up_to(MINUTE).into_future();
        let next = async {
            sleep(20 * TICK).await;
            call(tokens).wait_up_to(MINUTE).await.unwrap();
            Instant::now()
        };
        let started = Instant::now();
        let (gone, admitted) = tokio::join!(timeout(10 * TICK, gives_up), next);
        assert!(gone.is_err());
        // Nobody gets it: it is given back when it is due, and the next call asks then.
        let admitted = admitted.duration_since(started);
        assert!(admitted >= SECOND && admitted <= 2 * SECOND + 10 * TICK);
        assert_eq!(store.calls(), calls, "{tokens}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cost_that_a_limit_in_shadow_can_never_admit_is_no_reason_to_wait() {
    let (_, limiter) = limiter(&["requests=gcra:100/1s", "tokens=gcra:10/1s,shadow"]);
    let call = limiter.check("alice").cost_of("tokens", 11);
    call.wait_up_to(Duration::ZERO).await.unwrap();
}
