//! Places that clients hold are given back, however their requests and connections end.

use std::convert::Infallible;
use std::future::pending;
use std::mem;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{any, get as on_get, post};
use futures_util::{FutureExt, Stream, StreamExt, stream};
use http::StatusCode;
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_http::inbound::{ClientIp, InboundLayer, Place};
use tollgate_memory::lease::{self, ConcurrencyLimiter};
use tollgate_memory::{MemoryStore, RateLimiter};
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};

use crate::client::*;

/// How long to wait for what should happen soon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Serves `app` on a free port, and returns its address.
pub(crate) async fn serve(app: Router) -> SocketAddr {
    let (listener, address) = listener().await;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    drop(tokio::spawn(
        async move { axum::serve(listener, app).await },
    ));
    address
}

/// A server that serves each client a number of requests at once.
pub(crate) struct Holding {
    pub(crate) address: SocketAddr,
    leases: ConcurrencyLimiter<Arc<dyn lease::Store>>,
    arrived: Arc<AtomicUsize>,
}

impl Holding {
    pub(crate) async fn serve(amount: u64, client: ClientIp) -> Self {
        Self::serve_by(Arc::new(MemoryStore::new()), amount, client).await
    }

    /// Serves with the places in `store`.
    async fn serve_by(store: Arc<dyn lease::Store>, amount: u64, client: ClientIp) -> Self {
        // Leases do not end by themselves while a test runs.
        let hour = Duration::from_secs(3600);
        let leases = ConcurrencyLimiter::new(store, "requests", amount, hour).unwrap();
        let limits = ["requests=sliding-log:1000/1h"];
        let limiter = RateLimiter::new(MemoryStore::new(), limits).unwrap();
        let arrived = Arc::new(AtomicUsize::new(0));
        let arrives = arrived.clone();
        let layer = InboundLayer::new(limiter, client)
            .hold(leases.clone())
            .skip(move |_| {
                let _ = arrives.fetch_add(1, Ordering::Relaxed);
                false
            });
        let app = Router::new()
            .route("/", any(async || "welcome"))
            .route("/upload", post(async |_: Bytes| "thanks"))
            .route("/never", any(pending::<()>))
            .route("/silent", any(async || endless(pending)))
            .route("/flood", any(async || endless(async || CHUNK)))
            .route("/panic", any(panics))
            .route("/panic-later", any(async || endless(panics)))
            .route("/socket", on_get(socket))
            .layer(layer);
        let address = serve(app).await;
        Self {
            address,
            leases,
            arrived,
        }
    }

