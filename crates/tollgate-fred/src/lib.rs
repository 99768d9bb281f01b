#![doc = include_str!("../README.md")]

mod clients;
mod connect;
mod engine;
mod failure;
pub mod settings;
mod store;

pub use fred;
pub use tollgate_core::wire::{Clock, Options};

pub use clients::Clients;
pub use store::FredStore;
