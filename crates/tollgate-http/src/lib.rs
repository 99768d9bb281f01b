#![doc = include_str!("../README.md")]

mod hints;
#[cfg(feature = "tower")]
mod outbound;
mod spelled;
mod standard;
mod times;

pub use hints::{Hints, LimitHint};
#[cfg(feature = "tower")]
pub use outbound::{
    Once, OutboundLayer, OutboundRequestError, OutboundService, Repeat, Repetition,
};
