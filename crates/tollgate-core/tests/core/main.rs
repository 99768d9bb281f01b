//! Limits, leases and schedules without a store: their answers, texts and edges. What every store
//! promises, the conformance suite checks.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;
mod bytes;
mod calendar;
mod calendars;
mod closed;
mod decisions;
mod edges;
mod extremes;
mod grants;
mod instants;
mod leases;
mod schedules;
mod text;
