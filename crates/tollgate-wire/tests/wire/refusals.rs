//! What servers refuse, and what callers are told.

use std::thread;
use std::time::{Duration, Instant};

use tollgate_core::ErrorKind::{self, Full, Misconfigured, Unavailable};
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Limit, StoreError};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::WireStore;

use crate::engine::{LIMITS, Raw, consume, fresh, limit, now, store, store_on};

fn refused(store: &WireStore<Raw>, limit: &Limit) -> StoreError {
    consume(store, limit, &fresh("k"), 1).unwrap_err()
}

/// Fails unless `error` is of `kind`, says `advice`, and repeats what the server said.
fn says(error: &StoreError, kind: ErrorKind, advice: &str, said: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(advice) && text.contains(said), "{text}");
    assert!(std::error::Error::source(error).is_some(), "{text}");
}

#[test]
fn a_key_with_another_programs_value_is_an_error() {
    for flavor in Flavor::chosen() {
        for written in LIMITS {
            let (store, limit) = (store(flavor), limit(written));
            let _ = consume(&store, &limit, "k", 1).unwrap();
            let raw = store.engine();
            let key = raw.keys(store.options()).remove(0);
            let is_list = limit.identity().contains("log");
            let lengths = [1, 2, 8, 12, 13, 16, 17, 24, 32, 40, 48, 56, 64, 72, 400];
            let bytes = [b'a', b'9', 0x40, 0x7f, 0xff];
            let garbage = lengths.map(|length| bytes.map(|byte| vec![byte; length]));
            for garbage in garbage.as_flattened() {
                raw.command(&[b"DEL", &key]);
                let write = if is_list { b"RPUSH" } else { &b"SET"[..] };
                raw.command(&[write, &key, garbage]);
                let Err(error) = consume(&store, &limit, "k", 1) else {
                    continue;
                };
                let (length, byte) = (garbage.len(), garbage[0]);
                assert_eq!(
                    error.kind(),
                    Misconfigured,
                    "{written} on {flavor}, {length} bytes of {byte}: {error}"
                );
                assert!(error.to_string().contains("delete the key"), "{error}");
            }
        }
    }
}

/// What is longer than a state is refused before anything is written.
#[test]
fn a_state_of_another_length_is_not_overwritten() {
    for (written, command, value) in [
        ("sliding-buckets:10/1s,buckets=4", "SET", &[0; 64][..]),
        ("sliding-log:10/1s", "RPUSH", &[0; 13][..]),
    ] {
        let (store, limit) = (store(Flavor::System), limit(written));
        let _ = consume(&store, &limit, "k", 1).unwrap();
        let raw = store.engine();
        let key = raw.keys(store.options()).remove(0);
        raw.command(&[b"DEL", &key]);
        raw.command(&[command.as_bytes(), &key, value]);
        let before = raw.command(&[b"DUMP", &key]);
        let error = consume(&store, &limit, "k", 1).unwrap_err();
        let said = "delete the key";
        says(&error, Misconfigured, said, "too short");
        assert_eq!(raw.command(&[b"DUMP", &key]), before, "{written}");
    }
}

#[test]
fn refusals_of_a_server_say_what_to_do() {
    const REPLICA: &[&str] = &["REPLICAOF", "127.0.0.1", "1"];
    let stale: &[&str] = &["CONFIG", "SET", "replica-serve-stale-data", "no"];
    let few: &[&str] = &["CONFIG", "SET", "min-replicas-to-write", "1"];
    let locked: &[&str] = &["CONFIG", "SET", "requirepass", "secret"];
    for (commands, kind, advice, said) in [
        (&[REPLICA][..], Unavailable, "primary", "READONLY"),
        (&[REPLICA, stale], Unavailable, "primary", "MASTERDOWN"),
        (&[few], Unavailable, "replicas", "NOREPLICAS"),
        (&[locked], Misconfigured, "password", "NOAUTH"),
    ] {
        for flavor in Flavor::chosen() {
            let server = Server::start(flavor);
            for command in commands {
                server.command(command);
            }
            let (store, limit) = (store_on(&server), limit("gcra:1/1h"));
            says(&refused(&store, &limit), kind, advice, said);
        }
    }
}

