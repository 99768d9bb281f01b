//! Decisions without scripts: which servers work, what is sent, and which keys remain.

use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Limit, Store};
use tollgate_redis::redis::aio::MultiplexedConnection;
use tollgate_redis::{PlainStore, RedisStoreBuilder, TimeSource};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::Options;

use crate::client::multiplexed as connect;

fn limit(text: &str) -> Limit {
    let algorithm: Algorithm = text.parse().unwrap();
    Limit::new("l", algorithm).unwrap()
}

async fn store(server: &Server) -> PlainStore<MultiplexedConnection> {
    let options = Options::new().with_deadline(Duration::from_secs(10));
    RedisStoreBuilder::from(options)
        .plain(connect(server.url()).await, &[])
        .unwrap()
}

#[tokio::test]
async fn unsupported_limits_are_refused_at_construction() {
    let server = Server::start(Flavor::System);
    let refused = [
        ("gcra:5/1s", "only fixed windows"),
        ("sliding-log:5/1s,count-denied", "only fixed windows"),
        ("fixed-window:5/9ms", "10 ms"),
        ("fixed-window:5/1500us,anchored", "whole milliseconds"),
        ("fixed-window:0/1s", "zero"),
        ("fixed-window:9007199254740990/1s", "exactly so many times"),
        (
            "fixed-window:4503599627370496/1s,count-denied",
            "after many denied calls",
        ),
    ];
    let served = [
        "fixed-window:5/1s",
        "fixed-window:5/1ms,anchored",
        "fixed-window:0/1s,count-denied",
        "fixed-window:4503599627370495/1s,count-denied",
    ];
    let all = refused.iter().map(|(text, _)| *text).chain(served);
    let limits: Vec<_> = all.map(limit).collect();
    let connection = connect(server.url()).await;
    let error = RedisStoreBuilder::from(Options::new())
        .plain(connection.clone(), &limits)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    for (text, reason) in refused {
        let said = format!("{}: ", limit(text));
        let text_of = error.to_string();
        let rest = text_of.split(&said).nth(1);
        let rest = rest.unwrap_or_else(|| panic!("{said}: {error}"));
        let holds = rest.split(';').next().unwrap().contains(reason);
        assert!(holds, "{text}: {error}");
    }
    let served: Vec<_> = served.into_iter().map(limit).collect();
    assert!(
        RedisStoreBuilder::from(Options::new())
            .plain(connection, &served)
            .is_ok()
    );
}

#[tokio::test]
async fn the_callers_clock_is_refused_at_construction() {
    let server = Server::start(Flavor::System);
    let options = Options::new().with_time_source(TimeSource::Caller);
    let error = RedisStoreBuilder::from(options)
        .plain(connect(server.url()).await, &[])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("TimeSource::Server"), "{error}");
}

#[tokio::test]
async fn a_fully_refunded_counter_keeps_its_key_until_the_window_ends() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        let (store, limit) = (store(&server).await, limit("fixed-window:2/1h"));
        let check = Check::new(&limit, "k", 2);
        let first = store.decide(Request::consume(check)).await.unwrap();
        let key = server.keys().remove(0);
        let ends = server.command(&["PEXPIRETIME", &key]);
        let end =
            first.as_slice()[0].decided_at().as_micros() + first.reset_after().as_micros().unwrap();
        let found = ends.integer();
        assert_eq!(found, Some(i64::try_from(end / 1_000 + 1).unwrap()));
        let receipt = first.into_receipt().unwrap();
        let refunded = store.decide(Request::refund(&receipt, check)).await;
        let refunded = refunded.unwrap();
        assert_eq!(refunded.remaining(), 2);
        assert!(refunded.reset_after().is_zero());
        // A counter of zero remains, which has no effect.
        assert_eq!(server.keys(), [key.as_str()]);
        assert_eq!(server.command(&["PEXPIRETIME", &key]), ends);
    }
}

#[tokio::test]
async fn one_decision_is_one_transaction() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        let (store, limit) = (store(&server).await, limit("fixed-window:1000/1d"));
        let consume = Request::consume(Check::new(&limit, "k", 1));
        // The first call reads the server's clock.
        let _ = store.decide(consume.clone()).await.unwrap();
        let before = server.calls("exec");
        for call in 1..=50 {
            let decision = store.decide(consume.clone()).await.unwrap();
            assert_eq!(decision.remaining(), 999 - call);
        }
        assert_eq!(server.calls("exec") - before, 50);
        assert_eq!(server.calls("evalsha") + server.calls("eval"), 0);
    }
}

