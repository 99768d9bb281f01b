#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod hints;
#[cfg(feature = "inbound")]
pub mod inbound;
mod limit_hint;
#[cfg(feature = "outbound")]
pub mod outbound;
mod spelled;
mod standard;
mod times;

pub use hints::Hints;
pub use limit_hint::LimitHint;
