//! Servers, clusters and Sentinels that accept only TLS: stores connect and check certificates.

use std::time::Instant;

use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError};
use tollgate_redis::RedisStore;
use tollgate_redis::connection::{self, SentinelConnection};
use tollgate_redis::redis::cluster::ClusterClientBuilder;
use tollgate_redis::redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use tollgate_redis::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, ProtocolVersion, TlsCertificates,
    TlsMode,
};
use tollgate_scenarios::secured as shared;
use tollgate_testkit::{Authority, Cluster, Flavor, Identity, SentinelGroup, Server};

use shared::{SET_UP, call, choose, follows_a_failover, limiter, options};

fn certificates(authority: &Authority, identity: Option<&Identity>) -> TlsCertificates {
    TlsCertificates {
        client_tls: identity.map(|identity| ClientTlsConfig {
            client_cert: identity.certificate().into(),
            client_key: identity.key().into(),
        }),
        root_cert: Some(authority.pem().into()),
    }
}

/// Returns the connection info for `url` with these certificates.
fn with(url: String, authority: &Authority, identity: Option<&Identity>) -> ConnectionInfo {
    choose();
    let client = Client::build_with_tls(url, certificates(authority, identity));
    client.unwrap().get_connection_info().clone()
}

/// Checks that connecting fails soon, with a reason that contains `hint`.
async fn is_refused<S>(
    connect: impl Future<Output = Result<S, StoreError>>,
    kind: ErrorKind,
    hint: &str,
) {
    let begun = Instant::now();
    let store = connect.await;
    assert!(begun.elapsed() < SET_UP, "{:?}", begun.elapsed());
    shared::is_refused(store, kind, hint);
}

#[tokio::test]
async fn a_server_is_trusted_through_its_authority() {
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority).start();
    let info = with(server.url(), &authority, None);
    let one = limiter(
        RedisStore::builder()
            .options(options())
            .connect(info.clone())
            .await
            .unwrap(),
    );
    assert_eq!(call(&one, "alice").await, 8);
    // Another store sees the same count, because it is on the server.
    let other = limiter(
        RedisStore::builder()
            .options(options())
            .connect(info)
            .await
            .unwrap(),
    );
    assert_eq!(call(&other, "alice").await, 7);
    assert_eq!(call(&one, "alice").await, 6);
    assert_eq!(server.command(&["DBSIZE"]).integer(), Some(1));
}

#[tokio::test]
async fn a_server_with_an_unknown_certificate_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Server::options(Flavor::System).tls(&authority).start();
    let url = server.url();
    let settled = ErrorKind::Misconfigured;
    let hint = "trust the authority that signed it";
    let connect = |info: ConnectionInfo| RedisStore::builder().options(options()).connect(info);
    is_refused(connect(with(url.clone(), &other, None)), settled, hint).await;
    is_refused(
        RedisStore::builder().options(options()).connect(url),
        settled,
        hint,
    )
    .await;

    let elsewhere = authority.certify_as(&["example.org"]);
    let options = Server::options(Flavor::System).tls_as(&authority, elsewhere);
    let server = options.start();
    let hint = "connect by a host name that it covers";
    let info = with(server.url(), &authority, None);
    is_refused(connect(info), settled, hint).await;
}

#[tokio::test]
async fn a_server_may_ask_for_a_certificate() {
    let authority = Authority::new();
    let options = Server::options(Flavor::System).mutual_tls(&authority);
    let server = options.start();
    let own = authority.certify();
    let info = with(server.url(), &authority, Some(&own));
    let limiter = limiter(
        RedisStore::builder()
            .options(self::options())
            .connect(info)
            .await
            .unwrap(),
    );
    assert_eq!(call(&limiter, "alice").await, 8);

    let none = with(server.url(), &authority, None);
    let hint = "whether the server requires a client certificate";
    let connect = RedisStore::builder().options(self::options()).connect(none);
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
}

