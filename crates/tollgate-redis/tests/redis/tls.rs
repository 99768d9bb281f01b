//! Certificates that redis-rs is given, or that a server changes.

use std::time::{Duration, Instant};

use tollgate_core::ErrorKind;
use tollgate_redis::RedisStoreBuilder;
use tollgate_redis::connection::{self, SentinelConnection};
use tollgate_redis::redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use tollgate_redis::redis::{
    ConnectionAddr, ProtocolVersion, RedisError, TlsCertificates, TlsMode,
};
use tollgate_scenarios::Client;
use tollgate_scenarios::{refusals, secured as shared};
use tollgate_testkit::{Authority, Cluster, Flavor, SentinelGroup, Server};

use crate::client::{Redis, certificates};
use crate::cluster::follow_a_slot;
use shared::{
    DISTRUSTED, call, choose, decides, follows_a_failover, is_misconfigured, let_in, limiter,
    options,
};

#[tokio::test]
async fn a_certificate_that_becomes_invalid_counts_nothing() {
    choose();
    let authority = Authority::new();
    let server = Server::options(Flavor::System).tls(&authority).start();
    let url = server.url();
    let client = Redis { batched: false };
    let store = client.trusting(&url, &authority, None, options()).await;
    let limiter = limiter(store.unwrap());
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
        assert!(begun.elapsed() < Duration::from_secs(4), "{error}");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_followed_with_certificates() {
    choose();
    let authority = Authority::new();
    let cluster = Cluster::options(Flavor::System).masters(3).replicas(0);
    let cluster = cluster.tls(&authority).password("secret").start();
    let connect = |certificates| {
        let builder = RedisStoreBuilder::from(options());
        let builder = builder.certificates(certificates);
        builder.connect_cluster(cluster.urls())
    };
    let store = connect(certificates(&authority, None)).await;
    let limiter = refusals::limiter(store.unwrap());
    follow_a_slot(&cluster, &limiter).await;

    let builder = RedisStoreBuilder::from(options());
    is_misconfigured(builder.connect_cluster(cluster.urls()), DISTRUSTED).await;
    let other = certificates(&Authority::new(), None);
    is_misconfigured(connect(other), DISTRUSTED).await;
    let none = TlsCertificates {
        client_tls: None,
        root_cert: Some(b"-----BEGIN CERTIFICATE-----\nx".into()),
    };
    is_misconfigured(connect(none), "with these settings").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_is_followed_behind_sentinels() {
    choose();
    let authority = Authority::new();
    let group = SentinelGroup::options(Flavor::System).tls(&authority);
    let group = group.password("secret").sentinel_password("word").start();
    for server in group.servers() {
        let_in(server, &["+role"]);
    }
    let connect = async |word: &str, user: &str, secret: &str| {
        let sentinels = group.sentinels().iter();
        let sentinels = sentinels.map(|sentinel| ConnectionAddr::TcpTls {
            host: "127.0.0.1".to_owned(),
            port: sentinel.port(),
            insecure: false,
            tls_params: None,
        });
        let primary = SentinelServerType::Master;
        let client = SentinelClientBuilder::new(sentinels, group.primary_name(), primary)
            .unwrap()
            .set_client_to_sentinel_password(word)
            .set_client_to_sentinel_certificates(certificates(&authority, None))
            .set_client_to_redis_username(user)
            .set_client_to_redis_password(secret)
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates(&authority, None))
            .set_client_to_redis_protocol(ProtocolVersion::RESP3)
            .set_client_to_redis_tcp_settings(connection::tcp())
            .build()
            .unwrap();
        let connection = SentinelConnection::new(client).await?;
        Ok::<_, RedisError>(RedisStoreBuilder::from(options()).over(connection).unwrap())
    };
    decides(Ok(connect("word", "default", "secret").await.unwrap())).await;
    for (word, secret) in [("secret", "word"), ("word", "word")] {
        assert!(connect(word, "default", secret).await.is_err(), "{word}");
    }
    let limiter = limiter(connect("word", "limiter", "secret").await.unwrap());
    assert_eq!(call(&limiter, "carol").await, 8);
    follows_a_failover(&group, &limiter).await;

    let builder = RedisStoreBuilder::from(options());
    let connect = builder.connect_sentinel(group.sentinel_urls(), group.primary_name());
    is_misconfigured(connect, DISTRUSTED).await;
}
