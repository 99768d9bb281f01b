//! `Rows`: what a database does for a [`CasStore`](crate::CasStore).

use async_trait::async_trait;
use tollgate_core::{StoreError, Timestamp};

/// A table with one row for each key, in a database that can replace rows if they are unchanged.
///
/// [The crate](crate) has a complete one in memory.
#[async_trait]
pub trait Rows: Send + Sync {
    /// Returns the rows of `keys`, at most 100, in the same order, and the time by the database's clock, read after
    /// the call began. Read from where rows are written, not from a replica.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](tollgate_core::ErrorKind::Unavailable) for a database that does not answer, and
    /// [`Protocol`](tollgate_core::ErrorKind::Protocol) for a row that cannot be read at all.
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError>;

    /// Makes all `changes` at once and returns `true`; or none of them, and returns `false`, if one of the rows
    /// is no longer as its change [expects](Change::before). The changes are in the order of their keys, so
    /// that transactions which lock one row after the other do not wait for each other in a circle.
    ///
    /// # Errors
    ///
    /// [`Unknown`](tollgate_core::ErrorKind::Unknown) if nobody knows whether the changes were made: after a
    /// lost reply, the store finds it out. Any other kind means that none was made, and none will be.
    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError>;

    /// Removes some rows that are [over](Row::ends). The store calls this now and then, in the background.
    ///
    /// # Errors
    ///
    /// Errors are ignored: the rows go later.
    async fn sweep(&self) -> Result<(), StoreError>;
}

/// Rows that are found by an address.
#[async_trait]
pub trait Connect: Rows + Sized {
    /// Connects to the database at `url`, as [`CasStore::connect`](crate::CasStore::connect) does.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](tollgate_core::ErrorKind::Misconfigured) for an address that is not valid, and
    /// [`Unavailable`](tollgate_core::ErrorKind::Unavailable) for a database that does not answer.
    async fn connect(url: &str) -> Result<Self, StoreError>;
}

/// The rows of some keys at one time.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "databases make these")]
pub struct Snapshot {
    /// The row of each key, or `None` if it has none.
    pub rows: Vec<Option<Row>>,
    /// The time by the database's clock.
    pub now: Timestamp,
}

/// The row of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "databases make these")]
pub struct Row {
    /// Another random number after each change: a row is unchanged if this is. It is less than 2^63, for
    /// databases whose integers have a sign.
    pub version: u64,
    /// What the store keeps.
    pub value: Vec<u8>,
    /// From when on the row may be removed, by the database's clock.
    pub ends: Timestamp,
}

/// A change of the row of a key.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "only the store makes these")]
pub struct Change {
    /// The key, at most some 1,500 bytes.
    pub key: Vec<u8>,
    /// The [version](Row::version) that the row must have, or `None` if there must be no row.
    pub before: Option<u64>,
    /// What becomes of it.
    pub after: After,
}

/// What becomes of a row.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "databases implement all of them")]
pub enum After {
    /// It stays; it must only be as expected. There is such a row.
    Same,
    /// It becomes this one, whether there was one before or not.
    Row(Row),
}

#[async_trait]
impl<T: Rows + ?Sized> Rows for std::sync::Arc<T> {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        (**self).read(keys).await
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        (**self).replace(changes).await
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        (**self).sweep().await
    }
}
