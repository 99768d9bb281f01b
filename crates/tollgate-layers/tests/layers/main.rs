//! What each layer does around a store.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod at_once;
mod breaker;
mod day;
mod deny_cache;
mod fallback;
mod lazy;
mod limits;
mod observed;
mod order;
mod prefetch;
mod prefetch_day;
mod support;
