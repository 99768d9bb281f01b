//! A table of SQLite, in a file.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Row as _, SqliteExecutor};
use tokio::time::sleep;
use tollgate_cas::{After, Change, Rows, Snapshot};
use tollgate_core::{ErrorKind, StoreError, Timestamp};

use crate::column::{self, signed};
use crate::failure::{self, Statement};
use crate::swept::Swept;

/// How long a call waits until another process has written.
const BUSY: Duration = Duration::from_secs(1);
const CONNECTIONS: u32 = 4;
/// The code of SQLite if another process has the file.
const LOCKED: u32 = 5;
/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(5);

pub(crate) struct Table {
    pool: SqlitePool,
    name: String,
    is_same: Arc<str>,
    insert: Arc<str>,
    update: Arc<str>,
    page: Arc<str>,
    delete: Arc<str>,
    swept: Swept,
}

/// Returns a pool of connections to the file at `url`.
pub(crate) fn pool(url: &str) -> Result<SqlitePool, StoreError> {
    let options: SqliteConnectOptions = url
        .parse()
        .map_err(|error| failed(error, Statement::Reads))?;
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(BUSY);
    Ok(SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(BUSY * 2)
        .test_before_acquire(false)
        .connect_lazy_with(options))
}

impl Table {
    pub(crate) async fn open(pool: SqlitePool, name: &str) -> Result<Self, StoreError> {
        let name = column::table(name)?;
        let file = "SELECT file FROM pragma_database_list WHERE name = 'main'";
        let begun = Instant::now();
        let file: Option<String> = loop {
            match sqlx::query_scalar(file).fetch_one(&pool).await {
                Ok(file) => break file,
                // A new file gets its log by one process at a time, for which SQLite does not wait.
                Err(error)
                    if error.as_database_error().and_then(code) == Some(LOCKED)
                        && begun.elapsed() < BUSY =>
                {
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(failed(error, Statement::Reads)),
            }
        };
        if file.is_none_or(|file| file.is_empty()) {
            return Err(StoreError::new(
                ErrorKind::Misconfigured,
                "a database in memory ends with its connections: give a file, or use `MemoryStore`",
            ));
        }
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {name} (key BLOB PRIMARY KEY, version INTEGER NOT NULL, \
             value BLOB NOT NULL, ends INTEGER NOT NULL) WITHOUT ROWID"
        );
        let created = sqlx::raw_sql(AssertSqlSafe(create)).execute(&pool).await;
        let _ = created.map_err(|error| failed(error, Statement::Reads))?;
        Ok(Self {
            pool,
            name: name.to_owned(),
            is_same: format!("SELECT 1 FROM {name} WHERE key = $1 AND version = $2").into(),
            insert: format!(
                "INSERT INTO {name} (key, version, value, ends) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING"
            )
            .into(),
            update: format!(
                "UPDATE {name} SET version = $2, value = $3, ends = $4 WHERE key = $1 AND version = $5"
            )
            .into(),
            page: format!("SELECT key, ends FROM {name} WHERE key > $1 ORDER BY key LIMIT 1000").into(),
            delete: format!("DELETE FROM {name} WHERE key = $1 AND ends < $2").into(),
            swept: Swept::default(),
        })
    }

    /// Makes a change, unless the row is not as it was.
    async fn change<'c>(
        &self,
        on: impl SqliteExecutor<'c>,
        change: &Change,
    ) -> Result<bool, sqlx::Error> {
        let statement = match (&change.after, change.before) {
            (After::Same, _) => &self.is_same,
            (After::Row(_), Some(_)) => &self.update,
            (After::Row(_), None) => &self.insert,
        };
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(statement))).bind(&change.key);
        if let After::Row(row) = &change.after {
            query = query.bind(signed(row.version)).bind(&row.value);
            query = query.bind(signed(row.ends.as_micros()));
        }
        if let Some(before) = change.before {
            query = query.bind(signed(before));
        }
        match change.after {
            After::Same => Ok(query.fetch_optional(on).await?.is_some()),
            After::Row(_) => Ok(query.execute(on).await?.rows_affected() == 1),
        }
    }

    async fn change_several(&self, changes: &[Change]) -> Result<bool, sqlx::Error> {
        // Waits for other writers now, and not when it has read something already.
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        for change in changes {
            if !self.change(&mut *transaction, change).await? {
                return Ok(false);
            }
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Removes those of the next 1,000 rows that are over at `now`.
    async fn remove(&self, now: i64) -> Result<(), sqlx::Error> {
        let page = sqlx::query_as(AssertSqlSafe(Arc::clone(&self.page)));
        let page = page.bind(self.swept.last());
        let page: Vec<(Vec<u8>, i64)> = page.fetch_all(&self.pool).await?;
        let mut transaction = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        for (key, _) in page.iter().filter(|(_, ends)| *ends < now) {
            let delete = sqlx::query(AssertSqlSafe(Arc::clone(&self.delete)));
            let delete = delete.bind(key).bind(now).execute(&mut *transaction);
            let _ = delete.await?;
        }
        transaction.commit().await?;
        self.swept.go_on(page.last().map(|(key, _)| key.clone()));
        Ok(())
    }
}

/// Returns the time of the machine, which all processes on a file share.
fn now() -> Result<Timestamp, StoreError> {
    Timestamp::try_from(SystemTime::now()).map_err(|error| {
        StoreError::new(
            ErrorKind::Misconfigured,
            "the clock of this machine is wrong: set it",
        )
        .with_source(error)
    })
}

#[async_trait]
impl Rows for Table {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        let failed = |error| failed(error, Statement::Reads);
        let places = vec!["?"; keys.len()].join(", ");
        let table = &self.name;
        let select =
            format!("SELECT version, value, ends, key FROM {table} WHERE key IN ({places})");
        let mut query = sqlx::query(AssertSqlSafe(select));
        for key in keys {
            query = query.bind(key);
        }
        let found = query.fetch_all(&self.pool).await.map_err(failed)?;
        let mut rows = vec![None; keys.len()];
        for columns in &found {
            let columns: &SqliteRow = columns;
            let key: &[u8] = columns.try_get(3).map_err(failed)?;
            if let Some(place) = keys.iter().position(|of| of == key) {
                rows[place] = column::row(columns).map_err(failed)?;
            }
        }
        Ok(Snapshot { rows, now: now()? })
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        changes
            .iter()
            .for_each(|change| self.swept.begin(&change.key));
        let made = match changes {
            [change] => self.change(&self.pool, change).await,
            _ => self.change_several(changes).await,
        };
        made.map_err(|error| failed(error, Statement::Changes))
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let removed = self.remove(signed(now()?.as_micros())).await;
        removed.map_err(|error| failed(error, Statement::Reads))
    }
}

/// Returns the code of an error; further bytes, which say more about it, are left out.
fn code(error: &dyn DatabaseError) -> Option<u32> {
    let code = error.code()?.parse::<u32>().ok();
    code.map(|code| code & 0xff)
}

fn failed(error: sqlx::Error, statement: Statement) -> StoreError {
    failure::failed(error, statement, |error, statement| {
        match code(error) {
            // A disk that fails may have written.
            Some(10) => statement.without_reply(),
            // No such table or column, no rights, read-only, no file, damaged, other columns or types, no database.
            Some(1 | 3 | 8 | 11 | 14 | 19 | 20 | 23 | 26) => ErrorKind::Misconfigured,
            // Busy, locked, full: nothing is changed.
            _ => ErrorKind::Unavailable,
        }
    })
}
