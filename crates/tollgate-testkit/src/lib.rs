#![doc = include_str!("../README.md")]

mod connection;
mod flavor;
mod folder;
mod port;
mod process;
mod server;
pub mod shared;

pub use connection::{Connection, Reply};
pub use flavor::Flavor;
pub use server::{Server, ServerOptions};
