//! Servers for tests end with those who use them, and say why they cannot start. Whether they, their
//! clusters and their proxies do what tests ask of them is what these tests notice themselves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod program;
mod server;
mod shared;
