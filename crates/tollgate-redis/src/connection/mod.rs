//! Addresses, connections, and their settings.
//!
//! [`RedisStore::connect`](crate::RedisStore::connect) and its siblings need nothing from here. Take
//!
//! - [`Address`] to see what they accept as an address;
//! - [`ServerConnection`] or `SentinelConnection` (feature `sentinel`) for a client of redis-rs that
//!   you set up yourself, such as one with a password for the Sentinels and another for the servers
//!   behind them;
//! - [`multiplexed`] and [`tcp`] for any other connection: the [settings](crate#settings) of redis-rs
//!   that suit a rate limiter;
//! - [`ToOneServer`] for a type of your own around a connection, and [`Connection`] for code that is
//!   generic over the connection of a store.
//!
//! # Examples
//!
//! ```no_run
//! use tollgate_redis::redis::Client;
//! use tollgate_redis::{RedisStore, connection};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::open("redis://127.0.0.1:6379")?;
//! let config = connection::multiplexed();
//! let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
//! let store = RedisStore::new(connection);
//! # Ok(())
//! # }
//! ```

mod address;
mod kinds;
mod link;
#[cfg(feature = "sentinel")]
mod sentinel;
mod server;
mod settings;

pub use address::Address;
pub use kinds::{Connection, ToOneServer};
#[cfg(feature = "sentinel")]
pub use sentinel::SentinelConnection;
pub use server::ServerConnection;
#[cfg(feature = "cluster")]
pub(crate) use settings::cluster;
pub use settings::{MOST_IN_FLIGHT, multiplexed, tcp};
