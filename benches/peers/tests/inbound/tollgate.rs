//! A login by tollgate.

use axum::Router;
use axum::routing::post;
use tollgate_http::inbound::{ClientIp, InboundLayer};
use tollgate_memory::{MemoryStore, RateLimiter};

pub(crate) fn app() -> Router {
    let limits = [
        "login-minute=sliding-log:5/1m",
        "login-hour=sliding-log:20/1h",
    ];
    let limiter = RateLimiter::new(MemoryStore::new(), limits).expect("the limits are valid");
    let layer = InboundLayer::new(limiter, ClientIp::peer());
    Router::new().route("/login", post(async || "welcome").layer(layer))
}
