//! Batches on servers: what they cost, and what one call's trouble means for the others.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Limit, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use super::tasks::{Spawning, together};
use crate::engine::{LIMITS, Raw, limit, now};
use crate::lifetime::{lives, server_time};

fn store_on(server: &Server) -> WireStore<Spawning<Raw>> {
    let raw = Raw::over(server.connection(), None);
    WireStore::new(Spawning(raw), Options::new().with_batches_only())
}

#[test]
fn a_state_that_calls_share_is_read_once_and_written_once_more_at_most() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        let (gcra, window) = (
            limit("gcra:1000/1d"),
            "w=fixed-window:500/1000d".parse::<Limit>().unwrap(),
        );
        let of = |cost| Request::consume(Check::new(&gcra, "alice", cost));
        let both = |key| {
            Request::new(
                Operation::Consume,
                [Check::new(&gcra, key, 1), Check::new(&window, "all", 1)],
            )
        };
        // Loads the script, too.
        let everything = [of(1), both("bob"), of(1)];
        for result in together(&store, &everything) {
            assert!(result.unwrap().is_allowed());
        }
        let counted = |name| server.calls(name);
        let all = || ["evalsha", "mget", "get", "set", "time"].map(counted);
        let before = all();
        let requests: Vec<_> = (0..20)
            .flat_map(|at| [of(1 + at % 3), both("alice"), both("bob"), of(1)])
            .collect();
        assert_eq!(together(&store, &requests).len(), 80);
        let mut ran = all();
        for (after, before) in ran.iter_mut().zip(before) {
            *after -= before;
        }
        // 80 calls in two scripts of up to 64 limits, with three keys, all of which exist.
        let [scripts, reads, gets, sets, times] = ran;
        assert!((2..=3).contains(&scripts), "{ran:?}");
        assert_eq!((reads, gets, times), (scripts, 0, scripts), "{ran:?}");
        assert!(sets <= 4 * scripts, "{ran:?}");
    }
}

/// Returns a store whose user may run these commands, besides those that no batch can do without.
fn store_of_user(server: &Server, commands: &str, options: Options) -> WireStore<Spawning<Raw>> {
    let always = "+evalsha +script|load +time +get +set +lindex +llen +lrange +lset +ltrim +rpush";
    let all = always.split_whitespace().chain(commands.split_whitespace());
    let raw = Raw::over(server.connection(), None);
    raw.log_in_as_user("*", &all.collect::<Vec<_>>());
    WireStore::new(Spawning(raw), options.with_batches_only())
}

/// With `MGET`, a batch reads all strings in one command, and with `MSET`, it writes them in one;
/// without them, it reads and writes each by itself.
#[test]
fn a_user_who_may_run_fewer_commands_gets_the_same_answers() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let limits = [limit("gcra:2/1h"), limit("sliding-log:2/1h")];
        let requests: Vec<_> = ["a", "b", "a", "b", "a"]
            .into_iter()
            .flat_map(|key| limits.each_ref().map(|limit| Check::new(limit, key, 1)))
            .map(Request::consume)
            .collect();
        let mut answers = Vec::new();
        for commands in ["+pexpire +mget +mset +pexpireat", "+pexpire"] {
            let store = store_of_user(&server, commands, Options::new());
            let mut remaining = Vec::new();
            for _ in 0..2 {
                let results = together(&store, &requests);
                let verdicts = results.into_iter().map(|result| result.unwrap());
                remaining.extend(verdicts.map(|of| (of.is_allowed(), of.remaining())));
            }
            answers.push(remaining);
            server.command(&["FLUSHALL"]);
        }
        assert_eq!(answers[0], answers[1]);
        let allowed = answers[0].iter().filter(|(is_allowed, _)| *is_allowed);
        assert_eq!(allowed.count(), 8);
    }
}

