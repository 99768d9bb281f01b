//! `FredStore`: a store on Redis or Valkey through fred.

use std::sync::Arc;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::{Options, WireStore};

use crate::connection::{Clients, Connection};
use crate::engine::FredEngine;

/// A [`Store`](tollgate_core::Store) on Redis or Valkey, through fred's [`Client`] or [`Pool`](fred::clients::Pool).
///
/// Each call is one `EVALSHA`, written once, whatever the client's own settings are. A call whose
/// outcome is unknown fails with [`ErrorKind::Unknown`], and is never sent again.
///
/// A clone is a handle on the same store, for a limiter, leases and an `Outbound` on the same connections.
///
/// # The runtime
///
/// fred's tasks run on the Tokio runtime on which the client was connected, and end with it. A store
/// that connected by itself ([`connect`](FredStore::connect), [`builder`](FredStore::builder)) then
/// fails every call with [`ErrorKind::Misconfigured`]; one on a client of yours, with
/// [`ErrorKind::Unavailable`]. So do not keep a store in a `static` that several `#[tokio::test]`s
/// share, because each of them has a runtime of its own: connect one store in each.
#[derive(Debug)]
pub struct FredStore<C = Client>(Arc<WireStore<FredEngine<C>>>);

impl<C: Clients> FredStore<C> {
    /// Returns a store that sends its commands through `clients`, with the default options.
    /// [`FredStoreBuilder::over`](crate::FredStoreBuilder::over) sets others.
    ///
    /// The caller connects `clients`, and keeps them connected.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if `clients` are for a cluster and `max_redirections` of their
    /// `ConnectionConfig` is not 0. fred follows `ASK` on a connection that other calls use, which
    /// can mix up their replies. Where it may not write a command twice, its client stops for good
    /// instead.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use tollgate_fred::FredStore;
    /// use tollgate_fred::fred::prelude::*;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::from_url("redis://127.0.0.1:6379")?;
    /// let client = Builder::from_config(config).build()?;
    /// client.init().await?;
    /// let store = FredStore::new(client)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(clients: C) -> Result<Self, StoreError> {
        follows_nothing(&clients)?;
        Ok(Self::of(clients, Options::default(), Vec::new()))
    }

    pub(crate) fn of(clients: C, options: Options, connections: Vec<Connection>) -> Self {
        let engine = FredEngine::new(clients, options.deadline(), connections);
        Self(Arc::new(WireStore::new(engine, options)))
    }

    /// Returns the store that this wraps.
    pub(crate) fn wire(&self) -> &WireStore<FredEngine<C>> {
        &self.0
    }

    /// Returns the clients of this store.
    pub fn clients(&self) -> &C {
        self.0.engine().clients()
    }

    /// Returns the options: key prefix, clock and deadline.
    pub fn options(&self) -> &Options {
        self.0.options()
    }
}

tollgate_wire::__decides!(FredStore<C: Clients> .wire());
tollgate_wire::__plans_and_leases!(FredStore<C: Clients> .wire());

impl<C> Clone for FredStore<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Fails if fred would follow redirections by itself.
pub(crate) fn follows_nothing(clients: &impl Clients) -> Result<(), StoreError> {
    let follows =
        |client: &Client| client.is_clustered() && client.connection_config().max_redirections != 0;
    if clients.all().iter().any(follows) {
        return Err(StoreError::new(
            ErrorKind::Misconfigured,
            "set `max_redirections` of this cluster client's `ConnectionConfig` to 0: the store \
             follows redirections itself",
        ));
    }
    Ok(())
}
