//! Calls with ids on a server: what is kept, for how long, and what a lost reply leads to.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{CallId, ErrorKind, Limit};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Engine, Options, WireStore};

use crate::engine::{
    Canned, LIMITS, Raw, START, changes, fresh, limit, now, remaining, stamp, store, store_on,
};

/// Returns a store that loses the replies to the first calls; if `unsent`, it says that they were
/// never sent.
fn losing(replies: u64, unsent: bool) -> WireStore<Raw> {
    let options = Options::new().with_prefix(&fresh("ids")).unwrap();
    let engine = Raw::to(Flavor::System);
    engine.lose(replies, unsent);
    WireStore::new(engine, options)
}

/// Requests with every kind of script: for one limit, for a few, for many, and for operations of
/// their own.
fn requests(limits: &[Limit]) -> Vec<Request<'_>> {
    let check = |limit| Check::new(limit, "alice", 1);
    let several = |count: usize| limits[..count].iter().map(check).collect::<Vec<_>>();
    let gcra = [check(&limits[0]), check(&limits[1])];
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(9),
    };
    vec![
        Request::consume(check(&limits[0])),
        Request::consume(check(&limits[6])),
        Request::new(Operation::Consume, several(4)),
        Request::new(Operation::Consume, several(8)),
        Request::new(Operation::TakeUpTo, several(3)),
        Request::new(within, gcra),
    ]
}

fn limits() -> Vec<Limit> {
    let named = LIMITS.iter().enumerate();
    named
        .map(|(index, text)| Limit::new(&format!("l{index}"), *limit(text).algorithm()).unwrap())
        .collect()
}

/// Returns what is left of each limit of `request`.
fn left<E: Engine>(store: &WireStore<E>, request: &Request<'_>) -> Vec<u64> {
    let peek = Request::new(Operation::Peek, request.checks());
    let peek = match request.caller_time() {
        Some(at) => peek.at(at),
        None => peek,
    };
    remaining(&now(store.execute(&peek)).unwrap())
}

#[test]
fn a_call_that_may_be_repeated_is_sent_once_more_and_counted_once() {
    let (limits, at) = (limits(), stamp(START));
    let id = CallId::new("one").repeated();
    for request in requests(&limits) {
        let request = request.at(at);
        let what = format!("{request:?}");
        let plain = losing(0, false);
        let _ = now(plain.execute(&request)).unwrap();
        for (replies, unsent, sent, kind) in [
            (0, false, 1, None),
            (1, false, 2, None),
            (2, false, 2, Some(ErrorKind::Unknown)),
            // What was not sent was not counted, so the caller is told.
            (1, true, 1, Some(ErrorKind::Unavailable)),
        ] {
            let store = losing(replies, unsent);
            let told = now(store.execute(&request.clone().id(id)));
            let found = told.as_ref().err().map(|error| error.kind());
            assert_eq!(found, kind, "{what}");
            assert_eq!(store.engine().ran(), sent, "{what}");
            assert_eq!(left(&store, &request), left(&plain, &request), "{what}");
        }
    }
}

#[test]
fn an_answer_lives_as_long_as_the_call_says_and_does_not_show_the_id() {
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let gcra = limit("gcra:10/1s");
        let check = Check::new(&gcra, "alice", 1);
        for (kept, millis) in [
            (Duration::from_secs(100), 100_000),
            (Duration::from_nanos(50_000_000_001), 50_001),
            (Duration::MAX, 9_007_199_254_740),
        ] {
            let name = format!("request-{millis}");
            let id = CallId::new(&name).kept(kept);
            let _ = now(store.execute(&Request::consume(check).id(id))).unwrap();
            let keys = store.engine().keys(store.options()).into_iter();
            let is_answer = |key: &Vec<u8>| key.windows(8).any(|part| part == b":answer:");
            let lives: Vec<_> = keys
                .filter(is_answer)
                .map(|key| {
                    let text = String::from_utf8(key.clone()).unwrap();
                    assert!(text.contains(":l:answer:v1:{alice}:"), "{text}");
                    assert!(!text.contains("request"), "{text}");
                    store.engine().pttl(&key)
                })
                .collect();
            let is_it = |lives: &i64| (millis - 2_000..=millis).contains(lives);
            let found = lives.iter().filter(|lives| is_it(lives)).count();
            assert_eq!(found, 1, "{lives:?}");
        }
    }
}

/// They count in different states.
#[test]
fn an_id_at_a_callers_instant_is_another_one_than_at_the_servers_clock() {
    let store = store(Flavor::System);
    let gcra = limit("gcra:10/1h");
    let request = Request::consume(Check::new(&gcra, "alice", 1)).id("one");
    let instant = stamp(START);
    for _ in 0..2 {
        for request in [request.clone(), request.clone().at(instant)] {
            assert_eq!(now(store.execute(&request)).unwrap().remaining(), 9);
        }
    }
}

