#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod book;
mod cas_store;
mod group;
mod key;
mod marks;
mod rows;

pub use cas_store::CasStore;
pub use rows::{After, Change, Connect, Row, Rows, Snapshot};
#[doc(inline)]
pub use tollgate_core::*;
