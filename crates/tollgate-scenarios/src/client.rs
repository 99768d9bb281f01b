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

    /// Returns whether each call is a script of its own.
    fn sends_alone(&self) -> bool {
        true
    }

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

/// The same client, with a store that sends every call as one of a batch.
#[derive(Debug)]
pub struct Batched<C>(C);

impl<C> Batched<C> {
    /// Wraps `client`.
    pub fn new(client: C) -> Self {
        Self(client)
    }
}

#[async_trait]
impl<C: Client> Client for Batched<C> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn sends_alone(&self) -> bool {
        false
    }

    async fn server(&self, url: &str, options: Options) -> Result<Connected, StoreError> {
        self.0.server(url, options.with_batches_only()).await
    }

    async fn trusting(
        &self,
        url: &str,
        authority: &Authority,
        identity: Option<&Identity>,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let options = options.with_batches_only();
        self.0.trusting(url, authority, identity, options).await
    }

    async fn cluster(&self, urls: &[String], options: Options) -> Result<Connected, StoreError> {
        self.0.cluster(urls, options.with_batches_only()).await
    }

    async fn sentinels(
        &self,
        urls: &[String],
        name: &str,
        options: Options,
    ) -> Result<Connected, StoreError> {
        let options = options.with_batches_only();
        self.0.sentinels(urls, name, options).await
    }
}
