//! Limits, leases and schedules without a store: agreement with second definitions, promises by
//! random histories and by brute force, and texts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod agreement;
mod answers;
mod bounds;
mod calendar;
mod calendars;
mod closed;
mod composites;
mod edges;
mod extremes;
mod histories;
mod instants;
mod leases;
mod policy_changes;
mod promises;
mod reservations;
mod schedules;
mod text;
