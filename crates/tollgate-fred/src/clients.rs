//! What fred offers to send commands through: a client, or a pool of them.

use std::slice;

use fred::clients::{Client, Pool};

/// What a [`FredStore`](crate::FredStore) sends its commands through: [`Client`] or [`Pool`].
///
/// Each is centralized, behind Sentinels, or a cluster's, as its own configuration says.
pub trait Clients: sealed::Sealed + Clone + Send + Sync + 'static {
    /// Returns all clients, at least one.
    fn all(&self) -> &[Client];

    /// Returns the client to send the next command through, a connected one if there is any.
    fn next(&self) -> &Client;
}

impl Clients for Client {
    fn all(&self) -> &[Client] {
        slice::from_ref(self)
    }

    fn next(&self) -> &Client {
        self
    }
}

impl Clients for Pool {
    fn all(&self) -> &[Client] {
        self.clients()
    }

    fn next(&self) -> &Client {
        self.next_connected()
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "so that no other type implements it")]
    pub trait Sealed {}

    impl Sealed for fred::clients::Client {}
    impl Sealed for fred::clients::Pool {}
}
