//! A server of hyper alone that serves each address at most 5 times a minute.
//!
//! ```sh
//! cargo run --all-features -p tollgate-http --example hyper
//! curl -i http://127.0.0.1:3000
//! ```

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate_http::inbound::{ClientIp, InboundLayer, Peer};
use tollgate_memory::{MemoryStore, RateLimiter};
use tower::{Layer, ServiceExt, service_fn};

async fn welcome(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("welcome\n")))
}

/// Serves on `listener`.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::new(MemoryStore::new(), ["minute=sliding-log:5/1m"])?;
    let limited = InboundLayer::new(limiter, ClientIp::peer()).layer(service_fn(welcome));
    loop {
        let (stream, address) = listener.accept().await?;
        let peer = Peer(address.ip());
        let service = limited.clone().map_request(move |mut request: Request<_>| {
            let _ = request.extensions_mut().insert(peer);
            request
        });
        drop(tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            let service = TowerToHyperService::new(service);
            // An error ends this connection only.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}
