//! Sentinels that require a password, and a primary that hangs.

use std::time::Duration;

use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_scenarios::secured as shared;
use tollgate_testkit::{Flavor, SentinelGroup};

use shared::{ASKED, REFUSED, decides, is_misconfigured, limiter, options, until_let_in};

/// A primary that hangs keeps its connections, and is left as soon as Sentinels name another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_away_from_a_primary_that_hangs() {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let builder = RedisStore::builder().deadline(Duration::from_millis(200));
    let limiter = limiter(builder.connect_sentinel(urls, name).await.unwrap());
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let old = group.primary();
    old.pause();
    let _ = until_let_in(&limiter, "key").await;
    assert_ne!(group.primary().port(), old.port());
    old.resume();
    assert!(limiter.check("key").await.unwrap().is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_are_given_their_password() {
    let group = SentinelGroup::options(Flavor::System).sentinel_password("word");
    let group = group.start();
    let connect = |credentials: &str| {
        let sentinels = group.sentinel_addresses().into_iter();
        let urls: Vec<String> = sentinels
            .map(|sentinel| format!("redis://{credentials}{sentinel}"))
            .collect();
        RedisStoreBuilder::from(options()).connect_sentinel(urls, group.primary_name())
    };
    decides(connect(":word@").await).await;
    is_misconfigured(connect(""), ASKED).await;
    is_misconfigured(connect(":wrong@"), REFUSED).await;
    for server in group.servers() {
        server.command(&["CONFIG", "SET", "requirepass", "secret"]);
    }
    is_misconfigured(connect(":word@"), ASKED).await;
}
