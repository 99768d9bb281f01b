//! What every store on a Redis-speaking server shares: key text, scripts, encoding and decoding.
//!
//! No I/O: a client crate implements [`Engine`], which moves bytes, and [`WireStore`] is the store.
//! The algorithms run on the server as `script.lua`, the twin beside each pure machine. A script
//! reads the state, says whether the call fits and records it; it answers with the state as it
//! was, and the pure machine says what that means. So the server, which is one thread for all
//! callers, computes no waits, and two answers to one state cannot differ.

mod admin;
mod codec;
mod engine;
mod fault;
mod keyspace;
mod no_connection;
mod options;
mod plain;
mod redact;
mod script;
mod store;

pub use admin::{Clear, Cleared, Diagnosis, Finding, Node, Nodes, Operate, Reply, Severity};
pub use engine::{Call, Engine, Failure};
pub use no_connection::NoConnection;
pub use options::{Clock, Options};
pub use plain::{Command, PlainStore, Transact};
pub use script::Script;
pub use store::WireStore;
