//! Addresses, clients, and their settings.
//!
//! [`FredStore::connect`](crate::FredStore::connect) and its siblings need nothing from here. Take
//!
//! - [`Address`] to see what they accept as an address;
//! - [`Clients`] for code that is generic over what a store sends its commands through.
//!
//! # Examples
//!
//! ```no_run
//! use tollgate_fred::FredStore;
//!
//! # async fn example() -> Result<(), tollgate_fred::StoreError> {
//! let store = FredStore::builder().prefix("shop");
//! let mut client = store.client_builder("redis://127.0.0.1:6379")?;
//! client.with_config(|config| config.password = Some("secret".to_owned()));
//! let store = store.connect_with(&client).await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod clients;
mod settings;
mod task;

pub use address::Address;
pub use clients::Clients;
pub use settings::MOST_IN_FLIGHT;
pub(crate) use settings::builder;
pub(crate) use task::Connection;
