//! `InboundLayer`: whom it counts, what it lets through, and what it says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod body;
mod client_ip;
mod drain;
mod every_server;
mod fields;
mod hostile;
mod keys;
mod limits;
mod refusals;
mod service;
mod support;
mod warnings;
