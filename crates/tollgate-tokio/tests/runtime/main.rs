//! What needs a runtime, under Tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod clock;
mod guard;
mod within;
