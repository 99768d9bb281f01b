//! A table of PostgreSQL.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row as _};
use tokio::time::timeout;
use tollgate_cas::{After, Change, Row, Rows, Snapshot};
use tollgate_core::{ErrorKind, StoreError, Timestamp};

use crate::column::{self, instant, signed};
use crate::failure::{self, Statement};

/// How many connections a store opens by itself.
const CONNECTIONS: u32 = 8;
/// How long a call waits for one of them.
const PATIENCE: Duration = Duration::from_secs(2);
/// After how long the server gives up a statement, such as one that waits for a lock: sooner than a row can go
/// that was changed.
const STATEMENT_TIMEOUT: &str = "10s";
/// After how long without a reply a connection is given up: later than the server gives up a statement.
const SILENCE: Duration = Duration::from_secs(12);
/// The server's clock, in microseconds.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(crate) struct Table {
    pool: PgPool,
    read: Arc<str>,
    insert: Arc<str>,
    update: Arc<str>,
    several: Arc<str>,
    sweep: Arc<str>,
    /// The last key that was looked at whether its row is over.
    swept: Mutex<Vec<u8>>,
}

/// Returns a pool of connections to the database at `url`.
pub(crate) fn pool(url: &str) -> Result<PgPool, StoreError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error| failed(error, Statement::Reads))?;
    let options = options.options([("statement_timeout", STATEMENT_TIMEOUT)]);
    Ok(PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        // It would cost each call a round trip, and `read` tries again anyway.
        .test_before_acquire(false)
        // sqlx waits for the reply to a statement that was given up; if the network is gone, none comes.
        .after_release(|connection, _| {
            Box::pin(async move {
                match timeout(SILENCE, connection.ping()).await {
                    Ok(replied) => replied.map(|()| true),
                    Err(_) => Err(sqlx::Error::PoolTimedOut),
                }
            })
        })
        .connect_lazy_with(options))
}

impl Table {
    pub(crate) async fn open(pool: PgPool, name: &str) -> Result<Self, StoreError> {
        let name = column::table(name)?;
        // An update leaves its place to the next one of the same row, if a page has room: no column that changes has
        // an index.
        let create = format!(
            "CREATE TABLE IF NOT EXISTS {name} (key bytea PRIMARY KEY, version bigint NOT NULL, \
             value bytea NOT NULL, ends bigint NOT NULL) WITH (fillfactor = 50)"
        );
        let table = Self {
            pool,
            read: format!(
                "SELECT t.version, t.value, t.ends, {CLOCK} FROM unnest($1) WITH ORDINALITY AS k(key, place) \
                 LEFT JOIN {name} t ON t.key = k.key ORDER BY k.place"
            )
            .into(),
            insert: format!(
                "INSERT INTO {name} (key, version, value, ends) VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING"
            )
            .into(),
            update: format!(
                "UPDATE {name} SET version = $2, value = $3, ends = $4 WHERE key = $1 AND version = $5"
            )
            .into(),
            several: several(name).into(),
            sweep: format!(
                "WITH page AS MATERIALIZED (SELECT key FROM {name} WHERE key > $1 ORDER BY key LIMIT 1000), \
                 over AS MATERIALIZED (SELECT t.key FROM {name} t JOIN page USING (key) WHERE t.ends < {CLOCK} \
                 FOR UPDATE OF t SKIP LOCKED), \
                 gone AS (DELETE FROM {name} t USING over WHERE t.key = over.key) \
                 SELECT key FROM page ORDER BY key DESC LIMIT 1"
            )
            .into(),
            swept: Mutex::default(),
        };
        // Who may use a table may not be allowed to create one.
        let found = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL").bind(name);
        let found = found.fetch_one(&table.pool).await;
        if !found.map_err(|error| failed(error, Statement::Reads))? {
            // Several processes may start at once, and `IF NOT EXISTS` does not wait for the others.
            let locked = format!("SELECT pg_advisory_xact_lock(hashtext('{name}')); {create}");
            let created = sqlx::raw_sql(AssertSqlSafe(locked)).execute(&table.pool);
            let _ = created.await.map_err(|error| {
                let error = failed(error, Statement::Reads);
                match error.kind() {
                    ErrorKind::Misconfigured => StoreError::new(
                        ErrorKind::Misconfigured,
                        format!("the user may not create the table: run `{create}`"),
                    )
                    .with_source(error),
                    _ => error,
                }
            })?;
        }
        Ok(table)
    }

    /// Makes `row` that of `key`, unless its version is not `before`, and returns how many rows it made.
    async fn change(&self, key: &[u8], before: Option<u64>, row: &Row) -> Result<u64, sqlx::Error> {
        let statement = match before {
            Some(_) => &self.update,
            None => &self.insert,
        };
        let mut query = sqlx::query(AssertSqlSafe(Arc::clone(statement)));
        query = query.bind(key).bind(signed(row.version));
        query = query.bind(&row.value).bind(signed(row.ends.as_micros()));
        if let Some(before) = before {
            query = query.bind(signed(before));
        }
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    /// Makes several changes in one statement, which fails if a row is not as it was.
    async fn change_several(&self, changes: &[Change]) -> Result<u64, sqlx::Error> {
        let (mut keys, mut before) = (Vec::new(), Vec::new());
        let (mut versions, mut values, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let row = match &change.after {
                After::Same => None,
                After::Row(row) => Some(row),
            };
            keys.push(&change.key[..]);
            before.push(change.before.map(signed));
            versions.push(row.map(|row| signed(row.version)));
            values.push(row.map(|row| &row.value[..]));
            ends.push(row.map(|row| signed(row.ends.as_micros())));
        }
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.several)));
        let query = query.bind(keys).bind(before).bind(versions);
        let _ = query.bind(values).bind(ends).execute(&self.pool).await?;
        Ok(1)
    }
}

