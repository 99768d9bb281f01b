//! Clears states in bulk.

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tollgate_core::{Limit, RateLimiter, Timestamp};
use tollgate_testkit::{Cluster, Flavor, Migration, SentinelGroup, Server};
use tollgate_wire::Options;
use tollgate_wire::operate::{Clear, Cleared};

use crate::client::{Client, Connected};

/// One limit of each algorithm and of each kind of window.
const LIMITS: [(&str, &str); 7] = [
    ("aligned", "fixed-window:3/1m"),
    ("anchored", "fixed-window:3/1m,anchored"),
    ("bucket", "gcra:3/1m"),
    ("buckets", "sliding-buckets:3/1m,buckets=7"),
    ("counter", "sliding-counter:3/1m"),
    ("log", "sliding-log:3/1m"),
    ("refused", "sliding-log:3/1m,count-denied"),
];
const LITTLE: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);
/// More keys than one step clears or one scan returns.
const MANY: u64 = 4_000;
/// The prefix of the stores.
const PREFIX: &str = "shop";

/// Returns options with a prefix and a long deadline, for busy servers.
pub fn options() -> Options {
    let options = Options::new().with_deadline(Duration::from_secs(5));
    options.with_prefix(PREFIX).unwrap()
}

fn limits() -> Vec<Limit> {
    let limit = |(name, text): (&str, &str)| {
        let algorithm: tollgate_core::Algorithm = text.parse().unwrap();
        Limit::new(name, algorithm).unwrap()
    };
    LIMITS.map(limit).to_vec()
}

fn now() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap()
}

/// Returns all keys of the servers that `keep` accepts, with their dumped values.
pub fn snapshot(servers: &[Server], keep: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let mut held = BTreeMap::new();
    for server in servers {
        for key in server.keys() {
            if keep(&key) {
                let dump = format!("{:?}", server.command(&["DUMP", &key]));
                held.insert(key, dump.into_bytes());
            }
        }
    }
    held
}

/// Sets keys of other programs, of other prefixes and of another release, and returns their names.
fn foreign(servers: &[Server]) -> Vec<String> {
    let names = [
        "session:{alice}".to_owned(),
        PREFIX.to_owned(),
        format!("{PREFIX}:"),
        format!("{PREFIX}:notes"),
        format!("{PREFIX}:a:gcra"),
        format!("{PREFIX}:a:hits:v1:{{k}}"),
        format!("{PREFIX}:a:gcra:v1:k"),
        format!("{PREFIX}:eu:a:gcra:v1:{{k}}"),
        format!("{PREFIX}:gcra:gcra:gcra:v1:{{k}}"),
        format!("{PREFIX}2:a:gcra:v1:{{k}}"),
        format!("x{PREFIX}:a:gcra:v1:{{k}}"),
        format!("{PREFIX}:a:gcra:v999:{{k}}"),
    ];
    for name in &names {
        let set = servers
            .iter()
            .any(|server| server.command(&["SET", name, "theirs"]).error().is_none());
        assert!(set, "{name}");
    }
    names.to_vec()
}

/// Waits for the next minute in the last seconds of one: windows of a minute must not end, and their
/// keys not expire, during a test.
async fn begin_early_in_a_minute() {
    let minute = 60_000_000;
    let left = minute - now().as_micros() % minute;
    if left < 10_000_000 {
        tokio::time::sleep(Duration::from_micros(left)).await;
    }
}

