//! What widely used rate limiters (the originals) get wrong, and what the store does instead.

mod answers;
mod counter;
mod keys;
mod outbound;
mod per_second;
mod schedule;
mod sorted_set;
mod support;
mod windows;
