//! The usual layers around a real server that goes and comes back.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tollgate_core::store::Source;
use tollgate_core::{RateLimiter, Store};
use tollgate_layers::{Lazy, Share, usual};
use tollgate_memory::MemoryStore;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};

/// Calls until a decision comes from `source`; none fails meanwhile.
async fn until(source: Source, limiter: &RateLimiter<impl Store>) {
    let begun = Instant::now();
    for key in 0_u64.. {
        let decision = limiter.check(key).await.unwrap();
        if decision.source() == source {
            return;
        }
        let passed = begun.elapsed();
        assert!(
            passed < Duration::from_secs(30),
            "no decision by {source:?}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_service_decides_whatever_its_server_does() {
    let server = Server::start(Flavor::System);
    server.kill();
    let url = server.url();
    let redis = Lazy::new(move || RedisStore::connect(url.clone()));
    let local = Share::new(MemoryStore::new(), NonZeroU32::new(2).unwrap());
    let limiter = RateLimiter::new(usual(redis, local), ["api=gcra:10/1s"]).unwrap();
    until(Source::Fallback, &limiter).await;
    server.restart();
    until(Source::Store, &limiter).await;
    server.pause();
    until(Source::Fallback, &limiter).await;
    // Nobody waits for it any more: a call that needs the deadline would be one of the tries.
    for _ in 0..100 {
        let decision = limiter.check("alice").await.unwrap();
        assert_eq!(decision.source(), Source::Fallback);
    }
    server.resume();
    until(Source::Store, &limiter).await;
    server.kill();
    until(Source::Fallback, &limiter).await;
    server.restart();
    until(Source::Store, &limiter).await;
}
