//! A service with a rate limit, and its tests: no server, and no trait of its own for the limiter.
//!
//! The service takes any store. Its tests pass a `MockStore`, which answers what a test declares, or
//! a `MemoryStore` with a clock that the test moves.
//!
//! ```sh
//! cargo run -p tollgate-mock --example signup
//! cargo test -p tollgate-mock --example signup
//! ```

#![allow(clippy::print_stdout, reason = "it tells what it answers")]

use tollgate_memory::{LimitError, MemoryStore, RateLimiter, Store};

/// The service.
struct Signup<S> {
    limiter: RateLimiter<S>,
}

impl<S: Store> Signup<S> {
    fn new(store: S) -> Result<Self, LimitError> {
        let limiter = RateLimiter::new(store, ["signup=sliding-log:3/1h"])?;
        Ok(Self { limiter })
    }

    /// Answers a request from `address`. It refuses everybody while the store fails.
    async fn answer(&self, address: &str) -> String {
        match self.limiter.check(address).await {
            Ok(decision) if decision.is_allowed() => "welcome".to_owned(),
            Ok(decision) => format!("come back in {}", decision.retry_after()),
            Err(_) => "come back soon".to_owned(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), LimitError> {
    run().await
}

/// Answers four requests.
pub(crate) async fn run() -> Result<(), LimitError> {
    let signup = Signup::new(MemoryStore::new())?;
    for _ in 0..4 {
        println!("{}", signup.answer("203.0.113.7").await);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_memory::{ErrorKind, ManualClock};
    use tollgate_mock::MockStore;

    use super::*;

    #[tokio::test]
    async fn refused_callers_learn_when_to_come_back() {
        let mut store = MockStore::new();
        let minute = Duration::from_secs(60);
        store.expect_check("signup", "203.0.113.7").deny_for(minute);
        let signup = Signup::new(store).unwrap();
        assert_eq!(signup.answer("203.0.113.7").await, "come back in 60s");
    }

    #[tokio::test]
    async fn failing_store_refuses_everybody() {
        let mut store = MockStore::new();
        let down = ErrorKind::Unavailable;
        store.expect_check("signup", "203.0.113.7").fail(down);
        let signup = Signup::new(store).unwrap();
        assert_eq!(signup.answer("203.0.113.7").await, "come back soon");
    }

    #[tokio::test]
    async fn an_hour_later_there_is_room_again() {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let signup = Signup::new(store).unwrap();
        for _ in 0..3 {
            assert_eq!(signup.answer("203.0.113.7").await, "welcome");
        }
        assert_eq!(signup.answer("203.0.113.7").await, "come back in 3600s");
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(signup.answer("203.0.113.7").await, "welcome");
    }
}
