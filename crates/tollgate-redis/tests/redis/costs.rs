//! Calls with a cost of its own for each limit: receipts, ids and batches keep the costs apart.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_redis::store::Verdict;
use tollgate_redis::{Decision, ErrorKind, RateLimiter, RedisStoreBuilder, Store, Timestamp};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

const LIMITS: [&str; 2] = ["requests=sliding-log:100/1h", "tokens=gcra:1000/1h"];
const NOW: Timestamp = Timestamp::saturating_from_micros(1_780_000_000_000_000);

async fn limiter(server: &Server, batches: bool, limits: [&str; 2]) -> RateLimiter<Arc<dyn Store>> {
    let builder = RedisStoreBuilder::from(Options::new().with_batches(batches));
    let store: Arc<dyn Store> = Arc::new(builder.connect(server.url()).await.unwrap());
    RateLimiter::new(store, limits).unwrap()
}

/// Returns what was consumed of each limit, and what it left.
fn each(decision: &Decision<'_>) -> Vec<(u64, u64)> {
    let said = |verdict: Verdict| (verdict.consumed(), verdict.remaining());
    decision
        .verdicts()
        .map(|(_, verdict)| said(verdict))
        .collect()
}

#[tokio::test]
async fn receipts_and_ids_know_the_cost_of_each_limit() {
    let server = Server::start(Flavor::System);
    for (key, batches) in [("alone", false), ("batched", true)] {
        let limiter = limiter(&server, batches, LIMITS).await;
        let check = |tokens| limiter.check(key).cost_of("tokens", tokens).at(NOW);
        let with_id = || check(800).cost_of("requests", 3).id("one");
        let first = with_id().await.unwrap();
        assert_eq!(each(&first), [(3, 97), (800, 200)]);
        assert_eq!(first, with_id().await.unwrap());
        let other = check(800).id("one").await.unwrap_err();
        assert_eq!(other.kind(), ErrorKind::Malformed);

        let denied = check(201).await.unwrap();
        assert_eq!(each(&denied), [(0, 97), (0, 200)]);
        assert_eq!(denied.binding().0.name(), "tokens");
        let peek = |tokens| limiter.peek(key).cost_of("tokens", tokens).at(NOW);
        assert!(peek(200).await.unwrap().is_allowed());
        assert!(peek(201).await.unwrap().is_denied());

        let settle = limiter.settle(key, first.into_receipt().unwrap(), 3);
        let left = settle.cost_of("tokens", 335).at(NOW).await.unwrap();
        assert_eq!(each(left.decision()), [(0, 97), (0, 665)]);
        // The same is taken from every limit.
        let take = limiter.take_up_to(key, 90).cost_of("requests", 50);
        let taken = take.at(NOW).await.unwrap();
        assert_eq!(each(&taken), [(50, 47), (50, 615)]);
        let second = check(15).await.unwrap().into_receipt().unwrap();
        let left = limiter.refund(key, second).at(NOW).await.unwrap();
        assert_eq!(each(left.decision()), [(0, 47), (0, 615)]);
    }
}

#[tokio::test]
async fn calls_of_different_costs_are_decided_in_one_batch() {
    let server = Server::start(Flavor::System);
    for batches in [false, true] {
        let limiter = limiter(&server, batches, LIMITS).await;
        let mut calls = JoinSet::new();
        for call in 0..60 {
            let limiter = limiter.clone();
            calls.spawn(async move {
                let decision = limiter.check("k").cost_of("tokens", call % 4).await;
                each(&decision.unwrap())[1].0 == call % 4
            });
        }
        assert!(calls.join_all().await.into_iter().all(|is_own| is_own));
        let left = limiter.peek("k").cost(0).await.unwrap();
        assert_eq!(each(&left)[0], (0, 40));
        // A token comes back after 3.6 seconds.
        let tokens = each(&left)[1].1;
        assert!((910..=920).contains(&tokens), "{tokens}");
        limiter.reset("k").await.unwrap();
    }
}

#[tokio::test]
async fn reservations_have_costs_of_their_own() {
    let server = Server::start(Flavor::System);
    let limits = ["requests=gcra:1/1s,burst=1", "tokens=gcra:10/1s,burst=10"];
    let limiter = limiter(&server, false, limits).await;
    let reserve = |tokens| {
        let call = limiter.reserve("k").within(Duration::from_secs(9));
        call.cost_of("tokens", tokens).at(NOW)
    };
    for (tokens, delay) in [(10, 0), (5, 1), (10, 2)] {
        let reserved = reserve(tokens).await.unwrap();
        let consumed: Vec<_> = each(&reserved).iter().map(|said| said.0).collect();
        assert_eq!(consumed, [1, tokens]);
        let found = reserved.delay().duration();
        assert_eq!(found, Some(Duration::from_secs(delay)));
    }
    assert!(reserve(11).await.unwrap().retry_after().is_never());
}
