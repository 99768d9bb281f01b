#![doc = include_str!("../README.md")]
#![allow(clippy::missing_panics_doc, reason = "a panic is a failed test")]

mod cluster;
mod connection;
mod fake;
mod flavor;
mod folder;
mod port;
mod postgres;
mod process;
mod program;
mod proxy;
mod sentinel;
mod server;
pub mod shared;
mod tls;

pub use cluster::{Cluster, ClusterOptions, Migration};
pub use connection::{Connection, Reply};
pub use fake::{Answer, FakeServer};
pub use flavor::{Flavor, rounds};
pub use postgres::Postgres;
pub use program::Program;
pub use proxy::Proxy;
pub use sentinel::{SentinelGroup, SentinelOptions};
pub use server::{Server, ServerOptions};
pub use tls::{Authority, Identity};
