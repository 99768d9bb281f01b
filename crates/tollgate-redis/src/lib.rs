#![doc = include_str!("../README.md")]

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
#[cfg(feature = "sentinel")]
mod sentinel;
pub mod settings;
mod store;

pub use redis;
pub use tollgate_core::wire::{Clock, Options};

#[cfg(feature = "sentinel")]
pub use sentinel::SentinelConnection;
pub use store::RedisStore;