/// Clears the states that are ahead of the clock, for every algorithm, then all others.
pub async fn clears_what_is_ahead(store: Connected, servers: &[Server]) {
    begin_early_in_a_minute().await;
    let theirs = foreign(servers);
    let is_theirs = |key: &str| theirs.iter().any(|theirs| theirs == key);
    let foreign = snapshot(servers, is_theirs);
    for limit in limits() {
        let limiter = RateLimiter::new(Arc::clone(&store), [limit]).unwrap();
        for key in ["alice", "bob", "carol"] {
            let _ = limiter.check(key).cost(3).await.unwrap();
            let _ = limiter.check(key).cost(3).at(now()).await.unwrap();
        }
        // Ahead by ten years, by an hour, and by as little as healthy clocks differ.
        for (key, by) in [("years", YEARS), ("hour", HOUR), ("little", LITTLE)] {
            let call = limiter.check(key).cost(3).at(now().saturating_add(by));
            assert!(call.await.unwrap().is_allowed());
        }
        let locked = limiter.check("years").at(now()).await.unwrap();
        let wait = locked.retry_after().duration().unwrap();
        assert!(locked.is_denied() && wait > YEARS - MINUTE, "{wait:?}");
    }
    let count = u64::try_from(LIMITS.len()).unwrap();
    let before = snapshot(servers, |_| true);

    for (by, found) in [
        (SECOND, 2 * count),
        // A window or bucket may have begun up to a minute before its latest call.
        (HOUR - MINUTE - MINUTE, 2 * count),
        (HOUR + MINUTE, count),
        (YEARS + MINUTE, 0),
    ] {
        let what = Clear::new().ahead_by(by).dry_run();
        let cleared = store.clear(&what, &mut |_| ()).await.unwrap();
        assert_eq!((cleared.found, cleared.cleared), (found, 0), "{by:?}");
        // The key of another release.
        assert_eq!(cleared.skipped, 1);
    }
    assert_eq!(snapshot(servers, |_| true), before, "a dry run");

    let one = Clear::new().with_limit("log").ahead_by(SECOND);
    let cleared = store.clear(&one, &mut |_| ()).await.unwrap();
    assert_eq!((cleared.found, cleared.cleared), (2, 2));
    let what = Clear::new().ahead_by(SECOND);
    let cleared = store.clear(&what, &mut |_| ()).await.unwrap();
    let left = 2 * count - 2;
    assert_eq!((cleared.found, cleared.cleared), (left, left));
    assert_eq!(cleared.servers, servers.len());
    let after = snapshot(servers, |_| true);
    assert_eq!(before.len() - after.len(), 2 * LIMITS.len());
    assert!(
        after
            .iter()
            .all(|(key, held)| before.get(key) == Some(held))
    );
    for limit in limits() {
        let limiter = RateLimiter::new(Arc::clone(&store), [limit]).unwrap();
        let healed = limiter.check("years").at(now()).await.unwrap();
        assert!(healed.is_allowed(), "{healed:?}");
    }

    let two = Clear::new().with_limit("log").with_limit("bucket");
    let cleared = store.clear(&two, &mut |_| ()).await.unwrap();
    // Three states by the server's clock, three by callers' clocks, the one ahead by 1 ms, and the
    // healed one.
    assert_eq!(cleared.cleared, 2 * 8);
    let mut last = Cleared::default();
    let mut progress = |so_far: &Cleared| {
        assert!(so_far.scanned >= last.scanned && so_far.cleared >= last.cleared);
        assert!(so_far.keys.is_some_and(|keys| so_far.scanned <= keys));
        last = *so_far;
    };
    let cleared = store.clear(&Clear::new(), &mut progress).await.unwrap();
    assert_eq!(last, cleared);
    assert_eq!(cleared.cleared, (count - 2) * 8);
    assert_eq!(cleared.keys, Some(cleared.scanned));
    assert_eq!(snapshot(servers, |_| true), foreign);
}

/// Returns the server that serves `key`.
fn owner<'a>(servers: &'a [Server], key: &str) -> &'a Server {
    let takes = |server: &&Server| server.command(&["EXISTS", key]).error().is_none();
    servers.iter().find(takes).unwrap()
}

/// Writes `count` states, and as many keys of another prefix, in bulk.
fn fill(servers: &[Server], count: u64) {
    for server in servers {
        let mut connection = server.connection();
        for number in 0..count {
            for key in [
                format!("{PREFIX}:bucket:gcra:v1:{{key-{number}}}"),
                format!("other:bucket:gcra:v1:{{key-{number}}}"),
            ] {
                connection.command(&["SET", &key, "theirs"]).unwrap();
            }
        }
    }
}

