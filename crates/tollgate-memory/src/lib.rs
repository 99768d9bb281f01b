#![doc = include_str!("../README.md")]

mod clock;
mod composite;
mod counter;
mod probe;
mod schedules;
mod shard;
mod store;

pub use clock::{Clock, ManualClock, SystemClock};
pub use store::{Builder, MemoryStore};
#[doc(no_inline)]
pub use tollgate_core::prelude::*;