/// Whichever commands write the states of a batch, each lives as long as it counts.
#[test]
fn each_state_of_a_batch_has_a_ttl_of_its_own() {
    const SLACK: u64 = 100_000;
    const ALL: &str = "+mset +pexpire +pexpireat";
    let keys = ["a", "b", "c", "d", "e"];
    let [gcra, log] = ["gcra:10/10s", "sliding-log:10/10s"].map(limit);
    for flavor in Flavor::chosen() {
        for (limit, commands) in [
            (&gcra, ALL),
            (&gcra, "+mset +pexpire"),
            (&gcra, "+mset +pexpireat"),
            (&gcra, "+pexpire +pexpireat"),
            (&gcra, ""),
            (&log, "+pexpire"),
        ] {
            for (is_caller, is_shared) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let server = Server::start(flavor);
                let has_all = commands == ALL;
                let slack = Duration::from_millis(SLACK);
                let options = Options::new().with_caller_slack(slack);
                let store = store_of_user(&server, commands, options);
                let raw = Raw::over(server.connection(), None);
                let at = Timestamp::from_micros(server_time(&raw)).unwrap();
                let of = |key, cost| {
                    let request = Request::consume(Check::new(limit, key, cost));
                    if is_caller { request.at(at) } else { request }
                };
                let costs = keys.into_iter().zip(1..);
                let mut requests: Vec<_> = costs.clone().map(|(key, cost)| of(key, cost)).collect();
                if is_shared {
                    requests.extend(costs.map(|(key, cost)| of(key, cost + 1)));
                }
                let before = server_time(&raw) / 1_000;
                let mut verdicts = together(&store, &requests).into_iter().rev().take(5);
                let after = server_time(&raw) / 1_000;
                for key in keys.iter().rev() {
                    let verdicts = verdicts.next().unwrap().unwrap();
                    let reset = verdicts.reset_after().as_micros().unwrap();
                    let lives = lives(limit.algorithm(), reset);
                    let lives = lives + if is_caller { SLACK } else { 0 };
                    let names = raw.keys(store.options());
                    let name = names
                        .iter()
                        .find(|name| name.ends_with(format!("{{{key}}}").as_bytes()));
                    let began = raw.look(name.unwrap()).ends - lives;
                    assert!(
                        (before..=after + u64::from(!is_caller)).contains(&began),
                        "{flavor:?}, {commands}, {key}: {began} is not within {before}..={after}"
                    );
                    // By the server's clock, the end is that of the decision, rounded up.
                    let decided = verdicts.as_slice()[0].decided_at().as_micros();
                    if has_all && !is_caller && (is_shared || *key != "a") {
                        assert_eq!(began, decided.div_ceil(1_000), "{flavor:?}, {key}");
                    }
                }
                if has_all {
                    // The first write is a `SET`, since it tells whether the server takes writes.
                    let later = if is_shared { 5 } else { 4 };
                    let expires = if is_caller { [later, 0] } else { [0, later] };
                    let names = ["set", "mset", "pexpire", "pexpireat"];
                    let ran = names.map(|name| server.calls(name));
                    assert_eq!(ran, [1, 1, expires[0], expires[1]], "{flavor:?}");
                }
            }
        }
    }
}

#[test]
fn equal_calls_cost_the_server_what_one_costs() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let gcra = limit("gcra:700/1h");
    let requests = vec![Request::consume(Check::new(&gcra, "alice", 1)); 1_000];
    together(&store, &requests[..1]);
    let before = [server.calls("get"), server.calls("set")];
    let results = together(&store, &requests);
    let allowed = results
        .iter()
        .filter(|result| result.as_ref().unwrap().is_allowed());
    assert_eq!(allowed.count(), 699);
    let after = [server.calls("get"), server.calls("set")];
    assert_eq!(after, before.map(|before| before + 1));
}

