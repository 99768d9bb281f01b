//! The errors of databases, as those of a store.

use sqlx::error::DatabaseError;
use tollgate_core::{ErrorKind, StoreError};

/// Whether a statement changes rows, so that its lost reply leaves open whether it did.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Statement {
    Reads,
    Changes,
}

/// Returns the error of a store for that of a database; `refused` says what it means that the database refuses
/// a statement.
pub(crate) fn failed(
    error: sqlx::Error,
    statement: Statement,
    refused: impl FnOnce(&dyn DatabaseError, Statement) -> ErrorKind,
) -> StoreError {
    let kind = match &error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => ErrorKind::Unavailable,
        sqlx::Error::Configuration(_) => ErrorKind::Misconfigured,
        sqlx::Error::Database(error) => refused(&**error, statement),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => ErrorKind::Protocol,
        _ => statement.without_reply(),
    };
    let message = match kind {
        ErrorKind::Misconfigured => {
            "the database refuses: check the address, the user's rights and the table"
        }
        ErrorKind::Unavailable => {
            "the database does not answer, or cannot write now: nothing was counted"
        }
        ErrorKind::Protocol => "the table has other columns: give tollgate a table of its own",
        _ => "the reply of the database was lost",
    };
    StoreError::new(kind, message).with_source(error)
}

impl Statement {
    /// Returns the kind of an error if no reply came.
    pub(crate) fn without_reply(self) -> ErrorKind {
        match self {
            Self::Reads => ErrorKind::Unavailable,
            Self::Changes => ErrorKind::Unknown,
        }
    }
}
