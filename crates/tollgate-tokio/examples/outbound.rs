//! A client that stays under another service's limit, and stops when the service asks for a pause.
//!
//! The service here is part of the program. It counts for itself, as a real one does.
//! `tollgate-http` has a layer that does the same for HTTP clients.
//!
//! ```sh
//! cargo run -p tollgate-tokio --example outbound
//! ```

#![allow(clippy::print_stdout, reason = "it tells what it sees")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_memory::{MemoryStore, RateLimiter};
use tollgate_tokio::Outbound;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the service says of itself: 20 calls in any half of a second.
const LIMIT: [&str; 1] = ["api=sliding-log:20/500ms"];
const SERVICE: &str = "api.example.com";
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Error> {
    run().await
}

/// Calls the service often, and then while it asks for a pause.
pub(crate) async fn run() -> Result<(), Error> {
    let service = Arc::new(Service::new()?);
    // On a `RedisStore`, all processes of a fleet would share the limit. Calls may take up to 100 ms
    // longer than others to get there.
    let outbound = Outbound::builder(MemoryStore::new(), LIMIT)
        .margin(Duration::from_millis(100))
        .build()?;

    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..60 {
        let (service, outbound) = (Arc::clone(&service), outbound.clone());
        callers.spawn(async move { call(&service, &outbound).await });
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    let refused = service.refused.load(Ordering::Relaxed);
    println!("60 calls in {:?}, {refused} refused", begun.elapsed());
    assert_eq!(refused, 0);
    assert!(begun.elapsed() >= Duration::from_secs(1));

    service.is_busy.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    call(&service, &outbound).await?;
    println!("one more, with a pause, in {:?}", begun.elapsed());
    assert!(begun.elapsed() >= Service::PAUSE);
    Ok(())
}

/// Calls the service until it answers. Each try waits for a permit first.
async fn call(service: &Service, outbound: &Outbound<MemoryStore>) -> Result<(), Error> {
    loop {
        outbound.call(SERVICE).wait_up_to(PATIENCE).await?;
        match service.answer() {
            Ok(()) => return Ok(()),
            // A real service says 429, with `Retry-After`. All calls wait, not only this one.
            Err(retry_after) => outbound.penalize(SERVICE, retry_after).await?,
        };
    }
}

/// Somebody else's service.
struct Service {
    limiter: RateLimiter<MemoryStore>,
    is_busy: AtomicBool,
    refused: AtomicU32,
}

impl Service {
    const PAUSE: Duration = Duration::from_millis(300);

    fn new() -> Result<Self, Error> {
        Ok(Self {
            limiter: RateLimiter::new(MemoryStore::new(), LIMIT)?,
            is_busy: AtomicBool::new(false),
            refused: AtomicU32::new(0),
        })
    }

    /// Answers a call, or says how long to stay away.
    fn answer(&self) -> Result<(), Duration> {
        let decision = self.limiter.check("caller").run();
        let is_admitted = decision.is_ok_and(|decision| decision.is_allowed());
        if is_admitted && !self.is_busy.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(Self::PAUSE)
    }
}
