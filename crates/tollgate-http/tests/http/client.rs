//! A client, and servers on free ports.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

/// A response whose body has been read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes, Error: Debug>,
    {
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Returns a header's lines, joined, or nothing.
    pub(crate) fn header(&self, name: &str) -> String {
        let lines = self.headers.get_all(name).iter();
        let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap()).collect();
        lines.join(", ")
    }
}

/// Returns a listener on a free port, and its address.
pub(crate) async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Sends a request on a connection of its own.
pub(crate) async fn send(request: Request<Full<Bytes>>) -> Answer {
    send_from(Ipv4Addr::LOCALHOST, request).await
}

/// Sends a request on a connection of its own from `local`, such as 127.0.0.2.
pub(crate) async fn send_from(local: Ipv4Addr, request: Request<Full<Bytes>>) -> Answer {
    Answer::read(ask_from(local, request).await).await
}

pub(crate) async fn ask_from(local: Ipv4Addr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let mut connector = HttpConnector::new();
    connector.set_local_address(Some(local.into()));
    let client = Client::builder(TokioExecutor::new()).build(connector);
    client.request(request).await.unwrap()
}

/// Returns a request to `address` without a body.
pub(crate) fn get(address: SocketAddr, path: &str) -> Request<Full<Bytes>> {
    request("GET", address, path).body(Full::default()).unwrap()
}

/// Returns a request to `address`.
pub(crate) fn request(method: &str, address: SocketAddr, path: &str) -> http::request::Builder {
    let uri = format!("http://{address}{path}");
    Request::builder().method(method).uri(uri)
}
