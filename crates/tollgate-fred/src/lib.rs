#![doc = include_str!("../README.md")]

#[cfg(feature = "operate")]
mod admin;
mod clients;
mod connect;
mod engine;
mod failure;
mod places;
pub mod settings;
mod store;

pub use fred;
#[cfg(feature = "operate")]
pub use tollgate_wire::{Clear, Cleared, Diagnosis, Finding, Operate, OtherState, Severity};
pub use tollgate_wire::{Clock, Options};

pub use clients::Clients;
pub use connect::FredStoreBuilder;
pub use store::FredStore;
#[doc(no_inline)]
pub use tollgate_core::prelude::*;
