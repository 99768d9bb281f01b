//! The least that a server's user must be allowed: exactly what the documentation lists.

use tollgate_core::wire::{Options, WireStore};
use tollgate_core::{Check, ErrorKind, Request, StoreError};
use tollgate_testkit::{Flavor, Reply, shared};

use crate::engine::{Raw, fresh, limit, now};

/// What every user needs, what resetting needs, and what each algorithm needs beside.
const ALWAYS: [&str; 3] = ["+evalsha", "+script|load", "+time"];
const TO_RESET: &str = "+unlink";
const STRING: [&str; 2] = ["+get", "+set"];
const LIST: [&str; 7] = [
    "+lindex", "+llen", "+lrange", "+lset", "+ltrim", "+pexpire", "+rpush",
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
    let server = shared::standalone(flavor);
    let (user, prefix) = (fresh("user"), fresh("acl"));
    let keys = format!("~{prefix}:*");
    let mut words = vec!["ACL", "SETUSER", &user, "on", ">secret", &keys];
    words.extend(commands);
    assert_eq!(server.command(&words), Reply::Simple("OK".into()));
    let mut connection = server.connection();
    let welcome = connection.command(&["AUTH", &user, "secret"]).unwrap();
    assert_eq!(welcome, Reply::Simple("OK".into()));
    let options = Options::new().with_prefix(&prefix).unwrap();
    WireStore::new(Raw::over(connection, Some(server)), options)
}

/// Does everything that a limit can do: fill it, be refused, look, give back, reset.
fn everything(store: &WireStore<Raw>, written: &str) -> Result<(), StoreError> {
    let limit = limit(written);
    for key in ["alone", "again"] {
        let check = |cost| Check::new(&limit, key, cost);
        now(store.decide(&Request::peek(check(1))))?;
        let first = now(store.decide(&Request::consume(check(1))))?;
        now(store.decide(&Request::consume(check(1))))?;
        let receipt = first.into_receipt().unwrap();
        now(store.decide(&Request::refund(&receipt, check(0))))?;
        now(store.decide(&Request::take_up_to(check(9))))?;
        now(store.decide(&Request::consume(check(2))))?;
        now(store.reset(&[check(0)]))?;
    }
    Ok(())
}

#[test]
fn what_is_listed_is_enough() {
    for flavor in Flavor::ALL {
        for (written, own) in LIMITS {
            let listed = listed(own);
            let store = store(flavor, &listed);
            everything(&store, written).unwrap_or_else(|error| panic!("{written}: {error}"));
        }
    }
}

#[test]
fn nothing_that_is_listed_is_too_much() {
    for (written, own) in LIMITS {
        let listed = listed(own);
        for missing in &listed {
            // These are for logs that have grown, or that count what they refuse.
            if ["+llen", "+ltrim"].contains(missing) {
                continue;
            }
            let others: Vec<_> = listed
                .iter()
                .copied()
                .filter(|listed| listed != missing)
                .collect();
            let store = store(Flavor::System, &others);
            // The script may be there already, loaded by a user who may.
            let command: Vec<_> = ["SCRIPT", "FLUSH"].map(str::as_bytes).to_vec();
            if *missing == "+script|load" {
                Raw::to(Flavor::System).command(&command);
            }
            let error = everything(&store, written).expect_err(missing);
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{missing}: {error}");
            assert!(error.to_string().contains("grant"), "{missing}: {error}");
        }
    }
}

#[test]
fn keys_of_another_prefix_are_out_of_reach() {
    for flavor in Flavor::ALL {
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
        assert!(now(store.decide(&request)).is_ok());
        let error = now(other.decide(&request)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    }
}
