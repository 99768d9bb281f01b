#![doc = include_str!("../README.md")]

mod answers;
mod clock;
mod composite;
mod counter;
mod families;
mod memory_store;
mod probe;
mod shard;
mod tables;

pub use clock::SystemClock;
pub use memory_store::{MemoryStore, MemoryStoreBuilder};
#[doc(inline)]
pub use tollgate_core::*;
