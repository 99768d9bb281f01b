//! `Clients`: a client of fred, or a pool of them.

use std::slice;

use fred::clients::{Client, Pool};

/// What a [`FredStore`](crate::FredStore) sends its commands through: [`Client`] or [`Pool`].
///
/// Its configuration says whether it connects to one server, to a primary behind Sentinels, or to a
/// cluster.
pub trait Clients: sealed::Sealed + Clone + Send + Sync + 'static {
    /// Returns all clients, at least one.
    fn all(&self) -> &[Client];

    /// Returns the client to send the next command through, preferably a connected one.
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
