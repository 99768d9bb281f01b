//! A server that a proxy asks before each request, so that services in any language are limited.
//!
//! ```sh
//! cargo run --all-features -p tollgate-http --example forward_auth
//! curl -i http://127.0.0.1:3000/traefik
//! ```
//!
//! `docs/recipes.md` has what to write into the configuration of nginx, Traefik and Caddy.
//! It counts in memory, or for several proxies with `STORE=redis://127.0.0.1:6379`, and listens on
//! `LISTEN`, `127.0.0.1:3000` by default.
//! Whoever calls from an address in `PROXIES`, `127.0.0.1,::1` by default, is believed what it says of
//! the client's address, in the last entry of `X-Forwarded-For`; let nobody else reach the port.

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::{Response, StatusCode};
use axum::routing::any;
use tokio::net::TcpListener;
use tollgate_http::inbound::{Cause, ClientIp, InboundLayer};
use tollgate_memory::MemoryStore;
use tollgate_redis::{RateLimiter, RedisStore, Store};

/// Serves on `listener` the proxies at these addresses.
pub(crate) async fn serve(
    listener: TcpListener,
    store: Arc<dyn Store>,
    proxies: &str,
) -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::new(store, ["calls=sliding-log:100/1m"])?;
    let client = ClientIp::behind(proxies.split(','))?;
    let limits = InboundLayer::new(limiter, client);
    let answering = |denied| {
        limits.clone().respond(move |refusal| {
            let mut response = Response::default();
            *response.status_mut() = match refusal.cause() {
                Cause::Denied => denied,
                _ => refusal.status(),
            };
            response
        })
    };
    // Traefik and Caddy pass any answer but 2xx on to the client, with its headers: also for gRPC, whose own
    // refusals have the status 200.
    let for_traefik = answering(StatusCode::TOO_MANY_REQUESTS);
    // For nginx, 401 and 403 are refusals, and everything else is an error of this server.
    let for_nginx = answering(StatusCode::FORBIDDEN);
    let admitted = || any(async || StatusCode::NO_CONTENT);
    let app = Router::new()
        .route("/traefik", admitted().layer(for_traefik))
        .route("/nginx", admitted().layer(for_nginx));
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    let store: Arc<dyn Store> = match env::var("STORE") {
        Ok(url) => Arc::new(RedisStore::connect(url).await?),
        Err(_) => Arc::new(MemoryStore::new()),
    };
    let proxies = env::var("PROXIES").unwrap_or_else(|_| "127.0.0.1,::1".to_owned());
    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(listen).await?;
    serve(listener, store, &proxies).await
}
