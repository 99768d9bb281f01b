//! What needs a runtime, under Tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod blocking;
mod clock;
mod costs;
mod flows;
mod giving_up;
mod guard;
mod hearing;
mod keys;
mod lease_lines;
mod meter;
mod outbound;
mod settle_guard;
mod shown;
mod waiting;
mod zones;

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};
use tollgate_core::{ErrorKind, StoreError};

/// Returns `answer`, unless a test wants as many replies as `loses` says to be lost.
fn arrives<T>(answer: Result<T, StoreError>, loses: &AtomicUsize) -> Result<T, StoreError> {
    let one_less = |left: usize| left.checked_sub(1);
    match loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) {
        Ok(_) => Err(StoreError::new(ErrorKind::Unknown, "lost").with_source("closed")),
        Err(_) => answer,
    }
}

/// Returns a runtime whose clock is paused.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap()
}
