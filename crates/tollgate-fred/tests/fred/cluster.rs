//! A cluster whose slots move and whose nodes fail: calls wait for it, and none is counted twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_core::{
    Decision, ErrorKind, FixedWindow, Key, Limit, Quota, RateLimiter, StoreError, Timestamp,
};
use tollgate_fred::fred::prelude::{Builder, ClientLike, Config, ReconnectPolicy};
use tollgate_fred::{FredStore, FredStoreBuilder};
use tollgate_testkit::{Cluster, Flavor};
use tollgate_wire::Options;

/// All calls are decided at one instant, so that no window ends during a test.
const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const LIMIT: u32 = 1_000_000;
const DEADLINE: Duration = Duration::from_secs(2);

type Limiter = Arc<RateLimiter<FredStore>>;

async fn limiter(cluster: &Cluster) -> Limiter {
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let options = Options::default().with_deadline(DEADLINE);
    let store = FredStoreBuilder::from(options).connect(&url).await;
    let limit = Limit::new("calls", FixedWindow::aligned(Quota::per_hour(LIMIT)));
    let limiter = RateLimiter::new(store.expect("a cluster that answers"), limit);
    Arc::new(limiter.expect("one limit"))
}

/// Calls with a key in `tenant`'s slot, and returns the key's count, this call included.
async fn call(limiter: &Limiter, tenant: &str, rest: &str) -> Result<u64, StoreError> {
    let begun = Instant::now();
    let key = Key::new(tenant).with_rest(rest);
    let outcome = limiter.check(key).at(NOW).await;
    let took = begun.elapsed();
    assert!(took < DEADLINE * 2, "{took:?}");
    Ok(u64::from(LIMIT) - outcome?.remaining())
}

#[tokio::test]
async fn a_client_that_follows_redirections_is_refused() {
    let config = Config::from_url("redis-cluster://127.0.0.1:1").unwrap();
    let mut builder = Builder::from_config(config);
    let error = FredStore::new(builder.build().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let pool = FredStore::new(builder.build_pool(2).unwrap());
    assert_eq!(pool.unwrap_err().kind(), ErrorKind::Misconfigured);
    let own = FredStore::builder().connect_with(&builder).await;
    assert_eq!(own.unwrap_err().kind(), ErrorKind::Misconfigured);
    builder.with_connection_config(|connection| connection.max_redirections = 0);
    FredStore::new(builder.build().unwrap()).unwrap();
}

#[tokio::test]
async fn a_migrating_key_is_counted_once_or_refused() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let limiter = limiter(&cluster).await;
    let slot = Cluster::slot_of("alice");
    let old = cluster.master_of(slot).port();
    let mut nodes = cluster.nodes().iter();
    let new = nodes.find(|node| node.port() != old).unwrap();
    assert_eq!(call(&limiter, "alice", "old").await.unwrap(), 1);

    let migration = cluster.begin_migration(slot, new);
    // A key that has not moved is served. A new key is served by neither node to this client.
    assert_eq!(call(&limiter, "alice", "old").await.unwrap(), 2);
    let begun = Instant::now();
    let error = call(&limiter, "alice", "new").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(begun.elapsed() < DEADLINE, "{:?}", begun.elapsed());
    assert!(error.is_retryable());

    // A call that waits for the end of the migration is served by the new node.
    while migration.move_keys(10) > 0 {}
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { call(&limiter, "alice", "new").await }
    });
    sleep(Duration::from_millis(50)).await;
    migration.finish();
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
    assert_eq!(call(&limiter, "alice", "old").await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_are_never_mixed_up_while_slots_move() {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let limiter = limiter(&cluster).await;
    let done = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for caller in 0..32 {
        let (limiter, done) = (limiter.clone(), done.clone());
        callers.spawn(async move {
            // Half of the callers use the moving slot, the others use any slot.
            let tenant = match caller % 2 {
                0 => "alice".to_owned(),
                _ => format!("tenant-{caller}"),
            };
            let rest = caller.to_string();
            let (mut counted, mut refused) = (0_u64, 0_u64);
            while !done.load(Ordering::Relaxed) {
                match call(&limiter, &tenant, &rest).await {
                    Ok(count) => {
                        counted += 1;
                        assert_eq!(count, counted, "of {tenant}:{rest}");
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                        refused += 1;
                    }
                }
                sleep(Duration::from_millis(1)).await;
            }
            (counted, refused)
        });
    }
    let slot = Cluster::slot_of("alice");
    for _ in 0..4 {
        // If a slot moves back at once, the nodes can disagree forever about its owner.
        sleep(Duration::from_millis(500)).await;
        tokio::task::block_in_place(|| {
            let old = cluster.master_of(slot).port();
            let mut nodes = cluster.nodes().iter();
            let new = nodes.find(|node| node.port() != old).unwrap();
            cluster.migrate_slot(slot, new);
        });
    }
    sleep(Duration::from_millis(500)).await;
    done.store(true, Ordering::Relaxed);
    let (mut counted, mut refused) = (0, 0);
    for (of_one, of_one_refused) in callers.join_all().await {
        counted += of_one;
        refused += of_one_refused;
    }
    let holds = refused * 10 < counted;
    assert!(holds, "{refused} refused, {counted} counted");
}

/// Connects with settings under which fred by itself would send a command three times.
async fn brought(cluster: &Cluster, deadline: Duration) -> RateLimiter<FredStore> {
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let mut builder = Builder::from_config(Config::from_url(&url).unwrap());
    builder.with_connection_config(|connection| connection.max_redirections = 0);
    let client = builder.set_policy(ReconnectPolicy::new_constant(0, 10));
    let client = client.build().unwrap();
    client.init().await.unwrap();
    assert_eq!(client.connection_config().max_command_attempts, 3);
    let options = Options::default().with_deadline(deadline);
    let store = FredStoreBuilder::from(options).over(client).unwrap();
    let limit = Limit::new("calls", FixedWindow::anchored(Quota::per_hour(1_000)));
    RateLimiter::new(store, limit).unwrap()
}

/// A master receives the call and hangs, and its replica takes over. fred closes the connection to
/// the old master, and by itself would send the waiting call to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_sent_is_not_sent_to_the_next_master() {
    let cluster = Cluster::start(Flavor::System);
    let limiter = Arc::new(brought(&cluster, Duration::from_secs(20)).await);
    assert!(limiter.check("key").await.unwrap().is_allowed());

    let master = cluster.master_of(Cluster::slot_of("key"));
    let replica = cluster.replica_of(master);
    let masters = [0, 8_000, 16_000].map(|slot| cluster.master_of(slot));
    let mut masters = masters.into_iter();
    let another = masters.find(|other| other.port() != master.port());
    let mut control = another.unwrap().connection();
    master.pause();
    let out = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.check("key").await.map(Decision::into_verdicts) }
    });
    sleep(Duration::from_millis(100)).await;
    let takeover = replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    assert_eq!(takeover.text(), Some("OK"));
    let begun = Instant::now();
    while !out.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(15), "the call waits");
        // fred reads the slots again after it has lost a connection.
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        control.command(&kill).unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    master.resume();
    let error = out.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
}
