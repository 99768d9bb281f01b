//! Rate limiters on a server, each used as its documentation shows.
//!
//! Each has a connection of its own, by the version of redis-rs that it is written for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use axum_limit::{RateLimitBackend as _, TokenBucketPolicy, build_storage_key};
use http::{Request, Response, StatusCode};
use throttle_kit::RateLimitBackend as _;
use tower::{Layer, ServiceExt, service_fn};
use tower_rate_limit_redis::{KeyResolver, RateLimitLayer};
use trypema::redis::{ConnectionManager, RedisKey, RedisRateLimiterProvider};
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::admitted::Bounded;
use crate::{Named, Peer, Problem};

/// How much a limiter allows.
#[derive(Clone, Copy)]
struct Rate {
    /// The burst of a token bucket, or the calls in a window.
    amount: u16,
    /// How long a token bucket takes to allow one more.
    interval: Duration,
}

impl Rate {
    fn window(self) -> Duration {
        self.interval * u32::from(self.amount)
    }
}

/// Connects all of them to a server, with a quota of `amount` a second, each with the most that it
/// should admit in a second.
pub(crate) async fn bounded(url: &str, amount: u16) -> Result<Bounded<dyn Peer>, Problem> {
    let interval = Duration::from_secs(1) / u32::from(amount);
    let window = u64::from(amount);
    let all = all(url, Rate { amount, interval }).await?;
    let bound = |name| if name == TRYPEMA { window } else { 2 * window };
    Ok(all
        .into_iter()
        .map(|peer| (bound(peer.0), peer))
        .map(|(bound, peer)| (peer, bound))
        .collect())
}

const TRYPEMA: &str = "trypema";

async fn all(url: &str, rate: Rate) -> Result<Vec<Named<dyn Peer>>, Problem> {
    Ok(vec![
        ("axum-limit", Box::new(AxumLimit::connect(url, rate).await?)),
        (
            "throttle-kit",
            Box::new(ThrottleKit::connect(url, rate).await?),
        ),
        (
            "tower-rate-limit-redis",
            Box::new(TowerRateLimit::connect(url, rate).await?),
        ),
        (TRYPEMA, Box::new(Trypema::connect(url, rate).await?)),
    ])
}

/// A token bucket that reads its state, and writes it in a transaction.
struct AxumLimit {
    backend: axum_limit::RedisBackend,
    quota: axum_limit::Quota,
}

impl AxumLimit {
    async fn connect(url: &str, rate: Rate) -> Result<Self, Problem> {
        let window = u64::try_from(rate.window().as_millis())?;
        Ok(Self {
            backend: axum_limit::RedisBackend::connect(url).await?,
            quota: axum_limit::Quota::new(rate.amount.into(), window),
        })
    }
}

#[async_trait]
impl Peer for AxumLimit {
    async fn check(&self, key: &str) -> Result<bool, Problem> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let namespace = self.backend.namespace();
        let key = build_storage_key::<TokenBucketPolicy>(namespace, key, self.quota);
        let decision =
            self.backend
                .transact::<TokenBucketPolicy>(&key, self.quota, u64::try_from(now)?);
        Ok(decision.await?.allowed)
    }
}

/// A token bucket by the caller's clock.
struct ThrottleKit {
    backend: throttle_kit::RedisBackend,
    quota: throttle_kit::Quota,
}

impl ThrottleKit {
    async fn connect(url: &str, rate: Rate) -> Result<Self, Problem> {
        Ok(Self {
            backend: throttle_kit::RedisBackend::connect(url).await?,
            quota: throttle_kit::Quota::from_parts(rate.interval, rate.amount.into()),
        })
    }
}

#[async_trait]
impl Peer for ThrottleKit {
    async fn check(&self, key: &str) -> Result<bool, Problem> {
        // Allows a call if the server fails, without saying so.
        Ok(self.backend.check(key, &self.quota).await.allowed)
    }
}

/// A token bucket as a layer of an HTTP service.
struct TowerRateLimit(RateLimitLayer<Path>);

impl TowerRateLimit {
    async fn connect(url: &str, rate: Rate) -> Result<Self, Problem> {
        let client = redis_032::Client::open(url)?;
        let connection = client.get_multiplexed_async_connection().await?;
        let layer = RateLimitLayer::builder()
            .conn(connection)
            .key_resolver(Path)
            .capacity(rate.amount)
            .emission_interval(rate.interval);
        Ok(Self(layer.build()))
    }
}

/// Takes the path of a request for its key.
#[derive(Clone)]
struct Path;

impl KeyResolver for Path {
    type Key = String;
    type ErrorBody = ();

    fn key<T>(&self, request: &Request<T>) -> Result<String, Response<()>> {
        Ok(request.uri().path().to_owned())
    }
}

#[async_trait]
impl Peer for TowerRateLimit {
    async fn check(&self, key: &str) -> Result<bool, Problem> {
        let answer = |_| async { Ok::<_, Infallible>(Response::new(())) };
        let service = self.0.layer(service_fn(answer));
        let request = Request::get(format!("/{key}")).body(())?;
        match service.oneshot(request).await?.status() {
            StatusCode::OK => Ok(true),
            StatusCode::TOO_MANY_REQUESTS => Ok(false),
            other => Err(format!("the layer responded {other}").into()),
        }
    }
}

/// A sliding window of buckets of ten milliseconds.
struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    async fn connect(url: &str, rate: Rate) -> Result<Self, Problem> {
        let client = redis::Client::open(url)?;
        let manager = ConnectionManager::new(client).await?;
        let window = rate.window().max(Duration::from_secs(1)).as_secs();
        let provider = RedisRateLimiterProvider::builder(manager)
            .window_size(WindowSize::seconds(window)?)
            .bucket_size(BucketSize::milliseconds(10)?)
            .build()?;
        let rate = RateLimit::per_second(1.0 / rate.interval.as_secs_f64())?;
        Ok(Self { provider, rate })
    }
}

#[async_trait]
impl Peer for Trypema {
    async fn check(&self, key: &str) -> Result<bool, Problem> {
        // Its keys have no colons.
        let key = RedisKey::try_from(key.replace(':', "-"))?;
        let decision = self.provider.absolute().inc(&key, &self.rate, 1);
        Ok(matches!(decision.await?, RateLimitDecision::Allowed))
    }
}
