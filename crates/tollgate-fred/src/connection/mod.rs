//! Addresses, clients, and their settings.
//!
//! [`FredStore::connect`](crate::FredStore::connect) and its siblings need nothing from here. Take
//!
//! - [`Address`] to see what they accept as an address;
//! - [`builder`] for a client that you set up further, such as one with certificates of your own:
//!   it has the [settings](crate#settings) of fred that suit a rate limiter;
//! - [`Clients`] for code that is generic over what a store sends its commands through.
//!
//! # Examples
//!
//! ```no_run
//! use tollgate_fred::{FredStore, Options, connection};
//!
//! # async fn example() -> Result<(), tollgate_fred::StoreError> {
//! let options = Options::default();
//! let mut builder = connection::builder("redis://127.0.0.1:6379", &options)?;
//! builder.with_config(|config| config.password = Some("secret".to_owned()));
//! let store = FredStore::builder().options(options).connect_with(&builder).await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod clients;
mod settings;
mod task;

pub use address::Address;
pub use clients::Clients;
pub use settings::{MOST_IN_FLIGHT, builder};
pub(crate) use task::Connection;