#[test]
fn keys_that_exist_are_read_together_and_others_one_by_one() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let gcra = limit("gcra:1000/1d");
    let of = |key| Request::consume(Check::new(&gcra, key, 1));
    let peek = |key| Request::peek(Check::new(&gcra, key, 1));
    together(&store, &[of("a"), of("b"), of("c")]);
    let reads = |requests: &[Request<'_>]| {
        let counted = || ["mget", "get"].map(|name| server.calls(name));
        let before = counted();
        together(&store, requests);
        let after = counted();
        [after[0] - before[0], after[1] - before[1]]
    };
    assert_eq!(reads(&[of("a"), of("b"), of("c")]), [1, 0]);
    assert_eq!(reads(&[of("a"), of("x")]), [1, 1]);
    // A key without a value is read by itself once.
    let found = reads(&[peek("y"), of("a"), peek("y"), of("a"), peek("y")]);
    assert_eq!(found, [1, 1]);
}

/// A value that no limit writes may have a TTL that no server takes, or one that is no number.
#[test]
fn a_foreign_state_fails_its_own_callers_only_even_if_others_share_a_key() {
    for flavor in Flavor::chosen() {
        for (debt, at) in [(1e9, 1e290), (0.0, f64::NAN)] {
            for shares in [true, false] {
                let server = Server::start(flavor);
                let store = store_on(&server);
                let raw = &store.engine().0;
                let gcra = limit("gcra:100/1d");
                let of = |key, cost| Request::consume(Check::new(&gcra, key, cost));
                together(&store, &[of("bob", 1)]);
                let key = raw.keys(store.options()).remove(0);
                // The states of this limit count in units of this size.
                let unit = 864_000_000.0;
                let state = [debt, at, unit].map(f64::to_le_bytes).concat();
                raw.command(&[b"SET", &key, &state]);
                let again = if shares { "alice" } else { "dave" };
                let requests = [of("alice", 1), of("bob", 1), of(again, 2), of("carol", 1)];
                let results = together(&store, &requests);
                let left = results.iter().map(|result| match result {
                    Ok(verdicts) => Some(verdicts.remaining()),
                    Err(_) => None,
                });
                assert_eq!(
                    left.collect::<Vec<_>>(),
                    [Some(99), None, Some(if shares { 97 } else { 98 }), Some(99)],
                    "{flavor:?}, {debt} at {at}"
                );
                assert_eq!(raw.command(&[b"GET", &key]), Reply::Bulk(state));
            }
        }
    }
}

#[test]
fn a_key_of_a_wrong_type_fails_its_own_callers_only() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        let other: Limit = "other=gcra:1000/1h".parse().unwrap();
        for text in LIMITS {
            let limit = limit(text);
            let of = |key| Request::consume(Check::new(&limit, key, 1));
            let both = [
                Check::new(&limit, "alice", 1),
                Check::new(&other, "dave", 1),
            ];
            let both = Request::new(Operation::Consume, both);
            let requests = [of("bob"), both, of("carol"), of("alice"), of("bob")];
            assert!(together(&store, &requests[..1])[0].is_ok());
            let raw = &store.engine().0;
            let [key] = &*raw.keys(store.options()) else {
                panic!("one key");
            };
            let text = String::from_utf8(key.clone());
            let text = text.unwrap().replace("bob", "alice");
            let _ = raw.command(&[b"SADD", text.as_bytes(), b"member"]);
            let results = together(&store, &requests);
            for (request, result) in requests.iter().zip(results) {
                match &*request.checks()[0].key().partition() {
                    b"alice" => {
                        let error = result.unwrap_err();
                        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
                        let shown = error.to_string();
                        assert!(shown.contains("(ERR Error running script: "), "{shown}");
                    }
                    _ => assert!(result.is_ok(), "{limit} {result:?}"),
                }
            }
            // The keys of later calls are theirs.
            let peek = Request::peek(Check::new(&other, "dave", 1));
            let left = together(&store, &[peek]).remove(0).unwrap();
            assert_eq!(left.remaining(), 1_000, "{limit}");
            let _ = raw.command(&[b"FLUSHALL"]);
        }
    }
}

