//! Servers, clusters, proxies and fakes for tests: they start, answer, break and end as tests rely
//! on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cluster;
mod fake;
mod program;
mod proxy;
mod secured;
mod sentinel;
mod server;
mod shared;
