#![doc = include_str!("../README.md")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed promise")]

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
mod watched;

pub use harness::{__histories, Harness, Source, Stores, fresh_key};
pub use leases::{__lease_histories, LeaseHarness};
pub use plan::Plan;
pub use schedules::{__schedule_histories, ScheduleHarness};
pub use watched::__Watched;

/// Runs a promise to completion on a multi-threaded Tokio runtime.
///
/// # Panics
///
/// If the promise is broken, or the runtime cannot start.
pub fn block_on(promise: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(promise);
}