    /// Waits until the client holds `count` places.
    pub(crate) async fn until_held(&self, count: u64) {
        let held = async || self.leases.peek("127.0.0.1").await.unwrap().held();
        let reached = async {
            while held().await != count {
                sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(PATIENCE, reached).await.is_err() {
            panic!("{} places are held, not {count}", held().await);
        }
    }

    /// Waits until all places are held. Another request is refused.
    pub(crate) async fn until_full(&self) {
        self.until_held(self.leases.terms().amount()).await;
        assert_eq!(send(get(self.address, "/")).await.status, 429);
    }

    /// Waits until no place is held. Another request is served.
    pub(crate) async fn until_free(&self) {
        self.until_held(0).await;
        assert_eq!(send(get(self.address, "/")).await.status, 200);
    }
}

const CHUNK: Bytes = Bytes::from_static(&[b'a'; 4096]);

/// Returns a response with a first chunk, and then those that `next` returns.
fn endless<F>(next: impl Fn() -> F + Send + 'static) -> Body
where
    F: Future<Output = Bytes> + Send + 'static,
{
    let first = stream::once(async { CHUNK });
    let rest = stream::repeat_with(next).then(|chunk| chunk);
    Body::from_stream(first.chain(rest).map(Ok::<_, Infallible>))
}

async fn panics() -> Bytes {
    tokio::task::yield_now().await;
    panic!("a handler panics");
}

/// Talks to the client after the response, and keeps the place as long: returns what it sends, until
/// that is `close` or `panic`.
async fn socket(place: Place, request: Request) -> Response {
    let upgrade = hyper::upgrade::on(request);
    drop(tokio::spawn(async move {
        let _place = place;
        let mut socket = TokioIo::new(upgrade.await.unwrap());
        let mut buffer = [0; 16];
        while let Ok(read @ 1..) = socket.read(&mut buffer).await {
            match &buffer[..read] {
                b"close" => break,
                b"panic" => panic!("a socket panics"),
                bytes => socket.write_all(bytes).await.unwrap(),
            }
        }
    }));
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header("connection", "upgrade");
    let response = response.header("upgrade", "echo");
    response.body(Body::empty()).unwrap()
}

/// Connects, and writes `text`.
pub(crate) async fn open(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// The start of an HTTP/1.1 request.
pub(crate) fn head(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n")
}

/// Reads until `end` has come.
pub(crate) async fn read_until(stream: &mut TcpStream, end: &[u8]) {
    let mut read = Vec::new();
    while !read.windows(end.len()).any(|bytes| bytes == end) {
        read.push(stream.read_u8().await.unwrap());
    }
}

/// How a client leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaving {
    Closing,
    /// As if it had crashed.
    Resetting,
}

impl Leaving {
    pub(crate) const ALL: [Self; 2] = [Self::Closing, Self::Resetting];

    fn prepare(self, stream: &TcpStream) {
        if let Self::Resetting = self {
            stream.set_zero_linger().unwrap();
        }
    }

    pub(crate) fn leave(self, stream: TcpStream) {
        self.prepare(&stream);
    }
}

#[tokio::test]
async fn clients_that_leave_before_the_response_give_their_places_back() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    let upload = head("POST", "/upload");
    for text in [
        // In the body of the request.
        format!("{upload}content-length: 9\r\n\r\na"),
        format!("{upload}transfer-encoding: chunked\r\n\r\n1\r\na\r\n"),
        head("GET", "/never") + "\r\n",
    ] {
        for leaving in Leaving::ALL {
            let stream = open(server.address, &text).await;
            server.until_full().await;
            leaving.leave(stream);
            server.until_free().await;
        }
    }
}

/// The store grants places to requests that are gone.
#[tokio::test]
async fn clients_that_leave_while_the_store_is_slow_give_their_places_back() {
    let redis = Server::start(Flavor::System);
    let store = RedisStore::builder().deadline(PATIENCE);
    let store = Arc::new(store.connect(redis.url()).await.unwrap());
    let server = Holding::serve_by(store, 5, ClientIp::peer()).await;
    server.until_free().await;
    for leaving in Leaving::ALL {
        redis.pause();
        let before = server.arrived.load(Ordering::Relaxed);
        let mut streams = Vec::new();
        for _ in 0..5 {
            streams.push(open(server.address, &(head("GET", "/silent") + "\r\n")).await);
        }
        while server.arrived.load(Ordering::Relaxed) < before + 5 {
            sleep(Duration::from_millis(2)).await;
        }
        for stream in streams {
            leaving.leave(stream);
        }
        sleep(Duration::from_millis(20)).await;
        redis.resume();
        server.until_free().await;
    }
}

#[tokio::test]
async fn clients_that_leave_in_the_response_give_their_places_back() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    for path in ["/silent", "/flood"] {
        for leaving in Leaving::ALL {
            let mut stream = open(server.address, &(head("GET", path) + "\r\n")).await;
            read_until(&mut stream, b"aaaa").await;
            server.until_full().await;
            leaving.leave(stream);
            server.until_free().await;
        }
    }
}

#[tokio::test]
async fn a_response_without_its_body_keeps_no_place() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    let mut stream = open(server.address, &(head("HEAD", "/silent") + "\r\n")).await;
    read_until(&mut stream, b"\r\n\r\n").await;
    server.until_free().await;
}

/// A client that sends all of its request before it reads gets the response.
#[tokio::test]
async fn refused_uploads_get_their_response() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    let _stream = open(server.address, &(head("GET", "/silent") + "\r\n")).await;
    server.until_full().await;
    let body = vec![0; 20 << 20];
    let upload = head("POST", "/upload") + &format!("content-length: {}\r\n\r\n", body.len());
    let mut stream = open(server.address, &upload).await;
    stream.write_all(&body).await.unwrap();
    read_until(&mut stream, b"HTTP/1.1 429").await;
    read_until(&mut stream, b"retry-after: 1\r\n").await;
}

/// A connection of HTTP/2.
struct Connection {
    sender: SendRequest<BoxBody<Bytes, Infallible>>,
    tasks: Tasks,
}

/// All tasks of a client's connection, one of which has the socket.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let _ = self.0.lock().unwrap().spawn(task.map(drop));
    }
}

