//! Tests of the stores on real servers.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod batches;
mod clear;
mod cluster;
mod costs;
mod diagnose;
mod examples;
mod extremes;
mod faults;
mod garbled;
mod greeting;
mod leases;
mod outage;
mod passwords;
mod plain;
mod published;
mod redacted;
mod redirections;
mod reservations;
mod tls;
