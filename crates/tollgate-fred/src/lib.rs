#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
pub mod connection;
mod engine;
mod failure;
mod fred_store;
#[cfg(feature = "operate")]
pub mod operate;
mod places;

pub use fred;
pub use tollgate_wire::TimeSource;

pub use builder::FredStoreBuilder;
pub use fred_store::FredStore;
#[doc(inline)]
pub use tollgate_core::*;
