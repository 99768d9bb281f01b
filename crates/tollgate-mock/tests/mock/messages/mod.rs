//! The full messages of a mock that fails a test.

mod answers;
mod leases;
mod schedules;
mod unexpected;
mod unmet;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_core::{Limit, RateLimiter};
use tollgate_mock::MockStore;

fn limit(name: &str, algorithm: &str) -> Limit {
    let algorithm: tollgate_core::Algorithm = algorithm.parse().unwrap();
    Limit::new(name, algorithm).unwrap()
}

fn attempts() -> Limit {
    limit("attempts", "sliding-log:5/1m")
}

fn limiter(store: MockStore) -> RateLimiter<MockStore> {
    RateLimiter::new(store, [attempts()]).unwrap()
}

/// Returns the message that `fails` panics with.
fn message<T>(fails: impl FnOnce() -> T) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(fails)) else {
        return "no panic".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic that is no text".to_owned())
}
