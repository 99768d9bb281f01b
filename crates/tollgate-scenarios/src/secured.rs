//! Servers that accept only TLS, or that require passwords.

use std::sync::Once;
use std::time::{Duration, Instant};

use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter, Store, StoreError};
use tollgate_testkit::{Authority, Cluster, Flavor, SentinelGroup, Server};
use tollgate_wire::Options;

use crate::client::{Client, Connected};

/// How long it may take to find out that no connection is possible. Stores take up to 2.6 s, and more
/// on a busy machine.
const SET_UP: Duration = Duration::from_secs(4);
/// The ACL rules that the documentation gives for this store and this limit.
const USER: &str = "on >secret ~tollgate:* +evalsha +script|load +time +get +set +unlink";
/// Part of the error if the certificate is of an authority that the client does not know.
pub const DISTRUSTED: &str = "trust the authority that signed it";
/// Part of the error if no password was given.
pub const ASKED: &str = "the server requires a password";
/// Part of the error if a wrong password was given.
pub const REFUSED: &str = "the server refused the user or password";

/// Installs a rustls crypto provider, as programs do: a workspace build may include several.
pub fn choose() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| {
        let provider = rustls::crypto::ring::default_provider();
        provider.install_default().unwrap();
    });
}

/// Returns options with a deadline that is never reached.
pub fn options() -> Options {
    // These tests must not fail because the machine is busy with others.
    Options::default().with_deadline(Duration::from_secs(5))
}

/// Returns a limiter of nine calls per hour.
pub fn limiter<S: Store>(store: S) -> RateLimiter<S> {
    let limit = Limit::new("hourly", FixedWindow::anchored(Quota::per_hour(9)));
    RateLimiter::new(store, [limit.unwrap()]).unwrap()
}

/// Calls for `key` and returns what remains.
pub async fn call<S: Store>(limiter: &RateLimiter<S>, key: &str) -> u64 {
    limiter.check(key).await.unwrap().remaining()
}

/// Calls for `key` until a call succeeds, and returns what remains.
pub async fn until_let_in<S: Store>(limiter: &RateLimiter<S>, key: &str) -> u64 {
    let begun = Instant::now();
    loop {
        match limiter.check(key).await {
            Ok(decision) => return decision.remaining(),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks that calls are decided and counted.
pub async fn decides<S: Store>(store: Result<S, StoreError>) {
    let limiter = limiter(store.unwrap());
    limiter.reset("alice").await.unwrap();
    assert_eq!(call(&limiter, "alice").await, 8);
    assert_eq!(call(&limiter, "alice").await, 7);
}

/// Checks that connecting fails soon with `kind`, and a message that contains `hint`.
pub async fn is_refused<S>(
    connect: impl Future<Output = Result<S, StoreError>>,
    kind: ErrorKind,
    hint: &str,
) {
    let begun = Instant::now();
    let Err(error) = connect.await else {
        panic!("a connection, in spite of {hint}");
    };
    assert!(begun.elapsed() < SET_UP, "{:?}", begun.elapsed());
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(hint), "no {hint:?} in {error}");
}

/// Checks that connecting fails because of the settings that `hint` names.
pub async fn is_misconfigured<S>(connect: impl Future<Output = Result<S, StoreError>>, hint: &str) {
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
}

/// Creates the user `limiter` on a server, with the rights of the documentation and `more`.
pub fn let_in(server: &Server, more: &[&str]) {
    let own = ["ACL", "SETUSER", "limiter"]
        .into_iter()
        .chain(USER.split(' '));
    let words: Vec<_> = own.chain(more.iter().copied()).collect();
    assert_eq!(server.command(&words).text(), Some("OK"));
}

/// Kills the primary, and checks that calls continue on the new one.
pub async fn follows_a_failover<S: Store>(group: &SentinelGroup, limiter: &RateLimiter<S>) {
    let old = group.primary();
    old.kill();
    let new = tokio::task::block_in_place(|| group.wait_for_failover(old));
    let _ = until_let_in(limiter, "bob").await;
    let counted = new.command(&["KEYS", "*bob*"]);
    assert_eq!(counted.items().len(), 1, "{counted:?}");
}

/// A server is given the user and the password of the address, and the number of its database.
pub async fn a_server_is_given_its_password(client: &dyn Client) {
    let server = Server::options(Flavor::System).password("secret").start();
    let connect = async |credentials: &str| {
        let url = format!("redis://{credentials}{}", server.address());
        client.server(&url, options()).await
    };
    let_in(&server, &[]);
    decides(connect(":secret@").await).await;
    decides(connect("limiter:secret@").await).await;
    is_misconfigured(connect(""), ASKED).await;
    for wrong in [":wrong@", "limiter:wrong@", "nobody:secret@"] {
        is_misconfigured(connect(wrong), REFUSED).await;
    }
    let other_database = format!("{}/99", server.url());
    is_misconfigured(client.server(&other_database, options()), "").await;
}

/// After the password has changed, calls are refused and count nothing.
pub async fn a_call_after_a_password_change_counts_nothing(client: &dyn Client) {
    let server = Server::options(Flavor::System).password("secret").start();
    let limiter = limiter(client.server(&server.url(), options()).await.unwrap());
    assert_eq!(call(&limiter, "alice").await, 8);
    let mut control = server.connection();
    let mut tell = |words: &[&str]| control.command(words).unwrap();
    tell(&["CONFIG", "SET", "requirepass", "other"]);
    // A connection that has logged in stays logged in.
    assert_eq!(call(&limiter, "alice").await, 7);
    tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..20 {
        let error = limiter.check("alice").await.unwrap_err();
        let kinds = [ErrorKind::Unavailable, ErrorKind::Misconfigured];
        assert!(kinds.contains(&error.kind()), "{error:?}");
    }
    tell(&["CONFIG", "SET", "requirepass", "secret"]);
    assert_eq!(until_let_in(&limiter, "alice").await, 6);
}

/// The nodes of a cluster are given the user and the password.
pub async fn a_cluster_is_given_its_password(client: &dyn Client) {
    let cluster = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = cluster.password("secret").start();
    let connect = async |credentials: &str| {
        let nodes = cluster.addresses().into_iter();
        let urls: Vec<_> = nodes
            .map(|node| format!("redis://{credentials}{node}"))
            .collect();
        client.cluster(&urls, options()).await
    };
    for node in cluster.nodes() {
        let_in(node, &[]);
    }
    is_misconfigured(connect("limiter:secret@"), "grant the commands").await;
    for node in cluster.nodes() {
        let_in(node, &["+cluster|slots", "+cluster|info"]);
    }
    decides(connect(":secret@").await).await;
    decides(connect("limiter:secret@").await).await;
    is_misconfigured(connect(""), ASKED).await;
    is_misconfigured(connect(":wrong@"), REFUSED).await;
    is_misconfigured(connect("limiter:wrong@"), REFUSED).await;
}

/// A server is trusted through the authority that certifies it, and only for the names in its
/// certificate.
pub async fn a_server_is_trusted_through_its_authority(client: &dyn Client) {
    choose();
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::options(Flavor::System).tls(&authority).start();
    let url = server.url();
    let connect =
        async |url: &str, authority| client.trusting(url, authority, None, options()).await;
    let one = limiter(connect(&url, &authority).await.unwrap());
    assert_eq!(call(&one, "alice").await, 8);
    // Another store sees the same count, because it is on the server.
    let second = limiter(connect(&url, &authority).await.unwrap());
    assert_eq!(call(&second, "alice").await, 7);
    assert_eq!(call(&one, "alice").await, 6);
    assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));

    is_misconfigured(connect(&url, &other), DISTRUSTED).await;
    is_misconfigured(client.server(&url, options()), DISTRUSTED).await;
    let elsewhere = authority.certify_as(&["example.org"]);
    let server = Server::options(Flavor::System).tls_as(&authority, elsewhere);
    let server = server.start();
    let hint = "connect by a host name that it covers";
    is_misconfigured(connect(&server.url(), &authority), hint).await;
}

