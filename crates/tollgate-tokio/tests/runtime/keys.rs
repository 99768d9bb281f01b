//! One call can count for another key under each limit: all of its limits are waited for together.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_core::{ErrorKind, Timestamp};
use tollgate_tokio::meter::SettleGuard;
use tollgate_tokio::pace::Pace;
use tollgate_tokio::wait::WaitError;
use tollgate_tokio::{Outbound, WaitUpTo};

use crate::waiting::{Limiter, MINUTE, Remote, SECOND, TICK, limiter};

const ROUTES: [&str; 3] = ["/a", "/b", "/c"];

/// Returns what is left of both limits for each of these keys.
async fn left(limiter: &Limiter, keys: [&str; 2]) -> [[u64; 2]; 2] {
    let mut left = [[0; 2]; 2];
    for (left, key) in left.iter_mut().zip(keys) {
        let peek = limiter.peek(key).await.unwrap();
        *left = ["a", "b"].map(|name| peek.verdict(name).unwrap().remaining());
    }
    left
}

#[tokio::test(start_paused = true)]
async fn routes_of_an_account_wait_until_both_admit_them() {
    for kind in ["sliding-log", "fixed-window", "gcra"] {
        let limits = [format!("account={kind}:5/1s"), format!("route={kind}:2/1s")];
        let (_, limiter) = limiter(&limits.each_ref().map(String::as_str));
        let (started, mut calls) = (Instant::now(), JoinSet::new());
        for number in 0..36 {
            let (limiter, route) = (limiter.clone(), number % 3);
            calls.spawn(async move {
                let call = limiter
                    .check("alice")
                    .key_of("route", ("alice", ROUTES[route]));
                let admitted = call.wait_up_to(MINUTE).await.unwrap();
                let verdict = admitted.decision().verdict("route").unwrap();
                (verdict.decided_at(), route)
            });
        }
        let admitted = calls.join_all().await;
        // 36 at five a second, of which the last ones may be of one route.
        let elapsed = started.elapsed();
        assert!(elapsed < SECOND * 10, "{kind}: {elapsed:?}");
        if kind != "sliding-log" {
            continue;
        }
        for (from, of) in &admitted {
            let to = from.saturating_add(SECOND);
            let within = |at: &Timestamp| (*from..to).contains(at);
            let all = admitted.iter().filter(|(at, _)| within(at)).count();
            let mut of_route = admitted.iter().filter(|(_, route)| route == of);
            let of_route = of_route.by_ref().filter(|(at, _)| within(at)).count();
            assert!(all <= 5 && of_route <= 2, "{all}, {of_route} of a route");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_hears_what_is_given_back_to_any_of_its_keys() {
    let (_, limiter) = limiter(&["account=sliding-log:9/1m", "route=sliding-log:1/1m"]);
    let decision = limiter.check("alice").key_of("route", "/a").await.unwrap();
    let receipt = decision.into_receipt().unwrap();
    let waiting = limiter.clone();
    let waiting = tokio::spawn(async move {
        let call = waiting.check("bob").key_of("route", "/a");
        call.wait_up_to(2 * MINUTE).await.map(|_| Instant::now())
    });
    sleep(SECOND / 2).await;
    let refund = limiter.refund("alice", receipt).key_of("route", "/a");
    refund.await.unwrap();
    let given_back = Instant::now();
    let admitted = waiting.await.unwrap().unwrap();
    assert!(
        admitted - given_back <= 20 * TICK,
        "{:?}",
        admitted - given_back
    );
}

#[tokio::test(start_paused = true)]
async fn each_limit_of_a_service_may_count_for_a_key_of_its_own() {
    let limits = ["a=sliding-log:9/1m", "b=sliding-log:9/1m"];
    let store = Remote::new();
    let outbound = Outbound::builder(Arc::clone(&store), limits).keep_for_urgent_of("b", 4);
    let outbound = outbound.build().unwrap();
    let call = || outbound.call("alice").key_of("b", "/a").background();
    let permit = call().cost(3).await.unwrap();
    assert_eq!(*permit.key().partition(), *b"alice");
    for name in ["b", "b-background"] {
        assert_eq!(*permit.key_of(name).unwrap().partition(), *b"/a", "{name}");
    }
    assert!(permit.key_of("c").is_none());
    let plain = Limiter::new(Arc::clone(&store), limits).unwrap();
    assert_eq!(left(&plain, ["alice", "/a"]).await, [[6, 9], [9, 6]]);
    permit.settle(2).await.unwrap();
    assert_eq!(left(&plain, ["alice", "/a"]).await, [[7, 9], [9, 7]]);
    call().cost(3).await.unwrap().give_back().await.unwrap();
    assert_eq!(left(&plain, ["alice", "/a"]).await, [[7, 9], [9, 7]]);
    assert!(call().cost(4).wait_up_to(Duration::ZERO).await.is_err());

    outbound.back_off("alice").await.unwrap();
    assert!(call().wait_up_to(Duration::ZERO).await.is_err());
    for unknown in ["c", "alice-paused"] {
        match outbound.call("alice").key_of(unknown, "/a").await {
            Err(WaitError::Store(error)) => assert_eq!(error.kind(), ErrorKind::Malformed),
            other => panic!("{other:?} instead of an error"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_count_for_the_keys_of_their_limits() {
    let (_, limiter) = limiter(&["a=sliding-log:9/1m", "b=sliding-log:9/1m"]);
    let mails = || stream::iter(["mail"; 3]).pace(&limiter, "alice");
    let admitted: Vec<_> = mails().key_of("b", "bob").collect().await;
    assert!(admitted.iter().all(Result::is_ok));
    assert_eq!(left(&limiter, ["alice", "bob"]).await, [[6, 9], [9, 6]]);
    let refused = mails().key_of("c", "bob").next().await.unwrap();
    assert!(matches!(refused.unwrap_err().error(), WaitError::Store(_)));

    let decision = limiter.check("alice").key_of("b", "bob").cost(3).await;
    let receipt = decision.unwrap().into_receipt().unwrap();
    let guard = SettleGuard::new(&limiter, "alice", receipt).key_of("b", "bob");
    guard.settle(1).await.unwrap();
    assert_eq!(left(&limiter, ["alice", "bob"]).await, [[5, 9], [9, 5]]);
}
