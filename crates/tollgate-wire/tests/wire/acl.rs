//! The least that a server's user must be allowed: exactly what the documentation lists.

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, StoreError, Timestamp};
use tollgate_testkit::shared::{self, SharedServer};
use tollgate_testkit::{Connection, Flavor, Server};
use tollgate_wire::{Options, TimeSource, WireStore};

use crate::engine::{Raw, fresh, limit, now};

/// What every user needs, what resetting and giving back to a log need, and what each algorithm needs
/// beside.
const ALWAYS: [&str; 3] = ["+evalsha", "+script|load", "+time"];
const TO_RESET: &str = "+unlink";
const TO_REFUND: &str = "+lpush";
const STRING: [&str; 2] = ["+get", "+set"];
const LIST: [&str; 8] = [
    "+lindex", "+llen", TO_REFUND, "+lrange", "+lset", "+ltrim", "+pexpire", "+rpush",
];

const LIMITS: [(&str, &[&str]); 5] = [
    ("gcra:3/1h", &STRING),
    ("fixed-window:3/1h", &STRING),
    ("sliding-buckets:3/1h,buckets=3", &STRING),
    ("sliding-counter:3/1h", &STRING),
    ("sliding-log:3/1h", &LIST),
];

/// Returns all that is listed for an algorithm that needs `own`.
fn listed(own: &[&'static str]) -> Vec<&'static str> {
    let own = own.iter().copied();
    ALWAYS.into_iter().chain([TO_RESET]).chain(own).collect()
}

/// Returns a store whose user may run `commands` on keys of its own prefix, and nothing else.
fn store(flavor: Flavor, commands: &[&str]) -> WireStore<Raw> {
    store_by(TimeSource::Server, flavor, commands)
}

/// Returns such a store, whose requests are decided by `clock`.
fn store_by(clock: TimeSource, flavor: Flavor, commands: &[&str]) -> WireStore<Raw> {
    let server = shared::standalone(flavor);
    store_over(clock, server.connection(), Some(server), commands)
}

/// Returns such a store over a connection that may do everything, until it becomes the user's.
fn store_over(
    clock: TimeSource,
    connection: Connection,
    server: Option<SharedServer>,
    commands: &[&str],
) -> WireStore<Raw> {
    let raw = Raw::over(connection, server);
    let prefix = fresh("acl");
    raw.log_in_as_user(&format!("{prefix}:*"), commands);
    let options = Options::new().with_time_source(clock);
    let options = options.with_prefix(&prefix).unwrap();
    WireStore::new(raw, options)
}

/// Does everything that a limit can do but give back: look, fill it, be refused, and, for logs, have
/// several calls at one instant, and of many calls first some and then all leave the window.
fn filling(store: &WireStore<Raw>, written: &str) -> Result<(), StoreError> {
    let limit = limit(written);
    let check = |cost| Check::new(&limit, "filled", cost);
    let _ = now(store.execute(&Request::peek(check(1))))?;
    let _ = now(store.execute(&Request::consume(check(1))))?;
    let _ = now(store.execute(&Request::take_up_to(check(9))))?;
    let _ = now(store.execute(&Request::consume(check(2))))?;
    let hour = 3_600_000_000;
    for micros in [1, 1, 2, hour + 1, 9 * hour] {
        let at = Timestamp::from_micros(micros).unwrap();
        let _ = now(store.execute(&Request::consume(check(1)).at(at)))?;
    }
    Ok(())
}

/// Does everything that a limit can do, gives back and resets it, too.
fn everything(store: &WireStore<Raw>, written: &str) -> Result<(), StoreError> {
    filling(store, written)?;
    let limit = limit(written);
    for key in ["alone", "again"] {
        let check = |cost| Check::new(&limit, key, cost);
        let _ = now(store.execute(&Request::peek(check(1))))?;
        let first = now(store.execute(&Request::consume(check(1))))?;
        let _ = now(store.execute(&Request::consume(check(1))))?;
        let receipt = first.into_receipt().unwrap();
        let _ = now(store.execute(&Request::refund(&receipt, check(0))))?;
        let _ = now(store.execute(&Request::take_up_to(check(9))))?;
        let _ = now(store.execute(&Request::consume(check(2))))?;
        now(store.reset(&[check(0)]))?;
    }
    Ok(())
}

#[test]
fn the_listed_commands_are_enough() {
    for flavor in Flavor::chosen() {
        for (written, own) in LIMITS {
            let listed = listed(own);
            let store = store(flavor, &listed);
            everything(&store, written).unwrap_or_else(|error| panic!("{written}: {error}"));
        }
    }
}

#[test]
fn every_listed_command_is_needed() {
    // Scripts are flushed, which may not be done to a server that is shared.
    let server = Server::start(Flavor::System);
    for (written, own) in LIMITS {
        let listed = listed(own);
        for missing in &listed {
            let others: Vec<_> = listed
                .iter()
                .copied()
                .filter(|listed| listed != missing)
                .collect();
            let store = store_over(TimeSource::Server, server.connection(), None, &others);
            // The script may be there already, loaded by a user who may.
            server.command(&["SCRIPT", "FLUSH"]);
            // Who never gives anything back needs no less.
            let error = match *missing {
                TO_RESET | TO_REFUND => everything(&store, written),
                _ => filling(&store, written),
            };
            let error = error.expect_err(missing);
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{missing}: {error}");
            assert!(error.to_string().contains("grant"), "{missing}: {error}");
        }
    }
}

#[test]
fn keys_of_another_prefix_are_out_of_reach() {
    for flavor in Flavor::chosen() {
        let listed: Vec<_> = ALWAYS.into_iter().chain(STRING).collect();
        let store = store(flavor, &listed);
        let server = shared::standalone(flavor);
        let mut connection = server.connection();
        let user = fresh("user");
        let words = ["ACL", "SETUSER", &user, "on", "nopass", "~mine:*", "+@all"];
        connection.command(&words).unwrap();
        connection.command(&["AUTH", &user, "x"]).unwrap();
        let raw = Raw::over(connection, Some(server));
        let other = WireStore::new(raw, store.options().clone());
        let limit = limit("gcra:3/1h");
        let request = Request::consume(Check::new(&limit, "k", 1));
        assert!(now(store.execute(&request)).is_ok());
        let error = now(other.execute(&request)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
}

/// As with servers that refuse the clock to every script.
#[test]
fn a_user_without_time_decides_by_the_callers_clock() {
    for flavor in Flavor::chosen() {
        for (written, own) in LIMITS {
            let listed = listed(own);
            let others: Vec<_> = listed.into_iter().filter(|one| *one != "+time").collect();
            let store = |clock| store_by(clock, flavor, &others);
            let by_callers = everything(&store(TimeSource::Caller), written);
            by_callers.unwrap_or_else(|error| panic!("{written} on {flavor}: {error}"));
            let by_servers = everything(&store(TimeSource::Server), written);
            let error = by_servers.expect_err("the clock was read");
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{written}: {error}");
        }
    }
}

/// Servers take nothing back that a script has written before it is refused a command.
///
/// As the documentation says beside the list: this is no promise, but what comes of not keeping to it.
#[test]
fn writes_before_a_refused_command_stay() {
    let [gcra, log] = ["gcra:3/1h", "sliding-log:3/1h"].map(limit);
    let all: Vec<_> = listed(&STRING).into_iter().chain(LIST).collect();
    for flavor in Flavor::chosen() {
        let without = |missing: &str| {
            let others: Vec<_> = all.iter().copied().filter(|one| *one != missing).collect();
            store(flavor, &others)
        };
        for (first, second, missing, left) in [
            // The last is written first.
            (&log, &gcra, "+rpush", [3, 2]),
            (&gcra, &log, "+set", [3, 2]),
            // Every limit is read before any is written.
            (&log, &gcra, "+get", [3, 3]),
            (&gcra, &log, "+lrange", [3, 3]),
        ] {
            let store = without(missing);
            let checks = [first, second].map(|limit| Check::new(limit, "k", 1));
            let request = |operation| Request::new(operation, &checks);
            let error = now(store.execute(&request(Operation::Consume))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{missing}: {error}");
            // Who may do everything sees what that user has left behind.
            let other = WireStore::new(Raw::to(flavor), store.options().clone());
            let decision = now(other.execute(&request(Operation::Peek))).unwrap();
            let remaining = decision
                .as_slice()
                .iter()
                .map(|verdict| verdict.remaining());
            assert!(remaining.eq(left), "{missing} on {flavor}: {decision:?}");
        }
    }
}

/// A log that cannot be given a TTL is removed again, so it does not stay for ever.
#[test]
fn user_without_pexpire_leaves_no_key_without_a_ttl() {
    let others: Vec<_> = listed(&STRING)
        .into_iter()
        .chain(LIST)
        .filter(|one| *one != "+pexpire")
        .collect();
    let many = ["fixed-window:3/1h", "gcra:3/1h", "sliding-log:3/1h"];
    let many = [&many[..], &["sliding-counter:3/1h", "gcra:9/1h"]].concat();
    for flavor in Flavor::chosen() {
        for (limits, operation, cost) in [
            (vec!["sliding-log:3/1h"], Operation::Consume, 1),
            (vec!["sliding-log:3/1h"], Operation::TakeUpTo, 2),
            // Counted, though it is denied.
            (vec!["sliding-log:3/1h,count-denied"], Operation::Consume, 4),
            (vec!["gcra:3/1h", "sliding-log:3/1h"], Operation::Consume, 1),
            (many.clone(), Operation::Consume, 1),
        ] {
            let limits: Vec<_> = limits.into_iter().map(limit).collect();
            let keys: Vec<_> = (0..limits.len()).map(|index| index.to_string()).collect();
            let checks = limits.iter().zip(&keys);
            let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
            // At a caller's instant, keys live for ten minutes more.
            let at = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
            let request = |operation| Request::new(operation, &checks).at(at);
            let store = store(flavor, &others);
            let error = now(store.execute(&request(operation))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            let raw = Raw::to(flavor);
            let keys = raw.keys(store.options());
            let logs: Vec<_> = limits
                .iter()
                .filter(|l| l.identity().contains("log"))
                .collect();
            assert!(!logs.is_empty() && keys.len() <= limits.len() - logs.len());
            assert!(
                keys.iter().all(|key| raw.pttl(key) > 0),
                "{flavor}: {keys:?}"
            );

            // A key that another user has made keeps the TTL that it has.
            let privileged = WireStore::new(Raw::to(flavor), store.options().clone());
            let _ = now(privileged.execute(&request(operation))).unwrap();
            let error = now(store.execute(&request(operation))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
            let keys = raw.keys(store.options());
            assert_eq!(keys.len(), limits.len(), "{operation:?} of {limits:?}");
            assert!(
                keys.iter().all(|key| raw.pttl(key) > 0),
                "{flavor}: {keys:?}"
            );
        }
    }
}