#[tokio::test]
async fn every_counter_has_a_ttl_and_denied_calls_write_nothing() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        let store = store(&server).await;
        for text in [
            "fixed-window:2/1h",
            "fixed-window:2/1h,anchored",
            "fixed-window:2/1h,count-denied",
        ] {
            let limit = limit(text);
            let check = |cost| Check::new(&limit, "k", cost);
            assert!(
                store
                    .decide(Request::peek(check(1)))
                    .await
                    .unwrap()
                    .is_allowed()
            );
            assert!(server.keys().is_empty(), "a peek writes nothing");
            let first = store.decide(Request::consume(check(1))).await.unwrap();
            for _ in 0..2 {
                let _ = store.decide(Request::consume(check(2))).await.unwrap();
            }
            for key in server.keys() {
                let left = server.command(&["PTTL", &key]).integer().unwrap();
                let needed =
                    i64::try_from(first.reset_after().duration().unwrap().as_millis()).unwrap();
                let holds = (1..=needed + 3).contains(&left);
                assert!(holds, "{text}: {left} of {needed} ms");
                let before = server.command(&["DUMP", &key]);
                let denied = store.decide(Request::consume(check(2))).await.unwrap();
                assert!(denied.is_denied());
                let unchanged = server.command(&["DUMP", &key]) == before;
                assert_eq!(unchanged, !limit.algorithm().counts_denied(), "{text}");
            }
            store.reset([check(0)].into()).await.unwrap();
            assert!(server.keys().is_empty(), "{text}: {:?}", server.keys());
        }
    }
}

#[tokio::test]
async fn redis_6_2_is_refused_as_too_old_without_a_write() {
    let server = Server::start(Flavor::Redis62);
    let (store, limit) = (store(&server).await, limit("fixed-window:2/1h"));
    let error = store.decide(Request::consume(Check::new(&limit, "k", 1)));
    let error = error.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Redis 7.0"), "{error}");
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn refusals_are_reported_as_with_scripts() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        let (store, limit) = (store(&server).await, limit("fixed-window:2/1h"));
        let check = Check::new(&limit, "k", 1);
        let consume = Request::consume(check);
        let _ = store.decide(consume.clone()).await.unwrap();
        for row in [
            "Full: CONFIG SET maxmemory 1; CONFIG SET maxmemory 0",
            "Unavailable: REPLICAOF 127.0.0.1 1; REPLICAOF NO ONE",
            "Unavailable: CONFIG SET min-replicas-to-write 1; CONFIG SET min-replicas-to-write 0",
        ] {
            let (kind, commands) = row.split_once(": ").unwrap();
            let (set, unset) = commands.split_once("; ").unwrap();
            let command = |text: &str| server.command(&text.split(' ').collect::<Vec<_>>());
            command(set);
            let error = store.decide(consume.clone()).await.unwrap_err();
            assert_eq!(format!("{:?}", error.kind()), kind, "{set}: {error}");
            // Peeks write nothing and still work, unless the server has no memory to queue them.
            if kind != "Full" {
                let _ = store.decide(Request::peek(check)).await.unwrap();
            }
            command(unset);
        }
        assert!(store.decide(consume).await.unwrap().is_allowed());
    }
}

#[tokio::test]
async fn a_changed_amount_starts_a_new_counter() {
    let server = Server::start(Flavor::System);
    let store = store(&server).await;
    for (text, left) in [
        ("fixed-window:3/1h", 2),
        ("fixed-window:6/1h", 5),
        ("fixed-window:2/1h", 1),
    ] {
        let limit = limit(text);
        let decision = store.decide(Request::consume(Check::new(&limit, "k", 1)));
        let decision = decision.await.unwrap();
        assert_eq!(decision.remaining(), left, "{text}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_that_says_what_to_do() {
    let server = Server::start(Flavor::System);
    let (store, limit) = (store(&server).await, limit("fixed-window:2/1h"));
    let consume = Request::consume(Check::new(&limit, "k", 1));
    let _ = store.decide(consume.clone()).await.unwrap();
    let key = server.keys().remove(0);
    server.command(&["DEL", &key]);
    server.command(&["SADD", &key, "member"]);
    let error = store.decide(consume).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("another prefix"), "{error}");
}

#[tokio::test]
async fn a_counter_that_another_program_has_changed_is_an_error() {
    let server = Server::start(Flavor::System);
    let (store, limit) = (store(&server).await, limit("fixed-window:2/1h"));
    let consume = Request::consume(Check::new(&limit, "k", 1));
    let _ = store.decide(consume.clone()).await.unwrap();
    let key = server.keys().remove(0);
    // The counter holds one unit and a fraction. Another unit fits by whole units, but not by the
    // counter.
    server.command(&["BITFIELD", &key, "INCRBY", "u63", "0", "5"]);
    let error = store.decide(consume).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    assert!(error.to_string().contains("no other program"), "{error}");
}

#[tokio::test]
async fn the_listed_commands_of_a_counter_are_enough() {
    for flavor in Flavor::chosen_since_7() {
        let server = Server::start(flavor);
        let listed =
            "+multi +exec +time +bitfield +bitfield_ro +pexpire +pexpireat +pexpiretime +unlink";
        let mut words = vec!["ACL", "SETUSER", "limiter", "on", ">secret", "~tollgate:*"];
        words.extend(listed.split(' '));
        assert_eq!(server.command(&words), Reply::Simple("OK".into()));
        let url = format!("redis://limiter:secret@{}", server.address());
        let store = RedisStoreBuilder::from(Options::new())
            .plain(connect(url).await, &[])
            .unwrap();
        for text in [
            "fixed-window:2/1h",
            "fixed-window:2/1h,anchored",
            "fixed-window:2/1h,count-denied",
        ] {
            let limit = limit(text);
            let check = Check::new(&limit, "k", 1);
            for _ in 0..3 {
                let _ = store.decide(Request::peek(check)).await.unwrap();
                let _ = store.decide(Request::consume(check)).await.unwrap();
            }
            store.reset([check].into()).await.unwrap();
        }
    }
}
