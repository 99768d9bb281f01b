//! Servers, clusters and Sentinels that accept only TLS, or require passwords.

use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_fred::fred::types::config::TlsConnector;
use tollgate_fred::{FredStore, connection};
use tollgate_scenarios::secured as shared;
use tollgate_testkit::{Authority, Cluster, Flavor, Identity, SentinelGroup, Server};

use shared::{
    ASKED, REFUSED, SET_UP, call, choose, decides, follows_a_failover, is_misconfigured,
    is_refused, let_in, limiter, options,
};

const DISTRUSTED: &str = "trust the authority that signed it";

async fn connect(url: &str) -> Result<FredStore, StoreError> {
    choose();
    let begun = Instant::now();
    let store = FredStore::builder().options(options()).connect(url).await;
    assert!(begun.elapsed() < SET_UP, "{:?}", begun.elapsed());
    store
}

/// Connects with custom certificates, as the documentation shows.
async fn with(
    url: &str,
    authority: &Authority,
    identity: Option<&Identity>,
) -> Result<FredStore, StoreError> {
    choose();
    let mut roots = RootCertStore::empty();
    let pem = CertificateDer::from_pem_slice(authority.pem().as_bytes());
    roots.add(pem.unwrap()).unwrap();
    let tls = ClientConfig::builder().with_root_certificates(roots);
    let tls = match identity {
        None => tls.with_no_client_auth(),
        Some(identity) => {
            let own = CertificateDer::from_pem_slice(identity.certificate().as_bytes());
            let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes());
            let own = tls.with_client_auth_cert(vec![own.unwrap()], key.unwrap());
            own.unwrap()
        }
    };
    let mut builder = connection::builder(url, &options()).unwrap();
    builder.with_config(|config| config.tls = Some(TlsConnector::from(tls).into()));
    FredStore::builder()
        .options(options())
        .connect_with(&builder)
        .await
}

#[tokio::test]
async fn a_server_is_trusted_through_its_authority() {
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority).start();
    let one = limiter(with(&server.url(), &authority, None).await.unwrap());
    assert_eq!(call(&one, "alice").await, 8);
    // Another store sees the same count, because it is on the server.
    let other = limiter(with(&server.url(), &authority, None).await.unwrap());
    assert_eq!(call(&other, "alice").await, 7);
    assert_eq!(call(&one, "alice").await, 6);
    assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));

    let other = Authority::new();
    is_misconfigured(with(&server.url(), &other, None).await, DISTRUSTED);
    is_misconfigured(connect(&server.url()).await, DISTRUSTED);
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let authority = Authority::new();
    let options = Server::options(Flavor::System).mutual_tls(&authority);
    let server = options.start();
    let own = authority.certify();
    let limiter = limiter(with(&server.url(), &authority, Some(&own)).await.unwrap());
    assert_eq!(call(&limiter, "alice").await, 8);
    let hint = "whether the server requires a client certificate";
    is_misconfigured(with(&server.url(), &authority, None).await, hint);
}