/// A server may ask the client for a certificate.
pub async fn a_server_may_ask_for_a_certificate(client: &dyn Client) {
    choose();
    let authority = Authority::new();
    let server = Server::options(Flavor::System).mutual_tls(&authority);
    let (server, own) = (server.start(), authority.certify());
    let connect = async |own| {
        client
            .trusting(&server.url(), &authority, own, options())
            .await
    };
    decides(connect(Some(&own)).await).await;
    let hint = "whether the server requires a client certificate";
    is_misconfigured(connect(None), hint).await;
}

/// An address that asks for TLS where the server does not, or the other way round, is an error soon.
pub async fn tls_on_one_side_only_fails_quickly(client: &dyn Client) {
    choose();
    let authority = Authority::new();
    let secured = Server::options(Flavor::System).tls(&authority).start();
    let plain = Server::start(Flavor::System);
    let hint = "the address asks for TLS if and only if";
    for (scheme, server) in [("redis", &secured), ("rediss", &plain)] {
        let url = format!("{scheme}://{}", server.address());
        let alone = client.server(&url, options());
        is_refused(alone, ErrorKind::Unavailable, hint).await;
        let cluster = client.cluster(std::slice::from_ref(&url), options());
        is_refused(cluster, ErrorKind::Unavailable, hint).await;
    }
}

/// An address is enough for servers and clusters that are certified by an authority that the system
/// trusts, also while a slot of the cluster moves.
pub async fn an_address_is_enough_if_the_system_trusts_the_authority(client: &dyn Client) {
    let test = "scenarios::secured::an_address_is_enough_if_the_system_trusts_the_authority";
    let Some(authority) = Authority::of_the_system(test) else {
        return;
    };
    choose();
    let server = Server::options(Flavor::System).tls(&authority);
    let server = server.password("secret").start();
    decides(client.server(&server.url(), options()).await).await;
    let wrong = server.url().replace("secret", "wrong");
    is_misconfigured(client.server(&wrong, options()), REFUSED).await;

    let cluster = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = cluster.tls(&authority).password("secret").start();
    let store = client.cluster(&cluster.urls(), options()).await;
    let limiter: RateLimiter<Connected> = limiter(store.unwrap());
    for key in ["a", "b", "c", "d", "old"] {
        assert_eq!(call(&limiter, key).await, 8);
    }
    let slot = Cluster::slot_of("old");
    let migration = cluster.begin_migration(slot, cluster.another(slot));
    assert_eq!(call(&limiter, "old").await, 7);
    while migration.move_keys(1) > 0 {}
    migration.finish();
    assert_eq!(call(&limiter, "old").await, 6);
}
