//! Replays on servers print the same as in memory, and leave no keys behind.

use std::fmt::Write;
use std::process::{Child, Stdio};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tollgate_testkit::{Connection, Flavor, Server, shared};

use crate::program::{SAMPLE, Scratch, file, replay, run, stderr, stdout, tollgate, words};
use crate::replay::{COMPOSITES, LIMITS};

/// Returns a prefix that nobody else uses.
pub(crate) fn prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = Instant::now();
    format!("cli-{}-{count}-{:p}", std::process::id(), &since)
}

/// Returns the keys at `address` that begin with `prefix`.
pub(crate) fn keys(address: &str, prefix: &str) -> Vec<String> {
    let mut connection = Connection::open(address).unwrap();
    let found = connection.command(&["KEYS", &format!("{prefix}*")]);
    let found = found.unwrap();
    assert_eq!(found.error(), None);
    let text = |key: &tollgate_testkit::Reply| key.text().unwrap().to_owned();
    found.items().iter().map(text).collect()
}

fn agrees(store: &str, addresses: &[String], log: &str, limits: &[&str], options: &str) {
    let prefix = prefix();
    let options = format!("{options} --limit {}", limits.join(" --limit "));
    let expected = replay(log, &options);
    assert!(expected.status.success(), "{}", stderr(&expected));
    let found = replay(log, &format!("{options} --store {store} --prefix {prefix}"));
    assert!(found.status.success(), "{store}: {}", stderr(&found));
    assert_eq!(stdout(&found), stdout(&expected), "{options}");
    assert_eq!(stderr(&found), stderr(&expected));
    for address in addresses {
        assert_eq!(keys(address, &prefix), [""; 0], "{options}");
    }
}

#[test]
fn every_algorithm_decides_on_a_server_as_in_memory() {
    let server = shared::standalone(Flavor::System);
    let address = [server.address()];
    for scheme in ["redis", "fred"] {
        let store = format!("{scheme}://{}", server.address());
        for limits in LIMITS.iter().map(slice::from_ref).chain(COMPOSITES) {
            agrees(&store, &address, SAMPLE, limits, "--json");
        }
        for options in ["--top 100000", "--key user", "--key ip+path"] {
            agrees(&store, &address, SAMPLE, COMPOSITES[0], options);
        }
    }
}

#[test]
fn a_cluster_decides_as_memory_does() {
    let cluster = shared::cluster(Flavor::System);
    for scheme in ["redis-cluster", "fred-cluster"] {
        let store = format!("{scheme}://{}", cluster.addresses().join(","));
        for limits in COMPOSITES {
            agrees(&store, cluster.addresses(), SAMPLE, limits, "--json");
        }
    }
}

#[test]
fn concurrent_replays_and_live_limits_share_no_keys() {
    let server = shared::standalone(Flavor::System);
    let (store, prefix) = (server.url(), prefix());
    let server_options = format!("--store {store} --prefix {prefix}");
    let live = "check --key alice --limit limit-1=gcra:5/1d";
    let check = run(&format!("{live} {server_options}"));
    assert!(check.status.success(), "{}", stderr(&check));
    let before = keys(&server.address(), &prefix);
    assert_eq!(before.len(), 1);

    let children: Vec<Child> = (0..4)
        .map(|_| {
            tollgate()
                .args(["replay", SAMPLE, "--limit", "gcra:5/1d", "--json"])
                .args(words(&server_options))
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let expected = stdout(&replay(SAMPLE, "--limit gcra:5/1d --json"));
    for child in children {
        assert_eq!(stdout(&child.wait_with_output().unwrap()), expected);
    }
    assert_eq!(keys(&server.address(), &prefix), before);
    server.command(&["DEL", &before[0]]);
}

/// Returns a log of requests with `keys` keys, which takes a server a while.
fn long_log(requests: usize, keys: usize) -> Scratch {
    let mut log = String::new();
    for n in 0..requests {
        let (time, key) = (1_431_857_103 + n, n % keys);
        let key = format!("10.0.{}.{}", key >> 8, key & 255);
        writeln!(log, r#"{{"time":{time},"ip":"{key}"}}"#).unwrap();
    }
    file("long.json", log)
}

pub(crate) fn size(server: &Server) -> i64 {
    server.command(&["DBSIZE"]).integer().unwrap()
}

/// Starts a long replay on `server`, and waits until it has written something there.
pub(crate) fn begun(server: &Server, scheme: &str) -> Child {
    let log = long_log(50_000, 1_000);
    let mut child = tollgate()
        .args(["replay", &log, "--limit", "gcra:5/1d", "--json", "--store"])
        .arg(format!("{scheme}://{}", server.address()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while size(server) < 100 {
        assert!(Instant::now() < deadline, "nothing is written");
        assert_eq!(child.try_wait().unwrap(), None);
        sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn a_failed_replay_leaves_no_keys() {
    let options = ["--maxmemory", "2mb", "--maxmemory-policy", "noeviction"];
    let server = Server::options(Flavor::System).args(options).start();
    let log = long_log(10_000, 10_000);
    for scheme in ["redis", "fred"] {
        let store = format!("{scheme}://{}", server.address());
        let output = replay(&log, &format!("--limit gcra:5/1d --store {store}"));
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty());
        assert_eq!(text.lines().count(), 1, "{text}");
        let holds = text.contains("(full)") && text.contains("maxmemory");
        assert!(holds, "{text}");
        assert_eq!(size(&server), 0, "{scheme}");
    }
    // The replays did write before they failed.
    let stats = server.command(&["INFO", "commandstats"]);
    let text = stats.text().unwrap();
    assert!(text.contains("cmdstat_set:"), "{text}");
}

#[test]
fn a_replay_names_the_keys_left_on_a_lost_server() {
    for scheme in ["redis", "fred"] {
        let server = Server::start(Flavor::System);
        let child = begun(&server, scheme);
        server.kill();
        let output = child.wait_with_output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty());
        assert_eq!(text.lines().count(), 2, "{text}");
        let holds = text.contains("tollgate-replay-") && text.contains("left");
        assert!(holds, "{text}");
        assert!(text.contains("the store failed"), "{text}");
    }
}
