//! A proxy to a language model. Each tenant has tokens for a minute and for a month of its own time zone, and two
//! streams at once.
//!
//! ```sh
//! cargo run --all-features -p tollgate-http --example llm_proxy
//! curl -iN http://127.0.0.1:3000/complete -H 'x-api-key: secret-1' --json '{"prompt": "say this again", "max_tokens": 100}'
//! curl -i http://127.0.0.1:3000/usage -H 'x-api-key: secret-1'
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, IntoResponseParts, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::{Stream, StreamExt, stream};
use serde::Deserialize;
use tokio::net::TcpListener;
use tollgate_http::inbound::Fields;
use tollgate_memory::lease::ConcurrencyLimiter;
use tollgate_memory::{MemoryStore, RateLimiter, StoreError};
use tollgate_tokio::LeaseGuard;
use tollgate_tokio::meter::Meter;

/// The API key and the name of each tenant, its time zone, and its tokens for a month.
const TENANTS: [(&str, &str, &str, u64); 2] = [
    ("secret-1", "acme", "Europe/Berlin", 1_000_000),
    ("secret-2", "trial", "Asia/Tokyo", 100),
];

struct Tenant {
    name: &'static str,
    tokens: RateLimiter<Arc<MemoryStore>>,
}

struct Proxy {
    tenants: HashMap<&'static str, Tenant>,
    streams: ConcurrencyLimiter<Arc<MemoryStore>>,
}

impl Proxy {
    /// Returns the tenant whose API key is in `headers`.
    fn tenant(&self, headers: &HeaderMap) -> Option<&Tenant> {
        self.tenants.get(headers.get("x-api-key")?.to_str().ok()?)
    }
}

#[derive(Deserialize)]
struct Completion {
    prompt: String,
    max_tokens: u64,
}

async fn complete(
    State(proxy): State<Arc<Proxy>>,
    headers: HeaderMap,
    Json(asked): Json<Completion>,
) -> Response {
    let Some(Tenant { name, tokens }) = proxy.tenant(&headers) else {
        return unknown();
    };
    let place = match LeaseGuard::acquire(&proxy.streams, *name).await {
        Ok(Ok(place)) => place,
        // Nobody knows when a stream will end.
        Ok(Err(_)) => return too_many([(RETRY_AFTER, "1")], "too many streams\n"),
        Err(error) => return failed(&error),
    };
    // Only the model counts exactly: about four bytes of a prompt are a token.
    let prompt = u64::try_from(asked.prompt.len().div_ceil(4)).unwrap_or(u64::MAX);
    let estimate = prompt.saturating_add(asked.max_tokens).max(1);
    // Both limits are decided together: what one of them denies uses up none of the other.
    let decision = match tokens.check(*name).cost(estimate).await {
        Ok(decision) => decision,
        Err(error) => return failed(&error),
    };
    let mut limits = HeaderMap::new();
    Fields::new().write(&decision, &mut limits);
    if decision.retry_after().is_never() {
        let too_large = StatusCode::PAYLOAD_TOO_LARGE;
        return (too_large, limits, "ask for fewer tokens\n").into_response();
    }
    let Some(receipt) = decision.into_receipt() else {
        return too_many(limits, "too few tokens are left\n");
    };
    // From here on, the client may go away at any time: the place and the receipt are dropped with the stream. It is
    // then settled at the parts that were sent, or at the estimate as long as the model has not said anything.
    let answer = model(&asked.prompt, asked.max_tokens);
    let answer = answer.metered_by(tokens, *name, receipt, |part, used| match part {
        Part::Prompt { tokens } => used.at_least(*tokens),
        Part::Token(_) => used.add(1),
    });
    let events = answer.map(move |part| {
        let _until_the_end = &place;
        Ok::<_, Infallible>(match part {
            Part::Prompt { tokens } => Event::default().event("prompt").data(tokens.to_string()),
            Part::Token(text) => Event::default().data(text),
        })
    });
    (limits, Sse::new(events)).into_response()
}

/// Says what is left, and uses up nothing.
async fn usage(State(proxy): State<Arc<Proxy>>, headers: HeaderMap) -> Response {
    let Some(Tenant { name, tokens }) = proxy.tenant(&headers) else {
        return unknown();
    };
    match tokens.peek(*name).await {
        Ok(left) => {
            let mut limits = HeaderMap::new();
            Fields::new().write(&left, &mut limits);
            limits.into_response()
        }
        Err(error) => failed(&error),
    }
}

fn too_many(headers: impl IntoResponseParts, why: &'static str) -> Response {
    (StatusCode::TOO_MANY_REQUESTS, headers, why).into_response()
}

fn unknown() -> Response {
    let scheme = [(WWW_AUTHENTICATE, r#"ApiKey header="x-api-key""#)];
    (StatusCode::UNAUTHORIZED, scheme).into_response()
}

/// The client did nothing wrong, and the model must not be used without limits.
fn failed(error: &StoreError) -> Response {
    tracing::warn!("the store failed: {error}");
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]).into_response()
}

/// What a model sends: first the tokens of the prompt, as it counts them, and then its answer.
enum Part {
    Prompt { tokens: u64 },
    Token(String),
}

/// Stands for a request to a model. This one takes every word for a token, and repeats them slowly.
fn model(prompt: &str, max_tokens: u64) -> impl Stream<Item = Part> + use<> {
    let words: Vec<String> = prompt.split_whitespace().map(String::from).collect();
    let first = Part::Prompt {
        tokens: words.len().try_into().unwrap_or(u64::MAX),
    };
    let most = usize::try_from(max_tokens).unwrap_or(usize::MAX);
    let answer = stream::iter(words.into_iter().take(most)).then(async |word| {
        tokio::time::sleep(Duration::from_millis(20)).await;
        Part::Token(word)
    });
    stream::iter([first]).chain(answer)
}

/// Serves on `listener`. For a fleet, take a `RedisStore` of `tollgate-redis` as the store.
pub(crate) async fn serve(listener: TcpListener, store: MemoryStore) -> Result<(), Box<dyn Error>> {
    let store = Arc::new(store);
    let streams = ConcurrencyLimiter::new(store.clone(), "streams", 2, Duration::from_secs(30))?;
    let mut tenants = HashMap::new();
    for (key, name, zone, monthly) in TENANTS {
        let limits = [
            "minute=sliding-buckets:10000/1m,buckets=60".to_owned(),
            format!("month=fixed-window:{monthly}/month@{zone}"),
        ];
        let tokens = RateLimiter::new(store.clone(), limits)?;
        tenants.insert(key, Tenant { name, tokens });
    }
    let app = Router::new()
        .route("/complete", post(complete))
        .route("/usage", get(usage))
        .with_state(Arc::new(Proxy { tenants, streams }));
    Ok(axum::serve(listener, app).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    serve(
        TcpListener::bind("127.0.0.1:3000").await?,
        MemoryStore::new(),
    )
    .await
}
