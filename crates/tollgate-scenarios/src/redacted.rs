//! Checks that no error shows the key of its call.

use std::error::Error;
use std::fmt::Debug;

use tollgate_core::FixedWindow;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Key, Limit, Quota, Receipt, Store, StoreError};
use tollgate_testkit::{Cluster, Flavor, Server};

use crate::client::Client;
use crate::secured::options;

/// The two parts of a key, each with a word that occurs nowhere else.
const PARTITION: &str = "carol4711";
const REST: &str = "/account/dave0815";

/// A word of the server's error, the commands that provoke the error, and the command that ends it. The
/// error without a word comes from within a script or a transaction.
const REFUSALS: &str = "\
OOM: CONFIG SET maxmemory 1 => CONFIG SET maxmemory 0
READONLY: REPLICAOF 127.0.0.1 1 => REPLICAOF NO ONE
NOREPLICAS: CONFIG SET min-replicas-to-write 1 => CONFIG SET min-replicas-to-write 0
NOPERM: ACL SETUSER default -evalsha -bitfield -bitfield_ro -unlink => ACL SETUSER default +@all
NOPERM: ACL SETUSER default resetkeys ~other:* => ACL SETUSER default allkeys
: ACL SETUSER default -set -pexpireat => ACL SETUSER default +@all
NOPERM: SCRIPT FLUSH & ACL SETUSER default -script -time => ACL SETUSER default +@all
";

/// Returns the limit that is called.
pub fn limit() -> Limit {
    Limit::new("hourly", FixedWindow::aligned(Quota::per_hour(1_000))).unwrap()
}

/// Returns the key that no text may contain.
pub fn key() -> Key<'static> {
    Key::from(PARTITION).with_rest(REST)
}

#[track_caller]
fn hides(text: &str) {
    for secret in ["carol4711", "dave0815"] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
}

/// Checks that no part of `error` shows the key, and that it still contains `what`.
#[track_caller]
pub fn is_redacted(error: &StoreError, what: &str) {
    let mut link: Option<&dyn Error> = Some(error);
    while let Some(error) = link {
        for text in [
            format!("{error}"),
            format!("{error:?}"),
            format!("{error:#?}"),
        ] {
            hides(&text);
        }
        link = error.source();
    }
    assert!(error.to_string().contains(what), "no {what} in {error}");
}

/// Performs every operation on `store` and returns the errors. Also checks that neither successful
/// results nor the store itself show the key.
async fn ask<S: Store + Debug>(store: &S, receipt: &Receipt) -> Vec<StoreError> {
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let mut errors = Vec::new();
    for operation in [
        Operation::Consume,
        Operation::Peek,
        Operation::TakeUpTo,
        Operation::Refund(receipt),
    ] {
        let request = Request::new(operation, [check]);
        hides(&format!("{request:?}"));
        if store.supports(&request).is_err() {
            continue;
        }
        match store.decide(request).await {
            Ok(decision) => hides(&format!("{decision:?}")),
            Err(error) => errors.push(error),
        }
    }
    if let Err(error) = store.reset([check].into()).await {
        errors.push(error);
    }
    hides(&format!("{store:?} {receipt:?}"));
    errors
}

async fn receipt(store: &impl Store) -> Receipt {
    let limit = limit();
    let request = Request::consume(Check::new(&limit, key(), 1));
    let decision = store.decide(request).await.unwrap();
    decision.into_receipt().unwrap()
}

/// No refusal of a server of each flavor shows the key of its call.
pub async fn refusals_hide_the_key(client: &dyn Client) {
    let connect = async |url: String| client.server(&url, options()).await.unwrap();
    refusals_of_servers_hide_the_key(Flavor::chosen(), connect).await;
}

/// Checks that no refusal of a server of each of `flavors` shows the key of its call.
pub async fn refusals_of_servers_hide_the_key<S: Store + Debug>(
    flavors: Vec<Flavor>,
    connect: impl AsyncFn(String) -> S,
) {
    for flavor in flavors {
        let server = Server::start(flavor);
        hides_keys(&server, &connect(server.url()).await).await;
    }
}