#[test]
fn a_busy_server_is_an_error() {
    for flavor in Flavor::chosen() {
        let server = Server::options(flavor);
        let server = server.args(["--lua-time-limit", "20"]).start();
        let (store, limit) = (store_on(&server), limit("gcra:1/1h"));
        // Loaded before, or the loading would be refused.
        let _ = consume(&store, &limit, "k", 1).unwrap();
        let mut culprit = server.connection();
        culprit.send(&["EVAL", "while true do end", "0"]).unwrap();
        thread::sleep(Duration::from_millis(100));
        let error = refused(&store, &limit);
        says(&error, Unavailable, "SLOWLOG", "BUSY");
        server.command(&["SCRIPT", "KILL"]);
        let until = Instant::now() + Duration::from_secs(5);
        while consume(&store, &limit, "again", 1).is_err() {
            assert!(Instant::now() < until, "it stays busy");
        }
    }
}

#[test]
fn an_incomplete_cluster_and_keys_of_two_slots_are_errors() {
    for flavor in Flavor::chosen() {
        let server = Server::options(flavor);
        let server = server.args(["--cluster-enabled", "yes"]).start();
        let (store, limit) = (store_on(&server), limit("gcra:1/1h"));
        let error = refused(&store, &limit);
        says(&error, Unavailable, "recovered", "CLUSTERDOWN");
        for slots in (0..16_384).collect::<Vec<u32>>().chunks(2_048) {
            let mut words = vec!["CLUSTER".to_owned(), "ADDSLOTS".to_owned()];
            words.extend(slots.iter().map(u32::to_string));
            server.command(&words);
        }
        let until = Instant::now() + Duration::from_secs(10);
        while consume(&store, &limit, &fresh("k"), 1).is_err() {
            assert!(Instant::now() < until, "the cluster does not become whole");
            thread::sleep(Duration::from_millis(50));
        }
        // A client that does not know that this is a cluster sends what a cluster refuses.
        let apart =
            Request::consume(Check::new(&limit, "alice", 1)).and(Check::new(&limit, "bob", 1));
        let error = now(store.execute(&apart)).unwrap_err();
        says(&error, Misconfigured, "partition", "CROSSSLOT");
    }
}

/// However many new keys ask, the server's memory stays within `maxmemory` and 64 KiB: what it holds
/// for its clients, and the last key, whose size it does not know beforehand.
#[test]
fn new_keys_stay_within_maxmemory() {
    const ROOM: u64 = 64 << 10;
    const SLACK: u64 = 64 << 10;
    const CALLS: u64 = 2_000;
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        // Five or more limits run another script.
        for texts in [&LIMITS[..1], &LIMITS[5..6], &LIMITS[6..7], &LIMITS[1..6]] {
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            server.command(&["FLUSHALL", "SYNC"]);
            // So that no key expires before the memory is full.
            let texts: Vec<_> = texts
                .iter()
                .map(|text| text.replace("/1s", "/1h"))
                .collect();
            let limits: Vec<_> = texts.iter().map(|text| limit(text)).collect();
            let consume = |key: &str| {
                let keys: Vec<_> = (0..limits.len()).map(|at| format!("{key}-{at}")).collect();
                let checks = limits.iter().zip(&keys);
                let checks = checks.map(|(limit, key)| Check::new(limit, key, 1));
                now(store.execute(&Request::new(Operation::Consume, checks)))
            };
            // So that the script is there.
            assert!(consume("first").unwrap().is_allowed());
            let used = || {
                let used = server.info("memory", "used_memory").unwrap();
                used.parse::<u64>().unwrap()
            };
            let most = used() + ROOM;
            server.command(&["CONFIG", "SET", "maxmemory", &most.to_string()]);
            let errors = (0..CALLS).filter_map(|call| consume(&call.to_string()).err());
            let kinds: Vec<_> = errors.map(|error| error.kind()).collect();
            let used = used();
            let what = format!("{texts:?} on {flavor}: {used} bytes of {most}");
            assert!(!kinds.is_empty(), "{what}, never `Full`");
            assert!(kinds.iter().all(|kind| *kind == Full), "{what}");
            assert!(used <= most + SLACK, "{what}");
        }
    }
}
