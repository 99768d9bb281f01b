//! The layers and fields with programs and frameworks of others, which `cargo xtask test --every-server` installs.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod calendars;
#[path = "../../../tollgate-http/tests/http/client.rs"]
mod client;
mod connections;
mod dashboard;
mod grpc;
mod haproxy;
mod load;
mod nginx;
mod prometheus;
mod proxies;
