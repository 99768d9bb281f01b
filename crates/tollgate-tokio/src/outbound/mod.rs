//! What an [`Outbound`](crate::Outbound) is built with, its calls, and what they return.

mod builder;
mod call;
pub(crate) mod client;
mod learn;
mod stricter;

pub use builder::{OutboundBuilder, OutboundError};
pub use call::{OutboundCall, Permit, PermitSettle};
pub use client::OutboundStats;