#[test]
fn what_follows_a_call_with_an_id_that_fails_is_decided_on_its_own_keys() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let (gcra, other) = (limit("gcra:10/1h"), "other=gcra:10/1h".parse().unwrap());
    let of = |limit, key| Request::consume(Check::new(limit, key, 1));
    together(&store, &[of(&gcra, "alice")]);
    let raw = &store.engine().0;
    let key = raw.keys(store.options()).remove(0);
    raw.command(&[b"SET", &key, b"no state"]);
    let requests = [
        of(&gcra, "alice").id("a"),
        of(&gcra, "bob").id("b"),
        of(&other, "carol"),
    ];
    let results = together(&store, &requests);
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(results[1..].iter().all(Result::is_ok), "{results:?}");
    for (limit, key) in [(&gcra, "bob"), (&other, "carol")] {
        let peek = Request::peek(Check::new(limit, key, 1));
        let left = together(&store, &[peek]).remove(0).unwrap();
        assert_eq!(left.remaining(), 9, "{key}");
    }
}

/// Then the client has to see it, to look for the primary.
#[test]
fn a_replica_refuses_the_whole_batch_as_it_refuses_a_call() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let batches = store_on(&server);
        let alone = WireStore::new(Raw::over(server.connection(), None), Options::new());
        let gcra = limit("gcra:10/1h");
        let of = |key| Request::consume(Check::new(&gcra, key, 1));
        // The scripts are loaded while it is a primary.
        assert!(now(alone.execute(&of("alice"))).is_ok());
        assert!(together(&batches, &[of("alice"), of("bob")])[1].is_ok());
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let refused = now(alone.execute(&of("alice"))).unwrap_err();
        // Redis 6.2 puts the script's name before it.
        assert!(refused.to_string().contains("READONLY"), "{refused}");
        for result in together(&batches, &[of("alice"), of("bob")]) {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), refused.kind(), "{error:?}");
            // The error of the script itself, not one that it replies about a call.
            assert!(error.to_string().contains("(READONLY"), "{error}");
        }
    }
}

#[test]
fn without_memory_calls_that_write_are_full_and_denials_are_still_denials() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        for text in LIMITS {
            let limit = limit(text);
            let of = |key, cost| Request::consume(Check::new(&limit, key, cost));
            let all = limit.algorithm().capacity();
            let peek = Request::peek(Check::new(&limit, "new", 1));
            let used_up = of("old", all);
            assert!(
                together(&store, &[used_up])[0]
                    .as_ref()
                    .unwrap()
                    .is_allowed()
            );
            let requests = [
                of("new", all),
                of("old", 1),
                peek,
                of("new", 1),
                of("newer", 1),
                of("old", 1),
            ];
            // Both scripts are known.
            let _ = together(&store, &[of("other", 1)]);
            server.command(&["CONFIG", "SET", "maxmemory", "1"]);
            let results = together(&store, &requests);
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            let counts = limit.algorithm().counts_denied();
            for (at, result) in results.into_iter().enumerate() {
                match (at, result) {
                    (0 | 3 | 4, Err(error)) => assert_eq!(error.kind(), ErrorKind::Full, "{text}"),
                    // A denied call that counts is written, too.
                    (1 | 5, Err(error)) if counts => assert_eq!(error.kind(), ErrorKind::Full),
                    (1 | 5, Ok(verdicts)) => assert!(verdicts.is_denied(), "{text} {at}"),
                    (2, Ok(verdicts)) => assert!(verdicts.is_allowed(), "{text}"),
                    (at, result) => panic!("{text}: {at} {result:?}"),
                }
            }
            // Nothing was counted.
            let left = &together(&store, &[Request::peek(Check::new(&limit, "new", 1))])[0];
            assert_eq!(left.as_ref().unwrap().remaining(), all, "{text}");
            server.command(&["FLUSHALL"]);
        }
    }
}
