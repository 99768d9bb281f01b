//! Tests of the stores on real servers: every promise, every scenario, and what only fred does.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clear;
mod client;
mod cluster;
mod conformance;
mod extremes;
mod outage;
mod refusals;
mod secured;

use client::Fred;

tollgate_scenarios::scenarios!(Fred { batched: false }, Fred { batched: true });
