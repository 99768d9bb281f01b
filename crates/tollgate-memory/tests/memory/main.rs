//! The store in memory: what its calls decide, return and cost, and how it shares keys and threads.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod billing;
mod blocks;
mod bounded;
mod calls;
mod clock;
mod costs;
mod held;
mod ids;
mod interruptions;
mod leases;
mod limiter;
mod only_dependency;
mod reservations;
mod rows;
mod schedules;
mod threads;
