//! States are cleared in bulk in a cluster whose slots move, and without scripts.

use std::slice;
use std::time::Duration;

use tollgate_core::FixedWindow;
use tollgate_core::store::{Check, Request};
use tollgate_core::{Limit, Quota, Store};
use tollgate_redis::RedisStoreBuilder;
use tollgate_redis::operate::{Clear, Operate};
use tollgate_scenarios::clear as shared;
use tollgate_testkit::{Flavor, Server};

use crate::client::multiplexed;

use shared::{begin_migration, cluster, options, snapshot};

#[tokio::test]
async fn keys_of_a_slot_that_is_moving_are_cleared() {
    let cluster = cluster();
    let builder = RedisStoreBuilder::from(options());
    let store = builder.connect_cluster(cluster.urls()).await.unwrap();
    let migration = begin_migration(&cluster);
    let cleared = store.clear(&Clear::new(), &mut |_| ()).await.unwrap();
    assert_eq!(cleared.found, 20);
    assert_eq!(snapshot(cluster.nodes(), |_| true).len(), 0);
    migration.finish();
}

/// Without scripts, a counter is ahead if its window begins in the future or its TTL is too long.
#[tokio::test]
async fn counters_without_scripts_are_cleared_too() {
    let server = Server::start(Flavor::System);
    let connection = multiplexed(server.url()).await;
    let day = Quota::per_day(5);
    let limits = [
        Limit::new("aligned", FixedWindow::aligned(day)).unwrap(),
        Limit::new("anchored", FixedWindow::anchored(day)).unwrap(),
    ];
    let plain = RedisStoreBuilder::from(options())
        .plain(connection.clone(), &limits)
        .unwrap();
    for limit in &limits {
        let check = Check::new(limit, "alice", 1);
        let _ = plain.decide(Request::consume(check)).await.unwrap();
    }
    let keys: Vec<String> = snapshot(slice::from_ref(&server), |_| true)
        .into_keys()
        .collect();
    let store = RedisStoreBuilder::from(options()).over(connection).unwrap();
    let what = Clear::new().ahead_by(Duration::from_secs(1));
    let cleared = store
        .clear(&what.clone().dry_run(), &mut |_| ())
        .await
        .unwrap();
    assert_eq!((cleared.found, cleared.skipped), (0, 0), "{keys:?}");

    // A clock that was two days ahead would leave these keys.
    let (aligned, window) = keys[0].split_once(":{").unwrap();
    let (aligned, number) = aligned.rsplit_once('-').unwrap();
    let number: u64 = number.parse().unwrap();
    let ahead = format!("{aligned}-{}:{{{window}", number + 2);
    server.command(&["SET", &ahead, "x", "PX", "999999999"]);
    let three_days = (3 * 86_400_000).to_string();
    server.command(&["PEXPIRE", &keys[1], &three_days]);
    let cleared = store.clear(&what, &mut |_| ()).await.unwrap();
    assert_eq!((cleared.found, cleared.cleared, cleared.skipped), (2, 2, 0));
    let left = snapshot(slice::from_ref(&server), |_| true);
    assert_eq!(left.into_keys().collect::<Vec<_>>(), &keys[..1]);
    store.clear(&Clear::new(), &mut |_| ()).await.unwrap();
    assert_eq!(snapshot(&[server], |_| true).len(), 0);
}
