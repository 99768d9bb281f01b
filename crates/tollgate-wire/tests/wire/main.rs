//! What goes over the wire: key text, arguments, scripts, states, lifetimes, round trips,
//! and hostile replies.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says where"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "core reads no clock, but these tests wait for servers"
)]

mod admin;
mod ahead;
mod batches;
mod calendars;
mod decoder;
mod engine;
mod families;
mod ids;
mod keys;
mod lease_replies;
mod lease_states;
mod lease_twins;
mod lifetime;
mod operators;
mod outages;
mod plain;
mod refunds;
mod refusals;
mod round_trips;
mod schedule_chunks;
mod schedule_replies;
mod schedule_twins;
mod scripts;
mod states;
mod twins;
