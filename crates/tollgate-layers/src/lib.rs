#![doc = include_str!("../README.md")]

mod breaker;
mod deny_cache;
mod fallback;
mod forward;
mod share;

pub use breaker::Breaker;
pub use deny_cache::DenyCache;
pub use fallback::{Everything, Fallback};
pub use share::Share;
