//! A login that serves each address at most 5 times a minute and 20 times an hour.
//!
//! ```sh
//! cargo run --all-features -p tollgate-http --example login
//! curl -i -X POST http://127.0.0.1:3000/login
//! ```
//!
//! <http://127.0.0.1:3000> is a form that counts down the time until the next attempt.
//! It counts in memory, or for a whole fleet with `STORE=redis://127.0.0.1:6379`, and listens on
//! `PORT`, 3000 by default.

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::response::Html;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::MemoryStore;
use tollgate_redis::{RateLimiter, RedisStore, Store};

async fn login() -> &'static str {
    "welcome\n"
}

/// Serves on `listener`, and counts on the server at `store`, or in memory.
pub(crate) async fn serve(
    listener: TcpListener,
    store: Option<String>,
) -> Result<(), Box<dyn Error>> {
    let store: Arc<dyn Store> = match store {
        Some(url) => Arc::new(RedisStore::connect(url).await?),
        None => Arc::new(MemoryStore::new()),
    };
    let limits = [
        "login-minute=sliding-log:5/1m",
        "login-hour=sliding-log:20/1h",
    ];
    let layer = InboundLayer::new(RateLimiter::new(store, limits)?, ClientIp::peer());
    let app = Router::new()
        .route("/", get(async || Html(include_str!("login.html"))))
        .route("/login", post(login).layer(layer));
    // With the address of each connection, which is what requests are counted by.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Shows warnings, such as that of a proxy that is not known.
    tracing_subscriber::fmt::init();
    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    serve(listener, env::var("STORE").ok()).await
}
