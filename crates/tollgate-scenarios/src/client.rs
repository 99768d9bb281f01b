//! `Client`: how the tests of a client crate connect.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_core::{Store, StoreError, lease, schedule};
use tollgate_testkit::{Authority, Identity};
use tollgate_wire::Options;
use tollgate_wire::operate::Operate;

/// A store for limits, leases and schedules, and for operators.
pub trait AnyStore: Store + lease::Store + schedule::Store + Operate + Debug {}

impl<S: Store + lease::Store + schedule::Store + Operate + Debug> AnyStore for S {}

/// A store of any client crate, so that scenarios are compiled once.
pub type Connected = Arc<dyn AnyStore>;

/// How a client crate connects.
///
/// URLs are those of redis-rs: `redis://` or `rediss://`, credentials, and the address of one node.
#[async_trait]
pub trait Client: Sync {
    /// Returns the client's name in the table of faults.
    fn name(&self) -> &'static str;

    /// Returns whether each call is sent as one of a batch, and not as a script of its own.
    fn is_batched(&self) -> bool;

    /// Connects to a server.
    async fn server(&self, url: &str, options: Options) -> Result<Connected, StoreError>;

    /// Connects to a server that `authority` certifies, which may ask for a certificate.
    async fn trusting(
        &self,
        url: &str,
        authority: &Authority,
        identity: Option<&Identity>,
        options: Options,
    ) -> Result<Connected, StoreError>;

    /// Connects to the cluster with these nodes.
    async fn cluster(&self, urls: &[String], options: Options) -> Result<Connected, StoreError>;

    /// Connects to the primary that these Sentinels call `name`.
    async fn sentinels(
        &self,
        urls: &[String],
        name: &str,
        options: Options,
    ) -> Result<Connected, StoreError>;
}
