#![doc = include_str!("../README.md")]

mod address;
#[cfg(feature = "operate")]
mod admin;
mod clients;
mod connect;
mod engine;
mod failure;
mod fred_store;
mod places;
pub mod settings;

pub use fred;
#[cfg(feature = "operate")]
pub use tollgate_wire::{Clear, Cleared, Diagnosis, Finding, Operate, OtherState, Severity};
pub use tollgate_wire::{Options, TimeSource};

pub use address::Address;
pub use clients::Clients;
pub use connect::FredStoreBuilder;
pub use fred_store::FredStore;
#[doc(inline)]
pub use tollgate_core::*;
