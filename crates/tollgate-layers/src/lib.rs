#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod breaker;
mod deny_cache;
mod fallback;
mod forward;
mod lazy;
#[cfg(feature = "limits")]
pub mod limits;
mod observed;
mod share;
#[cfg(all(test, feature = "__shuttle"))]
mod shuttle;
mod sync;

use tollgate_core::Store;

pub use breaker::Breaker;
pub use deny_cache::DenyCache;
pub use fallback::{AllowAll, Fallback};
pub use lazy::Lazy;
pub use observed::Observed;
pub use share::Share;

/// The usual layers around a store: see [`usual`].
pub type Usual<S, L = AllowAll> = Observed<Fallback<DenyCache<Breaker<S>>, L>>;

/// Wraps `store` in the usual layers, in the order that makes sense, with their defaults: what failed is
/// left alone, what was denied is remembered, `instead` decides while the store cannot, and all of
/// it is observed.
///
/// `instead` is [`AllowAll`] to allow what the store cannot decide, or a store, such as a
/// [`Share`] of one in memory.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use tollgate_layers::{Share, usual};
/// use tollgate_memory::{MemoryStore, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new();
/// let local = Share::new(MemoryStore::new(), NonZeroU32::new(10).unwrap());
/// let limiter = RateLimiter::new(usual(redis, local), ["api=gcra:100/1s"])?;
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If there is a cache or a fallback in `store`: see [`Breaker::new`].
#[track_caller]
pub fn usual<S: Store, L>(store: S, instead: L) -> Usual<S, L> {
    Observed::new(Fallback::to(DenyCache::new(Breaker::new(store)), instead))
}
