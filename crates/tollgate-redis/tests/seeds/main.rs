//! What rate limiters in wide use get wrong, shown on a real server, and what the store does there.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod answers;
mod counter;
mod keys;
mod originals;
mod outbound;
mod per_second;
mod schedule;
mod sorted_set;
mod support;
mod windows;