#[tokio::test]
async fn tls_on_one_side_only_fails_quickly() {
    let authority = Authority::new();
    let secured = Server::options(Flavor::System).tls(&authority).start();
    let plain = Server::start(Flavor::System);
    let hint = "the address asks for TLS if and only if";
    let as_plain = format!("redis://{}", secured.address());
    let as_secured = with(format!("rediss://{}", plain.address()), &authority, None);
    let connect = RedisStore::builder()
        .options(options())
        .connect(as_plain.clone());
    is_refused(connect, ErrorKind::Unavailable, hint).await;
    let connect = RedisStore::builder()
        .options(options())
        .connect(as_secured.clone());
    is_refused(connect, ErrorKind::Unavailable, hint).await;

    let connect = RedisStore::builder()
        .options(options())
        .connect_cluster([as_plain.clone()]);
    is_refused(connect, ErrorKind::Unavailable, hint).await;
    let connect = RedisStore::builder()
        .options(options())
        .connect_cluster([as_secured]);
    is_refused(connect, ErrorKind::Unavailable, hint).await;
    let connect = RedisStore::builder()
        .options(options())
        .connect_sentinel([as_plain], "tollgate");
    is_refused(connect, ErrorKind::Unavailable, hint).await;
}

#[tokio::test]
async fn a_certificate_that_becomes_invalid_counts_nothing() {
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority).start();
    let info = with(server.url(), &authority, None);
    let limiter = limiter(
        RedisStore::builder()
            .options(options())
            .connect(info)
            .await
            .unwrap(),
    );
    assert_eq!(call(&limiter, "alice").await, 8);

    let another = Authority::new().certify();
    for (name, pem) in [
        ("server.pem", another.certificate()),
        ("server.key", another.key()),
    ] {
        std::fs::write(server.folder().join(name), pem).unwrap();
    }
    server.restart();
    let begun = Instant::now();
    let mut error = limiter.check("alice").await.unwrap_err();
    // Until the client notices the lost connection, a call may have been sent.
    while error.kind() == ErrorKind::Unknown {
        assert!(begun.elapsed() < SET_UP, "{error}");
        error = limiter.check("alice").await.unwrap_err();
    }
    for _ in 0..20 {
        let error = limiter.check("alice").await.unwrap_err();
        // A connection that is reset during its handshake looks like one that is lost later.
        let is_lost = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        assert!(is_lost, "{error}");
    }
    assert_eq!(server.command(&["DBSIZE"]).integer(), Some(0));
}

#[tokio::test]
async fn an_address_is_enough_for_a_server_that_the_system_trusts() {
    let test = "tls::an_address_is_enough_for_a_server_that_the_system_trusts";
    let Some(authority) = Authority::of_the_system(test) else {
        return;
    };
    choose();
    let server = Server::options(Flavor::System).tls(&authority);
    let server = server.password("secret").start();
    let store = RedisStore::builder()
        .options(options())
        .connect(server.url())
        .await;
    let limiter = limiter(store.unwrap());
    assert_eq!(call(&limiter, "alice").await, 8);

    let connect = RedisStore::builder()
        .options(options())
        .connect(server.url().replace("secret", "wrong"));
    let hint = "refused the user or password";
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
}

async fn secured_cluster(authority: &Authority) -> Cluster {
    let options = Cluster::options(Flavor::System).masters(3).replicas(0);
    options.tls(authority).password("secret").start()
}

