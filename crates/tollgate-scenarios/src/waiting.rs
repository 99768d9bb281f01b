//! Calls of several processes that wait for the limits of one server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, yield_now};
use tollgate_core::RateLimiter;
use tollgate_testkit::{Flavor, Server};
use tollgate_tokio::WaitUpTo;
use tollgate_tokio::wait::WaitError;
use tollgate_wire::Options;

use crate::client::Client;

const PATIENCE: Duration = Duration::from_secs(30);

/// Checks that calls which cost different amounts of requests and tokens are admitted in order in
/// each process, and that all together stay within both limits.
pub async fn calls_wait_for_requests_and_tokens(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    for limits in [
        [
            "requests=gcra:50/1s,burst=1",
            "tokens=gcra:1000/1s,burst=50",
        ],
        [
            "requests=sliding-log:10/200ms",
            "tokens=sliding-log:200/200ms",
        ],
    ] {
        let started = Instant::now();
        let mut calls = JoinSet::new();
        for process in 0..2 {
            let store = client.server(&server.url(), Options::new()).await.unwrap();
            let limiter = Arc::new(RateLimiter::new(store, limits).unwrap());
            for number in 0..20_u64 {
                let limiter = Arc::clone(&limiter);
                let tokens = 10 + number * 7 % 31;
                calls.spawn(async move {
                    let call = limiter.check(limits[0]).cost_of("tokens", tokens);
                    let admitted = call.wait_up_to(PATIENCE).await.unwrap();
                    assert!(admitted.decision().is_allowed());
                    (process, number, tokens)
                });
                yield_now().await;
            }
            let never = limiter.check(limits[0]).cost_of("tokens", 1_001);
            let never = never.wait_up_to(PATIENCE).await;
            assert!(
                matches!(&never, Err(WaitError::TooLong(refused)) if refused.wait().is_never()),
                "{never:?}"
            );
        }
        let (mut tokens, mut admitted) = (0, 0);
        while let Some(call) = calls.join_next().await {
            tokens += call.unwrap().2;
            admitted += 1;
        }
        // The first 200 tokens at most need not wait, and 10 calls.
        let least = Duration::from_millis((tokens - 200).max((admitted - 10) * 20));
        assert!(
            started.elapsed() >= least,
            "{limits:?}: {:?}",
            started.elapsed()
        );
        assert!(
            started.elapsed() <= 5 * least,
            "{limits:?}: {:?}",
            started.elapsed()
        );
    }
}