#[tokio::test]
async fn tls_on_one_side_only_fails_quickly() {
    let authority = Authority::new();
    let secured = Server::options(Flavor::System).tls(&authority).start();
    let plain = Server::start(Flavor::System);
    let hint = "the address asks for TLS if and only if";
    for suffix in ["", "-cluster"] {
        for (scheme, server) in [("redis", &secured), ("rediss", &plain)] {
            let url = format!("{scheme}{suffix}://{}", server.address());
            is_refused(connect(&url).await, ErrorKind::Unavailable, hint);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_is_enough_if_the_system_trusts_the_authority() {
    let test = "secured::an_address_is_enough_if_the_system_trusts_the_authority";
    let Some(authority) = Authority::of_the_system(test) else {
        return;
    };
    let options = Server::options(Flavor::System).tls(&authority);
    let server = options.password("secret").start();
    decides(connect(&server.url()).await).await;
    let wrong = server.url().replace("secret", "wrong");
    is_misconfigured(connect(&wrong).await, REFUSED);

    let elsewhere = authority.certify_as(&["example.org"]);
    let options = Server::options(Flavor::System).tls_as(&authority, elsewhere);
    let server = options.start();
    let hint = "connect by a host name that it covers";
    is_misconfigured(connect(&server.url()).await, hint);

    let options = Server::options(Flavor::System).mutual_tls(&authority);
    let server = options.start();
    let hint = "whether the server requires a client certificate";
    is_misconfigured(connect(&server.url()).await, hint);

    let options = SentinelGroup::options(Flavor::System).tls(&authority);
    let group = options.password("secret").sentinel_password("word").start();
    let url = format!(
        "rediss-sentinel://:secret@{}?sentinelServiceName={}&sentinelPassword=word",
        group.sentinel_addresses()[0],
        group.primary_name()
    );
    decides(connect(&url).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed() {
    let test = "secured::a_cluster_is_followed";
    let Some(authority) = Authority::of_the_system(test) else {
        return;
    };
    let options = Cluster::options(Flavor::System).masters(2).replicas(0);
    let cluster = options.tls(&authority).password("secret").start();
    for node in cluster.nodes() {
        let_in(node, &["+cluster|slots"]);
    }
    let url = |credentials| format!("rediss-cluster://{credentials}{}", cluster.addresses()[0]);
    let hint = "grant the commands";
    is_misconfigured(connect(&url("limiter:secret@")).await, hint);
    for node in cluster.nodes() {
        let_in(node, &["+cluster|info"]);
    }
    is_misconfigured(connect(&url("")).await, ASKED);
    is_misconfigured(connect(&url(":wrong@")).await, REFUSED);
    decides(connect(&url(":secret@")).await).await;

    let limiter = limiter(connect(&url("limiter:secret@")).await.unwrap());
    for key in ["a", "b", "c", "d", "old"] {
        assert_eq!(call(&limiter, key).await, 8);
    }
    let slot = Cluster::slot_of("old");
    let from = cluster.master_of(slot).port();
    let mut nodes = cluster.nodes().iter();
    let to = nodes.find(|node| node.port() != from).unwrap();
    let migration = cluster.begin_migration(slot, to);
    assert_eq!(call(&limiter, "old").await, 7);
    while migration.move_keys(1) > 0 {}
    migration.finish();
    assert_eq!(call(&limiter, "old").await, 6);
}

#[tokio::test]
async fn a_server_is_given_its_password() {
    let server = Server::options(Flavor::System).password("secret").start();
    let url = |credentials: &str| format!("redis://{credentials}{}", server.address());
    let_in(&server, &[]);
    decides(connect(&url(":secret@")).await).await;
    decides(connect(&url("limiter:secret@")).await).await;
    is_misconfigured(connect(&url("")).await, ASKED);
    for wrong in [":wrong@", "limiter:wrong@", "nobody:secret@"] {
        is_misconfigured(connect(&url(wrong)).await, REFUSED);
    }
    let other_database = connect(&format!("{}/99", url(":secret@"))).await;
    is_misconfigured(other_database, "DB index is out of range");
}

#[tokio::test]
async fn a_call_after_a_password_change_counts_nothing() {
    let server = Server::options(Flavor::System).password("secret").start();
    let limiter = limiter(connect(&server.url()).await.unwrap());
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
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    tell(&["CONFIG", "SET", "requirepass", "secret"]);
    let begun = Instant::now();
    let remaining = loop {
        match limiter.check("alice").await {
            Ok(decision) => break decision.remaining(),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(5), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(remaining, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_are_given_their_passwords() {
    let options = SentinelGroup::options(Flavor::System).password("secret");
    let group = options.sentinel_password("word").start();
    for server in group.servers() {
        let_in(server, &["+role"]);
    }
    let url = |server: &str, sentinels: &str| {
        let address = &group.sentinel_addresses()[0];
        let name = group.primary_name();
        format!("redis-sentinel://{server}{address}?sentinelServiceName={name}{sentinels}")
    };
    let word = "&sentinelPassword=word";
    decides(connect(&url(":secret@", word)).await).await;
    is_misconfigured(connect(&url("", word)).await, ASKED);
    is_misconfigured(connect(&url(":wrong@", word)).await, REFUSED);
    is_misconfigured(connect(&url(":secret@", "")).await, ASKED);
    let wrong = connect(&url(":secret@", "&sentinelPassword=wrong")).await;
    is_refused(wrong, ErrorKind::Unavailable, "passwords and TLS settings");

    let limiter = limiter(connect(&url("limiter:secret@", word)).await.unwrap());
    assert_eq!(call(&limiter, "carol").await, 8);
    follows_a_failover(&group, &limiter).await;
}
