#![doc = include_str!("../README.md")]

mod answers;
mod clock;
mod composite;
mod counter;
mod families;
mod probe;
mod shard;
mod store;
mod tables;

pub use clock::{Clock, ManualClock, SystemClock};
pub use store::{MemoryStore, MemoryStoreBuilder};
#[doc(no_inline)]
pub use tollgate_core::prelude::*;
