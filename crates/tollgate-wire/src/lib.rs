//! The store on servers that speak the Redis protocol, without I/O: keys, scripts, encoding,
//! errors.
//!
//! A client crate implements [`Engine`], which sends commands, and [`WireStore`] does the rest.
//! Each algorithm runs on the server as `script.lua`, the twin of its state machine. The script
//! reads the state, decides whether the call fits, and records it. It replies with the state from
//! before the call, and the state machine derives the verdict from that. So Redis, which runs all
//! scripts on one thread, computes no waits, and all stores give the same verdict on the same
//! state.
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

#[cfg(feature = "operate")]
pub use admin::{
    Clear, Cleared, Diagnosis, Encoding, Facts, Finding, FoundState, Node, Nodes, Operate,
    OtherState, Reply, Search, Severity,
};
pub use engine::{Engine, Runtime, ScriptCall};
pub use failure::Failure;
pub use fault::{is_of_replica, is_out_of_service};
pub use no_connection::NoConnection;
pub use options::{Options, TimeSource};
pub use pauses::Pauses;
pub use plain::{Command, PlainStore, Transact};
pub use script::Script;
pub use store::WireStore;
