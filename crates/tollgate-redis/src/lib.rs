#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod commands;
pub mod connection;
mod engine;
mod failure;
#[cfg(any(feature = "cluster", feature = "sentinel"))]
mod home;
mod lock;
#[cfg(feature = "operate")]
pub mod operate;
mod plain;
mod redis_store;

pub use redis;
pub use tollgate_wire::TimeSource;

pub use builder::RedisStoreBuilder;
pub use plain::PlainStore;
pub use redis_store::RedisStore;
#[doc(inline)]
pub use tollgate_core::*;
