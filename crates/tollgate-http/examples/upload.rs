//! Uploads of at most 10 MiB a minute from one address, and two at once:
//! ```sh
//! cargo run --all-features -p tollgate-http --example upload
//! head -c 6000000 /dev/zero | curl -i --data-binary @- http://127.0.0.1:3000/upload
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::routing::post;
use tokio::net::TcpListener;
use tollgate_http::inbound::{Charge, ClientIp, InboundLayer, Policy};
use tollgate_memory::lease::ConcurrencyLimiter;
use tollgate_memory::{MemoryStore, RateLimiter};

const LARGEST: usize = 8 << 20;

/// The cost is what arrived, whatever the request said.
async fn upload(charge: Charge, body: Bytes) -> String {
    charge.set(kibibytes(body.len()));
    format!("{} bytes\n", body.len())
}

fn kibibytes(bytes: usize) -> u64 {
    bytes.div_ceil(1024).try_into().unwrap_or(u64::MAX)
}

/// Returns what a request says, or the most if it does not say.
fn announced(parts: &Parts) -> u64 {
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    kibibytes(length.unwrap_or(LARGEST))
}

/// Serves on `listener`.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let store = Arc::new(MemoryStore::new());
    let at_once = ConcurrencyLimiter::new(store.clone(), "uploads", 2, Duration::from_secs(30))?;
    let limiter = RateLimiter::new(store, ["kibibytes=gcra:10240/1m"])?;
    let policy = Policy::new(ClientIp::peer());
    let policy = policy.cost(announced).settle_by_handler();
    let limits = InboundLayer::new(limiter, policy).hold(at_once);
    let app = Router::new().route("/upload", post(upload));
    let app = app.layer(limits).layer(DefaultBodyLimit::max(LARGEST));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}