/// Moves a key's slot step by step, so that calls are redirected in every possible way.
async fn follows_a_slot<S: Store>(cluster: &Cluster, limiter: &RateLimiter<S>) {
    for (key, remaining) in [("a", 8), ("b", 8), ("c", 8), ("d", 8), ("old", 8)] {
        assert_eq!(call(limiter, key).await, remaining, "{key}");
    }
    let slot = Cluster::slot_of("old");
    let young = (0..).map(|n| format!("young-{n}"));
    let mut young = young.filter(|key| Cluster::slot_of(key) == slot);
    let young = young.next().unwrap();
    let from = cluster.master_of(slot).port();
    let mut nodes = cluster.nodes().iter();
    let to = nodes.find(|node| node.port() != from).unwrap();

    let migration = cluster.begin_migration(slot, to);
    assert_eq!(call(limiter, "old").await, 7);
    // Redirected with `ASK`, to a node that does not know the script.
    assert_eq!(call(limiter, &young).await, 8);
    assert_eq!(call(limiter, &young).await, 7);
    while migration.move_keys(1) > 0 {}
    assert_eq!(call(limiter, "old").await, 6);
    migration.finish();
    // Redirected with `MOVED`.
    assert_eq!(call(limiter, "old").await, 5);
    assert_eq!(call(limiter, &young).await, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed_from_addresses() {
    let test = "tls::a_cluster_is_followed_from_addresses";
    let Some(authority) = Authority::of_the_system(test) else {
        return;
    };
    choose();
    let cluster = secured_cluster(&authority).await;
    let store = RedisStore::builder()
        .options(options())
        .connect_cluster(cluster.urls())
        .await;
    follows_a_slot(&cluster, &limiter(store.unwrap())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed_with_certificates() {
    choose();
    let authority = Authority::new();
    let cluster = secured_cluster(&authority).await;
    let certificates = certificates(&authority, None);
    let nodes = cluster.urls();
    let store = RedisStore::builder()
        .options(options())
        .certificates(certificates)
        .connect_cluster(nodes)
        .await;
    follows_a_slot(&cluster, &limiter(store.unwrap())).await;

    let hint = "trust the authority that signed it";
    let connect = RedisStore::builder()
        .options(options())
        .connect_cluster(cluster.urls());
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
    let other = self::certificates(&Authority::new(), None);
    let connect = RedisStore::builder()
        .options(options())
        .certificates(other)
        .connect_cluster(cluster.urls());
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
    let none = TlsCertificates {
        client_tls: None,
        root_cert: Some(b"-----BEGIN CERTIFICATE-----\nx".into()),
    };
    let connect = RedisStore::builder()
        .options(options())
        .certificates(none)
        .connect_cluster(cluster.urls());
    let hint = "with these settings";
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed_on_a_given_connection() {
    choose();
    let authority = Authority::new();
    let cluster = secured_cluster(&authority).await;
    let builder = ClusterClientBuilder::new(cluster.urls());
    let builder = builder.certs(certificates(&authority, None));
    let client = connection::cluster(builder, &options()).build().unwrap();
    let connection = client.get_async_connection().await.unwrap();
    let limiter = limiter(RedisStore::with_options(connection, options()));
    follows_a_slot(&cluster, &limiter).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_followed_behind_sentinels() {
    choose();
    let authority = Authority::new();
    let group = SentinelGroup::options(Flavor::System).tls(&authority);
    let group = group.password("secret").sentinel_password("word").start();
    let sentinels = group
        .sentinels()
        .iter()
        .map(|sentinel| ConnectionAddr::TcpTls {
            host: "127.0.0.1".to_owned(),
            port: sentinel.port(),
            insecure: false,
            tls_params: None,
        });
    let primary = SentinelServerType::Master;
    let client = SentinelClientBuilder::new(sentinels, group.primary_name(), primary)
        .unwrap()
        .set_client_to_sentinel_password("word")
        .set_client_to_sentinel_certificates(certificates(&authority, None))
        .set_client_to_redis_password("secret")
        .set_client_to_redis_tls_mode(TlsMode::Secure)
        .set_client_to_redis_certificates(certificates(&authority, None))
        .set_client_to_redis_protocol(ProtocolVersion::RESP3)
        .set_client_to_redis_tcp_settings(connection::tcp())
        .build()
        .unwrap();
    let connection = SentinelConnection::new(client).await.unwrap();
    let limiter = limiter(RedisStore::with_options(connection, options()));
    assert_eq!(call(&limiter, "alice").await, 8);

    follows_a_failover(&group, &limiter).await;

    let hint = "trust the authority that signed it";
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    let connect = RedisStore::builder()
        .options(options())
        .connect_sentinel(urls, name);
    is_refused(connect, ErrorKind::Misconfigured, hint).await;
}
