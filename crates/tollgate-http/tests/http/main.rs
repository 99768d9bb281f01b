//! Hints of other services, the layers for servers and for clients, and the examples.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod examples;
mod headers;
mod inbound;
mod outbound;
