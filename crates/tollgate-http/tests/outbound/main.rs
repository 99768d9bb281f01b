//! Requests to another service wait for permits, are sent again when the service asks for that, and
//! share what it says.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod layer;
mod readiness;
mod refusals;
mod remote;
mod service;
