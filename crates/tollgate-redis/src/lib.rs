#![doc = include_str!("../README.md")]

mod admin;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(any(
    feature = "cluster",
    feature = "connection-manager",
    feature = "sentinel"
))]
mod connect;
mod engine;
mod failure;
#[cfg(feature = "cluster")]
mod importers;
#[cfg(any(
    feature = "cluster",
    feature = "connection-manager",
    feature = "sentinel"
))]
mod lock;
#[cfg(feature = "connection-manager")]
mod manager;
mod plain;
#[cfg(feature = "sentinel")]
mod sentinel;
pub mod settings;
mod store;

pub use redis;
pub use tollgate_core::wire::{Clear, Cleared, Clock, Diagnosis, Finding, Options, Severity};

#[cfg(feature = "connection-manager")]
pub use manager::ServerConnection;
pub use plain::PlainStore;
#[cfg(feature = "sentinel")]
pub use sentinel::SentinelConnection;
pub use store::RedisStore;
#[doc(no_inline)]
pub use tollgate_core::prelude::*;

/// The recipes, each of which is run on a server.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}
