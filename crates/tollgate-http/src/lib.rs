#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "inbound")]
mod fields;
mod hints;
#[cfg(feature = "inbound")]
pub mod inbound;
#[cfg(feature = "outbound")]
pub mod outbound;
mod spelled;
mod standard;
#[cfg(feature = "inbound")]
mod text;
mod times;

#[cfg(feature = "inbound")]
pub use fields::{Draft, Fields, Reset};
pub use hints::{Hints, LimitHint};
