#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod column;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod failure;
#[cfg(feature = "postgres")]
mod postgres;
mod sql_rows;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod swept;

pub use sql_rows::{SqlRows, SqlStore};
pub use sqlx;
pub use tollgate_cas::CasStore;
#[doc(inline)]
pub use tollgate_core::*;
