//! A gRPC service that serves each address at most 5 times a second.
//!
//! A denied call has the status `RESOURCE_EXHAUSTED` and says when to call again, in `RetryInfo` and
//! in `grpc-retry-pushback-ms`, which clients obey by themselves.
//!
//! ```sh
//! cargo run -p tollgate-interop --example grpc
//! ```

use std::error::Error;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::{MemoryStore, RateLimiter};
use tonic::transport::Server;

/// Serves on `listener`.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::new(MemoryStore::new(), ["calls=sliding-log:5/1s"])?;
    let (_, health) = tonic_health::server::health_reporter();
    Server::builder()
        .layer(InboundLayer::new(limiter, ClientIp::peer()))
        .add_service(health)
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}
