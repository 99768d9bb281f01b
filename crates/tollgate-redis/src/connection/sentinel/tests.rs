//! Tests of `SentinelConnection`.

use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{Client, ConnectionAddr, ProtocolVersion};
use tollgate_testkit::{FakeServer, Flavor, Server};

use super::*;

async fn connect(server: &Server) -> MultiplexedConnection {
    let client = Client::open(server.url()).unwrap();
    let config = multiplexed();
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.unwrap()
}

#[tokio::test]
async fn a_replica_is_recognized_by_its_reply() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let mut connection = connect(&server).await;
        server.command(&["REPLICAOF", "127.0.0.1", "1"]);
        let mut set = redis::cmd("SET");
        set.arg("key").arg(1);
        let mut script = redis::cmd("EVAL");
        script.arg("return redis.call('SET', KEYS[1], 1)").arg(1);
        script.arg("key");
        let mut transaction = redis::pipe();
        transaction.atomic().add_command(set.clone());
        for said in [
            set.query_async::<()>(&mut connection).await,
            script.query_async(&mut connection).await,
            transaction.query_async(&mut connection).await,
        ] {
            let error = said.unwrap_err();
            assert!(failure::is_of_replica(&error), "{flavor}: {error}");
        }
        let other = redis::cmd("GET").query_async::<()>(&mut connection).await;
        assert!(!failure::is_of_replica(&other.unwrap_err()));
    }
}

#[tokio::test]
async fn one_command_of_many_that_a_replica_refuses_is_enough() {
    let server = FakeServer::start(|words| match &*words[0] {
        "GET" => "-OOM no\r\n".into(),
        "SET" => "-READONLY no\r\n".into(),
        _ => "+OK\r\n".into(),
    });
    let client = Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut pipeline = redis::pipe();
    pipeline.get("key").set("key", 1);
    let refused = pipeline.query_async::<()>(&mut connection).await;
    let error = refused.unwrap_err();
    assert!(failure::is_of_replica(&error), "{error}");
}

/// A primary and its Sentinel.
struct Service {
    primary: FakeServer,
    sentinel: FakeServer,
    /// Whether the Sentinel names the primary.
    is_named: Arc<AtomicBool>,
}

impl Service {
    fn start() -> Self {
        let primary = FakeServer::start(|words| match &*words[0] {
            "HELLO" => "%1\r\n+proto\r\n:3\r\n".into(),
            "ROLE" => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".into(),
            _ => "+OK\r\n".into(),
        });
        let is_named = Arc::new(AtomicBool::new(true));
        let named = format!(
            "*1\r\n*8\r\n+name\r\n+primary\r\n+flags\r\n+master\r\n\
                 +ip\r\n+127.0.0.1\r\n+port\r\n+{}\r\n",
            primary.port()
        );
        let is_shown = Arc::clone(&is_named);
        let sentinel = FakeServer::start(move |words| match &*words[0] {
            "ROLE" => "*2\r\n$8\r\nsentinel\r\n*0\r\n".into(),
            "SENTINEL" if is_shown.load(Ordering::SeqCst) => named.as_str().into(),
            "SENTINEL" => "*0\r\n".into(),
            _ => "+OK\r\n".into(),
        });
        Self {
            primary,
            sentinel,
            is_named,
        }
    }

    fn client(&self, protocol: ProtocolVersion) -> SentinelClient {
        let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), self.sentinel.port());
        let builder = SentinelClientBuilder::new([address], "primary", SentinelServerType::Master);
        let builder = builder.unwrap().set_client_to_redis_db(3);
        builder
            .set_client_to_redis_protocol(protocol)
            .build()
            .unwrap()
    }

    async fn connect(&self) -> SentinelConnection {
        let client = self.client(ProtocolVersion::RESP3);
        SentinelConnection::new(client).await.unwrap()
    }

    /// How often the Sentinel was asked.
    fn asked(&self) -> usize {
        self.sentinel.count("SENTINEL")
    }
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < Duration::from_secs(5), "it never is");
        sleep(Duration::from_millis(1)).await;
    }
}

fn is_connected(connection: &SentinelConnection) -> bool {
    let shown = format!("{connection:?}");
    let found = shown.contains("is_connected: true");
    assert_ne!(found, shown.contains("is_connected: false"));
    shown.contains("is_connected: true")
}

async fn call(connection: &mut SentinelConnection) -> RedisResult<()> {
    redis::cmd("SET")
        .arg("key")
        .arg(1)
        .query_async(connection)
        .await
}

#[tokio::test]
async fn a_primary_must_be_found_first() {
    let service = Service::start();
    service.is_named.store(false, Ordering::SeqCst);
    let client = service.client(ProtocolVersion::RESP3);
    assert!(SentinelConnection::new(client).await.is_err());
}

#[tokio::test]
async fn a_client_without_resp3_works() {
    let service = Service::start();
    let client = service.client(ProtocolVersion::RESP2);
    let mut connection = SentinelConnection::new(client).await.unwrap();
    call(&mut connection).await.unwrap();
    assert_eq!(service.primary.count("HELLO"), 0);
}

#[tokio::test]
async fn a_store_asks_the_primary_for_resp3() {
    let service = Service::start();
    let urls = [service.sentinel.url()];
    crate::RedisStore::connect_sentinel(urls, "primary")
        .await
        .unwrap();
    assert_ne!(service.primary.count("HELLO"), 0);
}