/// Clears thousands of keys in small steps, while other keys are written and deleted.
async fn clears_many_in_small_steps(store: Connected, servers: &[Server]) {
    fill(servers, MANY);
    let other = |key: &str| key.starts_with("other:");
    let others = snapshot(servers, other);
    assert_eq!(others.len(), usize::try_from(MANY).unwrap());
    let running = Arc::new(AtomicBool::new(true));
    let addresses: Vec<String> = servers.iter().map(Server::address).collect();
    let owners: Vec<usize> = (0..50)
        .map(|number| {
            let key = format!("{PREFIX}:bucket:gcra:v1:{{new-{number}}}");
            let owner = owner(servers, &key).port();
            servers.iter().position(|server| server.port() == owner)
        })
        .collect::<Option<_>>()
        .unwrap();
    let traffic = std::thread::spawn({
        let running = Arc::clone(&running);
        move || {
            let open = |address: &String| tollgate_testkit::Connection::open(address).unwrap();
            let mut connections: Vec<_> = addresses.iter().map(open).collect();
            let mut rounds = 0;
            while running.load(Ordering::Relaxed) {
                for (number, &owner) in owners.iter().enumerate() {
                    let key = format!("{PREFIX}:bucket:gcra:v1:{{new-{number}}}");
                    let connection = &mut connections[owner];
                    connection.command(&["SET", &key, "x", "PX", "1"]).unwrap();
                    connection.command(&["DEL", &key]).unwrap();
                }
                rounds += 1;
            }
            rounds
        }
    });
    let steps = &mut 0_u64;
    let cleared = store
        .clear(&Clear::new(), &mut |_| *steps += 1)
        .await
        .unwrap();
    running.store(false, Ordering::Relaxed);
    assert!(traffic.join().unwrap() > 0);
    assert!(cleared.cleared >= MANY, "{cleared:?}");
    assert_eq!(snapshot(servers, other), others);
    let left = snapshot(servers, |key| !other(key));
    assert!(left.keys().all(|key| key.contains("{new-")), "{left:?}");
    let calls = |command| {
        servers
            .iter()
            .map(|server| server.calls(command))
            .sum::<u64>()
    };
    // Many steps of few keys each, so that none blocks a server for long.
    assert!(calls("unlink") >= MANY / 25);
    assert!(calls("scan") >= 2 * MANY / 100 && *steps >= 2 * MANY / 100);
}

/// Returns a cluster of three masters.
pub fn cluster() -> Cluster {
    Cluster::masters_only(Flavor::System, 3)
}

/// Clears only states that are ahead of the clock, if that is asked for.
pub async fn only_states_ahead_are_cleared(client: &dyn Client) {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = client.server(&server.url(), options()).await.unwrap();
        clears_what_is_ahead(store, &[server]).await;
    }
}

/// The same, on all masters of a cluster.
pub async fn only_states_ahead_are_cleared_in_a_cluster(client: &dyn Client) {
    let cluster = cluster();
    let store = client.cluster(&cluster.urls(), options()).await.unwrap();
    clears_what_is_ahead(store, cluster.nodes()).await;
}

/// The same, on the primary that Sentinels name.
pub async fn only_states_ahead_are_cleared_behind_sentinels(client: &dyn Client) {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let store = client.sentinels(&urls, name, options()).await.unwrap();
    clears_what_is_ahead(store, slice::from_ref(group.primary())).await;
}

/// Many keys take many small steps, on a server and in a cluster.
pub async fn many_keys_are_cleared_in_small_steps(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let store = client.server(&server.url(), options()).await.unwrap();
    clears_many_in_small_steps(store, &[server]).await;
    let cluster = cluster();
    let store = client.cluster(&cluster.urls(), options()).await.unwrap();
    clears_many_in_small_steps(store, cluster.nodes()).await;
}

/// Stores 20 states of one slot, and moves seven of them to another node.
pub fn begin_migration(cluster: &Cluster) -> Migration<'_> {
    let slot = Cluster::slot_of("moving");
    let from = cluster.master_of(slot);
    for number in 0..20 {
        let key = format!("{PREFIX}:bucket:gcra:v1:{{moving}}:{number}");
        assert_eq!(from.command(&["SET", &key, "x"]).error(), None);
    }
    let migration = cluster.begin_migration(slot, cluster.another(slot));
    assert_eq!(migration.move_keys(7), 7);
    migration
}
