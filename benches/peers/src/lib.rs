//! Rate limiters of others beside those of this library: what they admit, and how long they take.

pub mod admitted;
pub mod layers;
pub mod memory;
mod server;

use std::error::Error;
use std::hint::black_box;

use async_trait::async_trait;
use governor::DefaultKeyedRateLimiter;
use tollgate_memory::{MemoryStore, RateLimiter};

/// An error that ends a measurement.
pub type Problem = Box<dyn Error + Send + Sync>;

/// A rate limiter with its name.
pub type Named<S = dyn Subject> = (&'static str, Box<S>);

/// A rate limiter that decides a call for a key.
pub trait Subject: Sync {
    /// Decides a call, and returns whether it is allowed.
    #[expect(
        clippy::ptr_arg,
        reason = "governor looks a String up by reference to one"
    )]
    fn check(&self, key: &String) -> bool;
}

impl Subject for RateLimiter<MemoryStore> {
    fn check(&self, key: &String) -> bool {
        let decision = self.check(key).run();
        decision.is_ok_and(|decision| decision.is_allowed())
    }
}

impl Subject for DefaultKeyedRateLimiter<String> {
    fn check(&self, key: &String) -> bool {
        black_box(self.check_key(key)).is_ok()
    }
}

/// A rate limiter of others on a server.
#[async_trait]
trait Peer: Send + Sync {
    /// Decides a call, and returns whether it is allowed.
    async fn check(&self, key: &str) -> Result<bool, Problem>;
}