/// Twice, because a search must not keep later ones from starting.
#[tokio::test]
async fn a_lost_primary_is_looked_for_until_it_is_found() {
    let service = Service::start();
    let mut connection = service.connect().await;
    for _ in 0..2 {
        assert!(is_connected(&connection));
        assert_eq!(connection.get_db(), 3);
        call(&mut connection).await.unwrap();

        // Nothing is called: the connection itself notices.
        service.is_named.store(false, Ordering::SeqCst);
        service.primary.cut();
        until(async || !is_connected(&connection)).await;
        assert_eq!(connection.get_db(), 0);
        let is_explained = |error: RedisError| error.to_string().contains("Master");
        until(async || is_explained(call(&mut connection).await.unwrap_err())).await;
        assert!(
            call(&mut connection)
                .await
                .unwrap_err()
                .is_connection_refusal()
        );

        service.is_named.store(true, Ordering::SeqCst);
        until(async || is_connected(&connection)).await;
        until(async || !connection.0.is_seeking.load(Ordering::SeqCst)).await;
    }
}

/// As when the runtime of an earlier search has ended.
#[tokio::test]
async fn a_call_starts_a_search_if_there_is_none() {
    let service = Service::start();
    let mut connection = service.connect().await;
    lock(&connection.0.state).primary = Err(disconnected());
    call(&mut connection).await.unwrap_err();
    until(async || is_connected(&connection)).await;
}

#[tokio::test]
async fn a_search_ends_with_its_connection() {
    let search = Seeking(Weak::new()).run();
    let ended = tokio::time::timeout(Duration::from_secs(5), search).await;
    ended.expect("nothing needs it");
}

#[tokio::test]
async fn calls_do_not_make_the_search_hurry() {
    let service = Service::start();
    let mut connection = service.connect().await;
    service.is_named.store(false, Ordering::SeqCst);
    service.primary.cut();
    let before = service.asked();
    let lost = Instant::now();
    while lost.elapsed() < Duration::from_millis(300) {
        let _ = call(&mut connection).await;
        tokio::task::yield_now().await;
    }
    // The pauses are 50, 100 and 200 ms.
    let asked = service.asked() - before;
    assert!((1..=3).contains(&asked), "{asked} times");
}

/// Makes a connection whose calls find no reply, and returns what it is made of.
async fn unanswered(service: &Service) -> (Arc<Shared>, Unanswered) {
    let shared = service.connect().await.0;
    lock(&shared.state).found -= TRUST;
    let (_, call) = shared.primary().unwrap();
    assert!(!shared.is_seeking.load(Ordering::SeqCst));
    (shared, call)
}

#[tokio::test]
async fn the_end_of_a_call_decides_whether_the_primary_is_kept() {
    fn server(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), None)
    }
    let io = |kind| RedisError::from(io::Error::from(kind));
    let service = Service::start();
    for (outcome, is_kept, is_doubted) in [
        (Ok(()), true, false),
        (Err(server("OOM")), true, false),
        (Err(io(io::ErrorKind::TimedOut)), true, true),
        (Err(io(io::ErrorKind::BrokenPipe)), false, true),
        (Err(server("READONLY")), false, true),
    ] {
        let (shared, call) = unanswered(&service).await;
        let shown = format!("{outcome:?}");
        assert_eq!(call.end(outcome.clone()).is_ok(), outcome.is_ok());
        assert_eq!(lock(&shared.state).primary.is_ok(), is_kept, "{shown}");
        let found = shared.is_seeking.load(Ordering::SeqCst);
        assert_eq!(found, is_doubted, "{shown}");
    }
    let (shared, call) = unanswered(&service).await;
    drop(call);
    assert!(lock(&shared.state).primary.is_ok());
    assert!(shared.is_seeking.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_primary_that_was_just_found_is_trusted() {
    let service = Service::start();
    let (shared, call) = unanswered(&service).await;
    shared.find().await.unwrap();
    let found = lock(&shared.state).found;
    assert!(found.elapsed() < TRUST);
    // Nor is it doubted for calls of an earlier connection.
    drop(call);
    assert!(!shared.is_seeking.load(Ordering::SeqCst));
    let state = lock(&shared.state);
    let generation = state.generation;
    let almost = TRUST - Duration::from_nanos(1);
    assert!(!state.is_doubtful(generation, found + almost));
    assert!(state.is_doubtful(generation, found + TRUST));
    assert!(!state.is_doubtful(generation - 1, found + TRUST));
}

#[tokio::test]
async fn news_of_an_earlier_connection_are_ignored() {
    let service = Service::start();
    let shared = service.connect().await.0;
    let earlier = lock(&shared.state).generation;
    shared.find().await.unwrap();
    shared.lose(earlier, &disconnected());
    assert!(lock(&shared.state).primary.is_ok());
    assert!(!shared.is_seeking.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_connection_lost_before_its_first_use_is_not_used() {
    let service = Service::start();
    let shared = service.connect().await.0;
    let client = Client::open(service.primary.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let is_lost = Arc::default();
    let generation = lock(&shared.state).generation + 1;
    let listener = shared.listener(generation, &is_lost);
    let news = |kind| PushInfo {
        kind,
        data: Vec::new(),
    };
    listener(news(PushKind::Invalidate)).unwrap();
    shared
        .install(connection.clone(), generation, &is_lost)
        .unwrap();
    listener(news(PushKind::Disconnection)).unwrap();
    assert!(lock(&shared.state).primary.is_err());
    shared
        .install(connection, generation, &is_lost)
        .unwrap_err();
    assert!(lock(&shared.state).primary.is_err());
}