/// Returns the statement that makes several changes, or divides by zero, which undoes all, if a row is not as it was.
///
/// It first locks the rows that there are, in the order of their keys, and looks at them as they are then. A row that
/// is inserted meanwhile is found by `ON CONFLICT`. Rows without a new version stay.
fn several(table: &str) -> String {
    format!(
        "WITH input AS (SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[]) \
             AS i(key, before, version, value, ends)), \
         locked AS MATERIALIZED (SELECT t.key, t.version FROM {table} t WHERE t.key = ANY($1) ORDER BY t.key \
             FOR UPDATE), \
         fits AS MATERIALIZED (SELECT count(*) = 0 AS ok FROM input i LEFT JOIN locked l ON l.key = i.key \
             WHERE l.version IS DISTINCT FROM i.before), \
         inserted AS (INSERT INTO {table} (key, version, value, ends) SELECT i.key, i.version, i.value, i.ends \
             FROM input i, fits WHERE fits.ok AND i.before IS NULL ORDER BY i.key \
             ON CONFLICT (key) DO NOTHING RETURNING 1), \
         updated AS (UPDATE {table} t SET version = i.version, value = i.value, ends = i.ends FROM input i, fits \
             WHERE fits.ok AND i.version IS NOT NULL AND t.key = i.key AND t.version = i.before RETURNING 1) \
         SELECT 1 / (CASE WHEN (SELECT ok FROM fits) AND (SELECT count(version) FROM input) = \
             (SELECT count(*) FROM inserted) + (SELECT count(*) FROM updated) THEN 1 ELSE 0 END)"
    )
}

#[async_trait]
impl Rows for Table {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        let read = || {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.read)));
            query.bind(keys).fetch_all(&self.pool)
        };
        let mut found = read().await;
        // After a restart of the server, each connection fails once.
        for _ in 0..self.pool.options().get_max_connections() {
            if !matches!(&found, Err(error) if is_lost(error)) {
                break;
            }
            found = read().await;
        }
        let failed = |error| failed(error, Statement::Reads);
        let found = found.map_err(failed)?;
        let clock = found.last().map(|row: &PgRow| row.try_get(3));
        let now = clock.transpose().map_err(failed)?;
        let rows = found.iter().map(column::row).collect::<Result<_, _>>();
        Ok(Snapshot {
            rows: rows.map_err(failed)?,
            now: now.map_or(Timestamp::UNIX_EPOCH, instant),
        })
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        let made = match changes {
            [
                Change {
                    key,
                    before,
                    after: After::Row(row),
                },
            ] => self.change(key, *before, row).await,
            _ => self.change_several(changes).await,
        };
        match made {
            Ok(made) => Ok(made == 1),
            Err(error) if is_race(&error) => Ok(false),
            Err(error) => Err(failed(error, Statement::Changes)),
        }
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let after = || self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let from = after().clone();
        let query = sqlx::query_scalar(AssertSqlSafe(Arc::clone(&self.sweep))).bind(from);
        let last = query.fetch_optional(&self.pool).await;
        *after() = last
            .map_err(|error| failed(error, Statement::Reads))?
            .unwrap_or_default();
        Ok(())
    }
}

/// Returns whether a connection was lost, as after a restart of the server.
fn is_lost(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) => true,
        sqlx::Error::Database(error) => ends_session(error.code().as_deref()),
        _ => false,
    }
}

/// Returns whether the server ends the session with this code, perhaps after a commit.
fn ends_session(code: Option<&str>) -> bool {
    code.is_some_and(|code| code.starts_with("57P"))
}

/// Returns whether the database made no change because others changed the rows: a division by zero, a deadlock, or a
/// serialization failure.
fn is_race(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    matches!(code.as_deref(), Some("22012" | "40P01" | "40001"))
}

fn failed(error: sqlx::Error, statement: Statement) -> StoreError {
    failure::failed(error, statement, |error, statement| {
        let code = error.code();
        let code = code.as_deref().unwrap_or_default();
        match code.get(..2).unwrap_or_default() {
            // A proxy lost the server, or the server does not know either.
            _ if ends_session(Some(code)) || code == "40003" => statement.without_reply(),
            "08" => statement.without_reply(),
            // Rights, names, types, other columns and passwords; and prepared statements that a proxy has lost.
            "22" | "23" | "26" | "28" | "3D" | "3F" | "42" | "44" => ErrorKind::Misconfigured,
            // A statement that is refused has changed nothing.
            _ => ErrorKind::Unavailable,
        }
    })
}
