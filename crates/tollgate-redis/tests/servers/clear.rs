//! States are cleared in bulk, on one server and in a cluster whose slots move.

use std::slice;
use std::time::Duration;

use tollgate_core::FixedWindow;
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Limit, Quota, Store};
use tollgate_redis::connection::{self, ServerConnection};
use tollgate_redis::operate::{Clear, Operate};
use tollgate_redis::redis::Client;
use tollgate_redis::redis::cluster_async::ClusterConnection;
use tollgate_redis::{PlainStore, RedisStore};
use tollgate_scenarios::clear as shared;
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};

use shared::{
    begin_migration, clears_many_in_small_steps, clears_what_is_ahead, cluster, options, snapshot,
};

async fn connect(url: String) -> RedisStore<ServerConnection> {
    let builder = RedisStore::builder().options(options());
    builder.connect(url).await.unwrap()
}

async fn connect_cluster(cluster: &Cluster) -> RedisStore<ClusterConnection> {
    let builder = RedisStore::builder().options(options());
    builder.connect_cluster(cluster.urls()).await.unwrap()
}

async fn clears_a_server(flavor: Flavor) {
    let server = Server::start(flavor);
    clears_what_is_ahead(connect(server.url()).await, &[server]).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_on_redis_system() {
    clears_a_server(Flavor::System).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_on_redis_6_2() {
    clears_a_server(Flavor::Redis62).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_on_valkey_9_1() {
    clears_a_server(Flavor::Valkey91).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_in_a_cluster() {
    let cluster = cluster();
    clears_what_is_ahead(connect_cluster(&cluster).await, cluster.nodes()).await;
}

#[tokio::test]
async fn only_states_ahead_are_cleared_behind_sentinels() {
    let group = SentinelGroup::start(Flavor::System);
    let urls = group.sentinel_urls();
    let name = group.primary_name();
    let store = RedisStore::builder()
        .options(options())
        .connect_sentinel(urls, name)
        .await;
    let primary = slice::from_ref(group.primary());
    clears_what_is_ahead(store.unwrap(), primary).await;
}

#[tokio::test]
async fn many_keys_are_cleared_in_small_steps_on_a_server() {
    let server = Server::start(Flavor::System);
    clears_many_in_small_steps(connect(server.url()).await, &[server]).await;
}

#[tokio::test]
async fn many_keys_are_cleared_in_small_steps_in_a_cluster() {
    let cluster = cluster();
    clears_many_in_small_steps(connect_cluster(&cluster).await, cluster.nodes()).await;
}

#[tokio::test]
async fn keys_of_a_slot_that_is_moving_are_cleared() {
    let cluster = cluster();
    let store = connect_cluster(&cluster).await;
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
    let client = Client::open(server.url()).unwrap();
    let config = connection::multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let connection = connection.await.unwrap();
    let day = Quota::per_day(5);
    let limits = [
        Limit::new("aligned", FixedWindow::aligned(day)).unwrap(),
        Limit::new("anchored", FixedWindow::anchored(day)).unwrap(),
    ];
    let plain = PlainStore::new(connection.clone(), options(), &limits).unwrap();
    for limit in &limits {
        let check = Check::new(limit, "alice", 1);
        let _ = plain.decide(Request::consume(check)).await.unwrap();
    }
    let keys: Vec<String> = snapshot(slice::from_ref(&server), |_| true)
        .into_keys()
        .collect();
    let store = RedisStore::with_options(connection, options());
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

/// Users who may not scan or delete keys get an error, and nothing is deleted.
#[tokio::test]
async fn clearing_without_permission_is_an_error_that_names_the_command() {
    let server = Server::start(Flavor::System);
    server.command(&["SET", "shop:a:gcra:v1:{k}", "x"]);
    let commands = [
        "+scan", "+unlink", "+dbsize", "+get", "+lindex", "+pttl", "+time",
    ];
    for (missing, is_needed) in [
        ("+scan", true),
        ("+unlink", true),
        ("+dbsize", false),
        ("+get", false),
    ] {
        let user = &missing[1..];
        let mut words = vec!["ACL", "SETUSER", user, "on", ">secret", "~shop:*", "+ping"];
        words.extend(commands.iter().filter(|name| **name != missing));
        assert_eq!(server.command(&words).text(), Some("OK"));
        let url = format!("redis://{user}:secret@{}", server.address());
        let store = connect(url).await;
        let what = Clear::new().ahead_by(Duration::ZERO);
        let cleared = store.clear(&what, &mut |_| ()).await;
        // A state that the user may not read could be ahead.
        let fails = ["+scan", "+get"].contains(&missing);
        assert_eq!(cleared.is_err(), fails, "{cleared:?}");
        if let Ok(cleared) = cleared {
            assert_eq!((cleared.found, cleared.skipped), (0, 1));
            assert_eq!(cleared.keys.is_none(), missing == "+dbsize");
        }
        if is_needed {
            let error = store.clear(&Clear::new(), &mut |_| ()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains("grant"), "{error}");
            assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));
        }
    }
}