impl Connection {
    async fn open(server: &Holding, leaving: Leaving) -> Self {
        let stream = TcpStream::connect(server.address).await.unwrap();
        leaving.prepare(&stream);
        let tasks = Tasks::default();
        let opened = handshake(tasks.clone(), TokioIo::new(stream)).await;
        let (sender, connection) = opened.unwrap();
        tasks.execute(connection);
        Self { sender, tasks }
    }

    /// Sends a request, whose body has a chunk and then never ends if it is an upload.
    fn send(
        &mut self,
        server: &Holding,
        path: &str,
    ) -> impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>> + use<> {
        let (method, body) = match path {
            "/upload" => ("POST", BodyExt::boxed(StreamBody::new(upload()))),
            _ => ("GET", Empty::new().boxed()),
        };
        let request = request(method, server.address, path).body(body);
        self.sender.send_request(request.unwrap())
    }
}

fn upload() -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> {
    stream::iter([Ok(Frame::data(CHUNK))]).chain(stream::pending())
}

#[tokio::test]
async fn streams_that_are_reset_give_their_places_back() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    let mut connection = Connection::open(&server, Leaving::Closing).await;
    for path in ["/silent", "/flood"] {
        let response = connection.send(&server, path).await.unwrap();
        assert_eq!(response.status(), 200);
        server.until_full().await;
        drop(response);
        server.until_free().await;
    }
    for path in ["/upload", "/never"] {
        let response = tokio::spawn(connection.send(&server, path));
        server.until_full().await;
        response.abort();
        server.until_free().await;
    }
    let response = connection.send(&server, "/").await.unwrap();
    let found = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(found, "welcome");
}

#[tokio::test]
async fn connections_that_end_give_the_places_of_their_streams_back() {
    let server = Holding::serve(20, ClientIp::peer()).await;
    for leaving in Leaving::ALL {
        for is_killed in [false, true] {
            let mut connection = Connection::open(&server, leaving).await;
            let mut responses = JoinSet::new();
            for path in ["/silent", "/flood", "/upload", "/never"] {
                for _ in 0..5 {
                    let _ = responses.spawn(connection.send(&server, path));
                }
            }
            server.until_full().await;
            let tasks = mem::take(&mut *connection.tasks.0.lock().unwrap());
            if is_killed {
                drop(tasks);
            } else {
                // The client sends `GOAWAY` when nothing uses the connection any more.
                drop((connection, responses));
                let _ = tasks.join_all().await;
            }
            server.until_free().await;
        }
    }
}

#[tokio::test]
async fn handlers_that_panic_give_their_places_back() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    for path in ["/panic", "/panic-later"] {
        let mut stream = open(server.address, &(head("GET", path) + "\r\n")).await;
        let mut read = Vec::new();
        // The connection ends.
        let _ = stream.read_to_end(&mut read).await.unwrap();
        server.until_free().await;
        let mut connection = Connection::open(&server, Leaving::Closing).await;
        if let Ok(response) = connection.send(&server, path).await {
            let _ = response.into_body().collect().await.unwrap_err();
        }
        server.until_free().await;
    }
}

/// Opens a socket, and makes sure that it is open.
pub(crate) async fn open_socket(address: SocketAddr) -> TcpStream {
    let upgrade = head("GET", "/socket") + "connection: upgrade\r\nupgrade: echo\r\n\r\n";
    let mut stream = open(address, &upgrade).await;
    read_until(&mut stream, b"\r\n\r\n").await;
    stream.write_all(b"hello").await.unwrap();
    read_until(&mut stream, b"hello").await;
    stream
}

#[tokio::test]
async fn sockets_keep_their_places_until_they_are_closed() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    for leaving in Leaving::ALL {
        let stream = open_socket(server.address).await;
        server.until_full().await;
        leaving.leave(stream);
        server.until_free().await;
    }
    for ending in ["close", "panic"] {
        let mut stream = open_socket(server.address).await;
        server.until_full().await;
        stream.write_all(ending.as_bytes()).await.unwrap();
        server.until_free().await;
    }
}

/// The client does not ask for an upgrade, but the handler waits for it.
#[tokio::test]
async fn a_socket_that_never_opens_keeps_no_place() {
    let server = Holding::serve(1, ClientIp::peer()).await;
    let mut stream = open(server.address, &(head("GET", "/socket") + "\r\n")).await;
    read_until(&mut stream, b"\r\n\r\n").await;
    server.until_free().await;
}
