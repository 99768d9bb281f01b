//! An API whose clients have keys, and plans with limits of their own.
//!
//! ```sh
//! cargo run --all-features -p tollgate-http --example api_keys
//! curl -i -H 'x-api-key: trial' http://127.0.0.1:3000/
//! ```

use std::error::Error;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate_http::inbound::{InboundLayer, KeyBy};
use tollgate_memory::MemoryStore;

const FREE: &str = "requests=gcra:60/1h,burst=3";
const PRO: &str = "requests=gcra:6000/1h,burst=100";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// What a client pays for.
#[derive(Clone, Copy)]
struct Plan(&'static str);

/// Lets only known keys through, and says which plan they have.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let key = request.headers().get(API_KEY);
    let plan = match key.and_then(|key| key.to_str().ok()) {
        Some("trial") => Plan("free"),
        Some("customer") => Plan("pro"),
        _ => return (StatusCode::UNAUTHORIZED, "send a known x-api-key\n").into_response(),
    };
    request.extensions_mut().insert(plan);
    next.run(request).await
}

/// Serves on `listener`.
pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    let plans = [("free", [FREE]), ("pro", [PRO])];
    let store = MemoryStore::new();
    let limits = InboundLayer::by_plan(store, plans, KeyBy::header(API_KEY), |parts| {
        parts.extensions.get().map(|Plan(name)| *name)
    })?;
    // The layer that is added last sees requests first.
    let app = Router::new().route("/", get(async || "hello\n"));
    let app = app.layer(limits).layer(middleware::from_fn(authenticate));
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}
