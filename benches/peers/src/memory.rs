//! Rate limiters in memory, each used as its documentation shows.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use governor::{DefaultKeyedRateLimiter, Quota};
use limitador::RateLimiter as Limitador;
use limitador::limit::{Expression, Limit, Namespace};
use throttlecrab::{AdaptiveStore, RateLimiter as Throttlecrab};
use tokio_rate_limit::{RateLimiter as TokioRateLimit, RateLimiterConfig};
use tollgate_memory::MemoryStore;
use trypema::local::LocalRateLimiterProvider;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::admitted::Bounded;
use crate::{Named, Problem, Subject};

/// Returns this library's GCRA, governor, and all of them, with quotas that no loop exhausts.
///
/// # Errors
///
/// If a quota is not valid.
pub fn subjects() -> Result<Vec<Named>, Problem> {
    let amount = 1_000_000_000;
    let gcra = tollgate_memory::RateLimiter::new(MemoryStore::new(), ["calls=gcra:1000000000/1s"]);
    let billion = Quota::per_second(NonZeroU32::new(amount).ok_or("a quota of zero")?);
    let governor = DefaultKeyedRateLimiter::<String>::keyed(billion);
    let amount = i64::from(amount);
    Ok(vec![
        ("tollgate", Box::new(gcra?)),
        ("governor", Box::new(governor)),
        ("limitador", Box::new(limitador(amount, 1)?)),
        ("throttlecrab", Box::new(throttlecrab(amount, 1))),
        ("tokio-rate-limit", Box::new(tokio_rate_limit(amount)?)),
        ("trypema", Box::new(trypema(amount, 1)?)),
    ])
}

/// Returns all of them with a quota of `amount` a second, each with the most that it should admit in
/// a second: a token bucket a full bucket and a second's refill, a fixed window the same, a sliding
/// window its amount.
pub(crate) fn bounded(amount: u16) -> Result<Bounded, Problem> {
    let window = u64::from(amount);
    let bucket = 2 * window;
    let amount = i64::from(amount);
    let limitador = limitador(amount, 1)?;
    let throttlecrab = throttlecrab(amount, 1);
    let tokio_rate_limit = tokio_rate_limit(amount)?;
    let trypema = trypema(amount, 1)?;
    Ok(vec![
        (("limitador", Box::new(limitador)), bucket),
        (("throttlecrab", Box::new(throttlecrab)), bucket),
        (("tokio-rate-limit", Box::new(tokio_rate_limit)), bucket),
        (("trypema", Box::new(trypema)), window),
    ])
}

/// A fixed window that begins with its first call.
struct Counted {
    limiter: Limitador,
    namespace: Namespace,
}

fn limitador(amount: i64, seconds: i64) -> Result<Counted, Problem> {
    let namespace = Namespace::from("calls");
    let (amount, seconds) = (u64::try_from(amount)?, u64::try_from(seconds)?);
    let key = Expression::try_from("user".to_owned())?;
    let limiter = Limitador::new(1_000_000);
    limiter.add_limit(Limit::new(
        namespace.clone(),
        amount,
        seconds,
        vec![],
        vec![key],
    ));
    Ok(Counted { limiter, namespace })
}

impl Subject for Counted {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let context = HashMap::from([("user".to_owned(), key.clone())]).into();
        let decision = self
            .limiter
            .check_rate_limited_and_update(&self.namespace, &context, 1);
        std::hint::black_box(decision).is_ok_and(|decision| !decision.limited)
    }
}

/// A token bucket that threads share by a lock, since it needs exclusive access.
struct Locked {
    limiter: Mutex<Throttlecrab<AdaptiveStore>>,
    amount: i64,
    seconds: i64,
}

fn throttlecrab(amount: i64, seconds: i64) -> Locked {
    // The store is made for as many keys as are measured.
    let store = AdaptiveStore::with_capacity(1_000_000);
    Locked {
        limiter: Mutex::new(Throttlecrab::new(store)),
        amount,
        seconds,
    }
}

impl Subject for Locked {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        let (amount, now) = (self.amount, SystemTime::now());
        let decision = limiter.rate_limit(key, amount, amount, self.seconds, 1, now);
        std::hint::black_box(decision).is_ok_and(|(is_allowed, _)| is_allowed)
    }
}

/// A token bucket whose rate is at least one a second.
struct Bucket(TokioRateLimit);

fn tokio_rate_limit(amount: i64) -> Result<Bucket, Problem> {
    let amount = u64::try_from(amount)?;
    Ok(Bucket(TokioRateLimit::new(RateLimiterConfig {
        requests_per_second: amount,
        burst: amount,
    })?))
}

impl Subject for Bucket {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let decision = self.0.check(key);
        std::hint::black_box(&decision).permitted
    }
}

/// A sliding window of buckets of ten milliseconds.
struct Window {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "doubles hold these amounts exactly"
)]
fn trypema(amount: i64, seconds: i64) -> Result<Window, Problem> {
    let provider = LocalRateLimiterProvider::builder()
        .window_size(WindowSize::seconds(seconds.unsigned_abs())?)
        .bucket_size(BucketSize::milliseconds(10)?)
        .cleanup_interval(Duration::from_secs(30))
        .build()?;
    let rate = RateLimit::per_second(amount as f64 / seconds as f64)?;
    Ok(Window { provider, rate })
}

impl Subject for Window {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let decision = self.provider.absolute().inc(key, &self.rate, 1);
        matches!(std::hint::black_box(decision), RateLimitDecision::Allowed)
    }
}
