#![doc = include_str!("../README.md")]

#[cfg(feature = "operate")]
mod admin;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod commands;
#[cfg(any(
    feature = "cluster",
    feature = "connection-manager",
    feature = "sentinel"
))]
mod connection;
mod engine;
mod failure;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod home;
#[cfg(any(
    feature = "cluster",
    feature = "connection-manager",
    feature = "sentinel"
))]
mod lock;
mod plain;
mod redis_store;
pub mod settings;

pub use redis;
#[cfg(feature = "operate")]
pub use tollgate_wire::{Clear, Cleared, Diagnosis, Finding, Operate, OtherState, Severity};
pub use tollgate_wire::{Options, TimeSource};

#[cfg(any(
    feature = "cluster",
    feature = "connection-manager",
    feature = "sentinel"
))]
pub use connection::*;
pub use plain::PlainStore;
pub use redis_store::RedisStore;
#[doc(inline)]
pub use tollgate_core::*;

/// The recipes, which run as doctests on a server.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/recipes.md")]
mod recipes {}