#[test]
fn a_server_without_memory_refuses_calls_with_ids_and_keeps_nothing() {
    let server = Server::start(Flavor::System);
    let store = store_on(&server);
    let limits = limits();
    for request in requests(&limits) {
        server.command(&["FLUSHALL"]);
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
        let known: Verdicts = now(store.execute(&request.clone().id("known"))).unwrap();
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let before = changes(&server);
        let error = now(store.execute(&request.clone().id("new"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{request:?}: {error}");
        // A call that is known is answered all the same.
        let again = now(store.execute(&request.clone().id("known"))).unwrap();
        assert_eq!(again, known, "{request:?}");
        assert_eq!(changes(&server), before, "{request:?}");
    }
}

#[test]
fn foreign_answers_are_errors() {
    let store = store(Flavor::System);
    let gcra = limit("gcra:10/1d");
    let call = Request::consume(Check::new(&gcra, "alice", 1)).id("one");
    let first = now(store.execute(&call)).unwrap();
    let mut keys = store.engine().keys(store.options()).into_iter();
    let is_answer = |key: &Vec<u8>| key.windows(8).any(|part| part == b":answer:");
    let key = keys.find(is_answer).unwrap();
    let Reply::Bulk(kept) = store.engine().command(&[b"GET", &key]) else {
        panic!("no answer");
    };
    let mut other = kept.clone();
    other[0] ^= 1;
    for (value, kind) in [
        (&kept[..0], ErrorKind::Protocol),
        (&kept[..7], ErrorKind::Protocol),
        (&kept[..8], ErrorKind::Protocol),
        (&kept[..kept.len() - 1], ErrorKind::Protocol),
        (&other[..], ErrorKind::Malformed),
    ] {
        store.engine().command(&[b"SET", &key, value]);
        let error = now(store.execute(&call)).unwrap_err();
        assert_eq!(error.kind(), kind, "{value:?}: {error}");
    }
    store.engine().command(&[b"SET", &key, &kept]);
    assert_eq!(now(store.execute(&call)).unwrap(), first);
    store.engine().command(&[b"DEL", &key]);
    store.engine().command(&[b"RPUSH", &key, b"x"]);
    let error = now(store.execute(&call)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(!error.to_string().contains("alice"), "{error}");
}

/// The hash of a call, which differs between a call and another one, is part of what a server
/// keeps: releases side by side must agree on it.
#[test]
fn arguments_of_calls_with_ids_have_not_changed() {
    let gcra = limit("gcra:10/1s");
    let store = Canned::store(&[]);
    let check = Check::new(&gcra, "alice", 1);
    let asked = |request: &Request<'_>| {
        now(store.execute(request)).unwrap_err();
        store.engine().asked()
    };
    let plain = asked(&Request::consume(check));
    let with_id = asked(&Request::consume(check).id("one"));
    let (arguments, rest) = with_id.argument.split_at(plain.argument.len());
    assert_eq!(arguments, plain.argument);
    let (call, kept) = rest.split_at(8);
    assert_eq!(f64::from_le_bytes(kept.try_into().unwrap()), 600_000.0);
    assert_eq!(with_id.keys[..1], plain.keys);
    // Neither the instant nor the id is part of the hash; the cost, the key and the quota are.
    let at = stamp(START);
    let hash =
        |request: &Request<'_>| asked(request).argument[plain.argument.len()..][..8].to_vec();
    assert_eq!(hash(&Request::consume(check).id("two")), call);
    let at_instants = hash(&Request::consume(check).id("one").at(at));
    let later = at.saturating_add(Duration::from_secs(1));
    let found = hash(&Request::consume(check).id("one").at(later));
    assert_eq!(found, at_instants);
    let other = limit("gcra:11/1s");
    for check in [
        Check::new(&gcra, "alice", 2),
        Check::new(&gcra, "bob", 1),
        Check::new(&other, "alice", 1),
    ] {
        assert_ne!(hash(&Request::consume(check).id("one")), call);
    }
    assert_eq!(call, 0x11de_403b_7966_9e60_u64.to_be_bytes());
    // The key of the answer ends in half of a SHA-256, which does not show the id.
    let [_, answer] = &with_id.keys[..] else {
        panic!("{:?}", with_id.keys);
    };
    let answer = String::from_utf8(answer.clone()).unwrap();
    let expected = "tollgate:l:answer:v1:{alice}:7692c3ad3540bb803c020b3aee66cd88";
    assert_eq!(answer, expected);
    assert_eq!(with_id.sha1, "af74e512b9cf6922f0711ba993c0e205146a2a59");
}

#[test]
fn with_hashed_keys_an_answer_has_a_keyed_hash_of_the_id() {
    let gcra = limit("gcra:10/1s");
    let answer = |secret, id| {
        let options = Options::new().with_hashed_keys([secret; 16]);
        let store = Canned::store_with(options, &[]);
        let check = Check::new(&gcra, "alice", 1);
        now(store.execute(&Request::consume(check).id(id))).unwrap_err();
        let text = String::from_utf8(store.engine().asked().keys[1].clone()).unwrap();
        text.rsplit_once(':').unwrap().1.to_owned()
    };
    let hash = answer(7, "one");
    assert_eq!((hash.len(), &hash), (32, &answer(7, "one")));
    assert_ne!(hash, answer(7, "two"));
    assert_ne!(hash, answer(8, "one"));
}