async fn hides_keys<S: Store + Debug>(server: &Server, store: &S) {
    let mut control = server.connection();
    let mut tell = |commands: &str| {
        for command in commands.split(" & ") {
            let words: Vec<_> = command.split(' ').collect();
            control.command(&words).unwrap();
        }
    };
    for row in REFUSALS.lines() {
        let (what, commands) = row.split_once(": ").unwrap();
        let (begin, end) = commands.split_once(" => ").unwrap();
        tell("FLUSHALL");
        let receipt = receipt(store).await;
        tell(begin);
        let errors = ask(store, &receipt).await;
        tell(end);
        assert!(!errors.is_empty(), "{begin} is no refusal");
        for error in errors {
            is_redacted(&error, what);
        }
    }
    tell("FLUSHALL");
    receipt(store).await;
    let key = &server.keys()[0];
    server.command(&["DEL", key]);
    server.command(&["SADD", key, "member"]);
    let limit = limit();
    let request = Request::consume(Check::new(&limit, self::key(), 1));
    let error = store.decide(request).await.unwrap_err();
    is_redacted(&error, "WRONGTYPE");
}

/// Returns arguments for a server that knows none of the commands of a decision.
fn without_commands() -> Vec<String> {
    let renamed = ["EVALSHA", "BITFIELD", "BITFIELD_RO", "UNLINK"];
    let rename = |name: &str| {
        ["--rename-command", name, &format!("{name}-OF-ANOTHER-NAME")].map(str::to_owned)
    };
    renamed.into_iter().flat_map(rename).collect()
}

/// Errors of servers that do not know the commands do not show the key.
pub async fn unknown_commands_hide_the_key(client: &dyn Client) {
    let connect = async |url: String| client.server(&url, options()).await.unwrap();
    unknown_commands_of_servers_hide_the_key(Flavor::chosen(), connect).await;
}

/// Checks that errors of servers of each of `flavors` that do not know the commands do not show the
/// key.
pub async fn unknown_commands_of_servers_hide_the_key<S: Store + Debug>(
    flavors: Vec<Flavor>,
    connect: impl AsyncFn(String) -> S,
) {
    for flavor in flavors {
        let known = Server::start(flavor);
        let server = Server::options(flavor).args(without_commands()).start();
        let receipt = receipt(&connect(known.url()).await).await;
        let errors = ask(&connect(server.url()).await, &receipt).await;
        assert!(errors.len() >= 3, "{errors:?}");
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            is_redacted(&error, "a command");
        }
    }
}

/// Errors of a cluster that does not know the commands do not show the key.
pub async fn a_cluster_hides_the_key(client: &dyn Client) {
    let cluster = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = cluster.args(without_commands()).start();
    let store = client.cluster(&cluster.urls(), options()).await.unwrap();
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let error = store.decide(Request::consume(check)).await.unwrap_err();
    is_redacted(&error, "unknown command");
    let error = store.reset([check].into()).await.unwrap_err();
    is_redacted(&error, "unknown command");
}

/// Errors of nodes of a cluster do not show the key: the redirection, and the refusal of keys of
/// several slots. The stores of one node follow no redirections.
pub async fn redirections_and_crossed_slots_hide_the_key(client: &dyn Client) {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    let limit = limit();
    let check = Check::new(&limit, key(), 1);
    let other = Check::new(&limit, Key::from("erin").with_rest("/"), 1);
    let mut redirections = 0;
    for node in cluster.nodes() {
        let store = client.server(&node.url(), options()).await.unwrap();
        if let Err(error) = store.decide(Request::consume(check)).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            is_redacted(&error, "");
            redirections += 1;
        }
        let crossed = Request::consume(check).and(other);
        let error = store.decide(crossed).await.unwrap_err();
        is_redacted(&error, "CROSSSLOT");
    }
    assert_eq!(redirections, 1);
}

/// The error of a server that does not know the greeting, and that repeats it, does not show the
/// password.
pub async fn an_unknown_greeting_hides_the_password(client: &dyn Client) {
    let rename = ["HELLO", "AUTH"].map(|name| ["--rename-command", name, ""]);
    let server = Server::options(Flavor::System);
    let server = server.args(rename.concat()).start();
    let url = server.url().replace("//", "//carol4711:dave0815@");
    let Err(error) = client.server(&url, options()).await else {
        panic!("a connection without a greeting");
    };
    is_redacted(&error, "");
}
