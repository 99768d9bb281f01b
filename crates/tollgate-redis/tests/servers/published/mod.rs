//! What rate limiters in wide use get wrong, shown on a real server, and what the store does there.

mod answers;
mod counter;
mod keys;
mod outbound;
mod per_second;
mod schedule;
mod sorted_set;
mod support;
mod windows;
