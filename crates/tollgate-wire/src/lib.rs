//! The store on servers that speak the Redis protocol, without I/O: keys, scripts, encoding,
//! errors.
//!
//! Each algorithm runs on the server as `script.lua`, the twin of its state machine. The script
//! reads the state, decides whether the call fits, and records it. It replies with the state from
//! before the call, and the state machine derives the verdict from that. So Redis, which runs all
//! scripts on one thread, computes no waits, and all stores give the same verdict on the same
//! state.
//!
//! # What is stable
//!
//! All that this page shows is for authors of stores on other clients, and follows semantic
//! versioning:
//!
//! - [`Engine`], which a client crate implements, with [`ScriptCall`] and its [`Script`], which it
//!   sends, [`Failure`], which it reports, and [`Runtime`], which it returns to send calls together;
//! - [`WireStore`], the store over any engine;
//! - [`Options`], with [`TimeSource`], which its users set;
//! - the module `operate`, with the feature of that name: what operators call on a store.
//!
//! What `tollgate-redis` and `tollgate-fred` share besides is hidden, and may change in any version.
//!
//! # Examples
//!
//! The engine of a client that sends commands word by word:
//!
//! ```
//! use std::io;
//! use std::time::{Duration, SystemTime};
//!
//! use tollgate_core::RateLimiter;
//! use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};
//!
//! # struct Client;
//! # enum Reply { Bytes(Vec<u8>), Error(String) }
//! # impl Client {
//! #     /// Answers as a server does that holds no state.
//! #     async fn send(&self, _: &[&[u8]]) -> io::Result<Reply> {
//! #         let now = 1_780_000_000_000_000_f64.to_le_bytes();
//! #         Ok(Reply::Bytes([&[1], &now[..], &[0, 0]].concat()))
//! #     }
//! # }
//! struct MyEngine(Client);
//!
//! impl MyEngine {
//!     async fn send(&self, words: &[&[u8]]) -> Result<Vec<u8>, Failure> {
//!         match self.0.send(words).await {
//!             Ok(Reply::Bytes(bytes)) => Ok(bytes),
//!             Ok(Reply::Error(line)) => Err(Failure::refused(line.clone(), line)),
//!             Err(error) if error.kind() == io::ErrorKind::NotConnected => {
//!                 Err(Failure::not_sent(error))
//!             }
//!             // It may have been executed.
//!             Err(error) => Err(Failure::lost(error)),
//!         }
//!     }
//! }
//!
//! impl Engine for MyEngine {
//!     async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
//!         let count = call.keys().len().to_string();
//!         let mut words = vec![b"EVALSHA".as_slice(), call.script().sha1().as_bytes(), count.as_bytes()];
//!         words.extend(call.keys().iter().map(Vec::as_slice));
//!         words.push(call.argument());
//!         self.send(&words).await
//!     }
//!
//!     async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
//!         self.send(&[b"SCRIPT", b"LOAD", call.script().text().as_bytes()]).await.map(drop)
//!     }
//!
//!     async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
//!         let keys = keys.iter().map(Vec::as_slice);
//!         let words: Vec<&[u8]> = [b"UNLINK".as_slice()].into_iter().chain(keys).collect();
//!         self.send(&words).await.map(drop)
//!     }
//!
//!     async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
//!     where
//!         F: Future + Send,
//!         F::Output: Send,
//!     {
//!         // With Tokio: `tokio::time::timeout(limit, work).await.ok()`.
//!         # let _ = limit;
//!         # Some(work.await)
//!     }
//!
//!     fn now(&self) -> SystemTime {
//!         SystemTime::now()
//!     }
//!
//!     fn is_clustered(&self) -> bool {
//!         false
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = WireStore::new(MyEngine(Client), Options::new().with_prefix("shop")?);
//! let limiter = RateLimiter::new(store, ["login=gcra:10/1m"])?;
//! assert_eq!(limiter.check("alice").await?.remaining(), 9);
//! # Ok(())
//! # }
//! # let example = std::pin::pin!(example());
//! # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! # let std::task::Poll::Ready(outcome) = example.poll(&mut context) else { panic!() };
//! # outcome.unwrap();
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "operate")]
mod admin;
mod batch;
mod codec;
mod engine;
mod failure;
mod fault;
mod hash;
mod keyspace;
mod lease;
mod no_connection;
mod options;
mod pauses;
mod plain;
mod redact;
mod runner;
mod schedule;
mod script;
mod store;
mod wait;
mod wrappers;

pub use engine::{Engine, Runtime, ScriptCall};
pub use failure::Failure;
pub use options::{Options, TimeSource};
pub use script::Script;
pub use store::WireStore;

/// What operators call on a store: to check the settings of its servers, and to delete or find states.
#[cfg(feature = "operate")]
pub mod operate {
    pub use super::admin::{
        Clear, Cleared, Diagnosis, Encoding, Facts, Finding, FoundState, Operate, Search, Severity,
    };
}

/// What other crates of this workspace need. It may change in any version.
#[doc(hidden)]
pub mod inside {
    #[cfg(feature = "operate")]
    pub use super::admin::{Node, Nodes, Reply};
    pub use super::fault::{is_of_replica, is_out_of_service};
    pub use super::keyspace::is_hash;
    pub use super::no_connection::NoConnection;
    pub use super::options::LONG_PART;
    pub use super::pauses::Pauses;
    pub use super::plain::{Command, PlainStore, Transact};
    pub use super::wait::Wait;
}
