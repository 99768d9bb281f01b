//! Calls that the server executes, but whose replies are lost.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Decision, ErrorKind, RateLimiter, Store};
use tollgate_testkit::Server;

/// Cuts the connection of at least ten calls after the server has received them and before it
/// replies, and checks that none is counted twice.
///
/// The limiter must have one limit with an amount of 1,000 and 1 consumed. On a busy machine a
/// reply can arrive before the cut, so this continues until one is lost.
pub async fn is_not_asked_for_again<S: Store + 'static>(limiter: RateLimiter<S>, server: &Server) {
    let limiter = Arc::new(limiter);
    let (mut counted, mut lost) = (1, 0);
    for round in 1..=100 {
        let mut control = server.connection();
        server.pause();
        let call = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.check("key").await.map(Decision::into_verdicts) }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        control.send(&kill).unwrap();
        server.resume();
        control.receive().unwrap();
        if let Err(error) = call.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
            lost += 1;
        }
        // A peek makes the client reconnect.
        let left = loop {
            match limiter.peek("key").await {
                Ok(decision) => break decision.remaining(),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let now = 1_000 - left;
        assert!(
            now <= counted + 1,
            "{now} counted after {counted} and one call"
        );
        counted = now;
        if round >= 10 && lost > 0 && counted > 1 {
            return;
        }
    }
    panic!("{lost} lost, {counted} counted");
}
