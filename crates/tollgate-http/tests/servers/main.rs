//! The layer in real servers, with real clients.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod connections;
mod every_server;
mod examples;
