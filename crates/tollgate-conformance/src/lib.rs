#![doc = include_str!("../README.md")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed promise")]
#![allow(
    clippy::missing_panics_doc,
    reason = "a promise that is broken panics: the modules of the promises say so once"
)]

mod bound;
mod clock;
pub mod families;
mod harness;
mod history;
pub mod leases;
mod list;
mod machine;
pub mod naive;
mod plan;
pub mod promises;
mod race;
mod scene;
pub mod schedules;
mod session;
#[doc(hidden)]
pub mod suite;
mod watched;

use std::pin::Pin;

pub use harness::{Harness, Source, Stores, fresh_key};
pub use leases::LeaseHarness;
pub use plan::Plan;
pub use schedules::ScheduleHarness;
pub(crate) use suite::__table;

/// Runs a promise to completion on a multi-threaded Tokio runtime.
///
/// # Panics
///
/// If the promise is broken, or the runtime cannot start.
pub fn block_on(promise: impl Future<Output = ()>) {
    // In a box, so that the runtime's code is compiled once, and not for each promise again.
    run(Box::pin(promise));
}

fn run(promise: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(promise);
}
