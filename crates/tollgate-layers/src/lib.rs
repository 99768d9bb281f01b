#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod breaker;
mod clock;
mod deny_cache;
mod fallback;
mod forward;
mod key;
mod lazy;
#[cfg(feature = "limits")]
pub mod limits;
mod observed;
mod prefetch;
mod share;
#[cfg(all(test, feature = "__shuttle"))]
mod shuttle;
mod stack;
mod sync;

pub use breaker::Breaker;
pub use deny_cache::DenyCache;
pub use fallback::{AllowAll, Fallback};
pub use lazy::Lazy;
pub use observed::{Observed, key_hash};
pub use prefetch::Prefetch;
pub use share::Share;
pub use stack::{Usual, usual};
