//! The program as its users run it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod advise;
mod ask;
mod clients;
#[cfg(feature = "sql")]
mod database;
mod demo;
mod desk;
mod documents;
mod doubts;
mod expected;
mod failures;
mod formats;
mod inspect;
mod limits;
mod long;
mod messages;
mod operate;
mod plan;
mod program;
mod replay;
mod report;
mod schedule;
mod servers;
mod signals;
mod tls;
