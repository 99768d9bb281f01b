//! Connections that a store makes itself, with settings for a rate limiter.

mod address;
mod builder;
#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "connection-manager")]
mod link;
mod refused;
#[cfg(feature = "sentinel")]
mod sentinel;
#[cfg(feature = "connection-manager")]
mod server;

pub use address::Address;
pub use builder::RedisStoreBuilder;
#[cfg(feature = "sentinel")]
pub use sentinel::SentinelConnection;
#[cfg(feature = "connection-manager")]
pub use server::ServerConnection;
