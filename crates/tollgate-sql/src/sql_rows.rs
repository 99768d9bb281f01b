//! `SqlRows`: a table in any of the databases.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_cas::{CasStore, Change, Connect, Rows, Snapshot};
use tollgate_core::{ErrorKind, StoreError};

/// A store in PostgreSQL or SQLite.
///
/// See [the crate](crate), and [`CasStore`] for its methods.
pub type SqlStore = CasStore<SqlRows>;

/// A table in PostgreSQL or SQLite, for a [`SqlStore`].
#[derive(Clone)]
pub struct SqlRows(Arc<dyn Rows>);

impl SqlRows {
    /// Returns the table of this name in PostgreSQL, over connections of the program, and creates it if it is
    /// missing.
    ///
    /// A pool pings each connection before it is used, which costs a round trip a call, unless it has
    /// [`test_before_acquire(false)`](sqlx::pool::PoolOptions::test_before_acquire).
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) for a name with other characters than letters, digits and `_`;
    /// [`Misconfigured`](ErrorKind::Misconfigured), with the statement to run, if the user may not create tables;
    /// and [`Unavailable`](ErrorKind::Unavailable).
    #[cfg(feature = "postgres")]
    pub async fn postgres(pool: sqlx::PgPool, table: &str) -> Result<Self, StoreError> {
        let table = crate::postgres::Table::open(pool, table).await?;
        Ok(Self(Arc::new(table)))
    }

    /// Returns the table of this name in SQLite, over connections of the program, and creates it if it is missing.
    ///
    /// They should have a write-ahead log and a busy timeout, as those of [`connect`](SqlStore::connect) do.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) for a name with other characters than letters, digits and `_`, and the
    /// errors of the database.
    #[cfg(feature = "sqlite")]
    pub async fn sqlite(pool: sqlx::SqlitePool, table: &str) -> Result<Self, StoreError> {
        let table = crate::sqlite::Table::open(pool, table).await?;
        Ok(Self(Arc::new(table)))
    }
}

/// The table `tollgate_states`, which is created if it is missing.
///
/// - `postgres://USER:PASSWORD@HOST/DATABASE`: eight connections at most.
/// - `sqlite:FILE`: a file that is created if it is missing, with a write-ahead log.
#[async_trait]
impl Connect for SqlRows {
    async fn connect(url: &str) -> Result<Self, StoreError> {
        let wrong = |message| Err(StoreError::new(ErrorKind::Misconfigured, message));
        match url.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => {
                Self::postgres(crate::postgres::pool(url)?, TABLE).await
            }
            #[cfg(feature = "sqlite")]
            Some("sqlite") => Self::sqlite(crate::sqlite::pool(url)?, TABLE).await,
            #[cfg(not(feature = "postgres"))]
            Some("postgres" | "postgresql") => wrong(
                "there is no client for PostgreSQL: use the feature `postgres` of tollgate-sql",
            ),
            #[cfg(not(feature = "sqlite"))]
            Some("sqlite") => {
                wrong("there is no client for SQLite: use the feature `sqlite` of tollgate-sql")
            }
            _ => wrong(
                "that is no address of a database: give postgres://USER@HOST/DATABASE or sqlite:FILE",
            ),
        }
    }
}

/// The name of the table, if the program gives no other.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
const TABLE: &str = "tollgate_states";

#[async_trait]
impl Rows for SqlRows {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        self.0.read(keys).await
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        self.0.replace(changes).await
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        self.0.sweep().await
    }
}

impl fmt::Debug for SqlRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlRows").finish_non_exhaustive()
    }
}
