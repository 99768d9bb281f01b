#![doc = include_str!("../README.md")]

mod admin;
mod clients;
mod connect;
mod engine;
mod failure;
mod places;
pub mod settings;
mod store;

pub use fred;
pub use tollgate_wire::{
    Clear, Cleared, Clock, Diagnosis, Finding, Operate, Options, OtherState, Severity,
};

pub use clients::Clients;
pub use connect::FredStoreBuilder;
pub use store::FredStore;
#[doc(no_inline)]
pub use tollgate_core::prelude::*;
