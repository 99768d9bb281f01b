//! Servers and proxies that refuse `HELLO`, which asks for the third version of the protocol.

use tollgate_core::{ErrorKind, RateLimiter, Store};
use tollgate_redis::RedisStore;
use tollgate_redis::redis::ProtocolVersion;
use tollgate_testkit::{FakeServer, Flavor, Server};

async fn decides(store: impl Store) {
    let limiter = RateLimiter::new(store, ["login=gcra:1/1m"]).unwrap();
    assert!(limiter.check("key").await.unwrap().is_allowed());
    assert!(limiter.check("key").await.unwrap().is_denied());
}

fn without_hello() -> Server {
    let options = Server::options(Flavor::System);
    options.args(["--rename-command", "HELLO", ""]).start()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_hello_is_spoken_to_in_the_older_protocol() {
    let server = without_hello();
    decides(RedisStore::connect(server.url()).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_protocol_can_be_chosen() {
    let server = Server::start(Flavor::System);
    let builder = RedisStore::builder().protocol(ProtocolVersion::RESP2);
    decides(builder.connect(server.url()).await.unwrap()).await;
    assert!(server.calls("hello") == 0);
    let builder = RedisStore::builder().prefix("other");
    decides(builder.connect(server.url()).await.unwrap()).await;
    assert!(server.calls("hello") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_names_what_the_server_refused() {
    for said in [
        "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 's3cret'",
        "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cret`, ",
        "NOPROTO unsupported protocol version",
        "NOPERM this user has no permissions to run the 'hello' command",
    ] {
        let server = FakeServer::start(move |words| match &*words[0] {
            "HELLO" => format!("-{said}\r\n").into(),
            _ => "+OK\r\n".into(),
        });
        let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
        RedisStore::connect(url.clone()).await.unwrap();
        let builder = RedisStore::builder().protocol(ProtocolVersion::RESP3);
        let error = builder.connect(url).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("`HELLO`"), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
