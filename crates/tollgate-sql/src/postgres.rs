//! A table of PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Row as _};
use tokio::time::timeout;
use tollgate_cas::{After, Change, Rows, Snapshot};
use tollgate_core::{ErrorKind, StoreError, Timestamp};

use crate::column::{self, instant, signed};
use crate::failure::{self, Statement};
use crate::swept::Swept;

/// How many connections a store opens by itself.
const CONNECTIONS: u32 = 8;
/// How long a call waits for one of them.
const PATIENCE: Duration = Duration::from_secs(2);
/// After how long the server gives up a statement that waits for a lock, before the store does, so that it is known
/// that nothing was changed; or any statement: sooner than a row can go that was changed.
const TIMEOUTS: [(&str, &str); 2] = [("lock_timeout", "1500ms"), ("statement_timeout", "10s")];
/// After how long without a reply a connection is given up: later than the server gives up a statement.
const SILENCE: Duration = Duration::from_secs(12);
/// The server's clock, in microseconds.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(crate) struct Table {
    pool: PgPool,
    name: String,
    sweep: Arc<str>,
    swept: Swept,
}

/// Returns a pool of connections to the database at `url`.
pub(crate) fn pool(url: &str) -> Result<PgPool, StoreError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error| failed(error, Statement::Reads))?;
    let options = options.options(TIMEOUTS);
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
            name: name.to_owned(),
            sweep: format!(
                "WITH page AS MATERIALIZED (SELECT key FROM {name} WHERE key > $1 ORDER BY key LIMIT 1000), \
                 over AS MATERIALIZED (SELECT t.key FROM {name} t JOIN page USING (key) WHERE t.ends < {CLOCK} \
                 FOR UPDATE OF t SKIP LOCKED), \
                 gone AS (DELETE FROM {name} t USING over WHERE t.key = over.key) \
                 SELECT key FROM page ORDER BY key DESC LIMIT 1"
            )
            .into(),
            swept: Swept::default(),
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

    async fn change(&self, changes: &[Change]) -> Result<bool, sqlx::Error> {
        let mut query = sqlx::query(AssertSqlSafe(statement(&self.name, changes)));
        for change in changes {
            self.swept.begin(&change.key);
            query = query.bind(&change.key);
            if let After::Row(row) = &change.after {
                query = query.bind(signed(row.version)).bind(&row.value);
                query = query.bind(signed(row.ends.as_micros()));
            }
            if let Some(before) = change.before {
                query = query.bind(signed(before));
            }
        }
        let done = query.execute(&self.pool).await?;
        Ok(!is_one(changes) || done.rows_affected() == 1)
    }
}

/// Returns whether a statement without others does it.
fn is_one(changes: &[Change]) -> bool {
    matches!(changes, [change] if matches!(change.after, After::Row(_)))
}

/// Returns the statement that makes all changes, or none if a row is not as it was: of one change, it then changes
/// no row; of several, it divides by zero, which undoes all.
///
/// Of several, it first locks the rows that there are, in the order of their keys, and looks at them as they are then;
/// `ON CONFLICT` finds a row that is inserted meanwhile. Each row is found by an equation of its own: for a join, the
/// planner would have to know how large the table has become.
fn statement(table: &str, changes: &[Change]) -> String {
    let is_one = is_one(changes);
    let (mut locks, mut fits) = (String::new(), "SELECT true".to_owned());
    let (mut made, mut count, mut number) = (String::new(), "0".to_owned(), 0);
    let mut rows = 0;
    for (place, change) in changes.iter().enumerate() {
        let mut next = || {
            number += 1;
            number
        };
        let key = next();
        let row = matches!(change.after, After::Row(_)).then(|| [next(), next(), next()]);
        let before = change.before.map(|_| next());
        if let Some(before) = before.filter(|_| !is_one) {
            locks += &format!(
                "l{place} AS MATERIALIZED (SELECT version FROM {table} WHERE key = ${key} FOR UPDATE), "
            );
            fits += &format!(" AND (SELECT version FROM l{place}) = ${before}");
        }
        let Some([version, value, ends]) = row else {
            continue;
        };
        let change = match before {
            Some(before) => format!(
                "UPDATE {table} SET version = ${version}, value = ${value}, ends = ${ends} \
                 WHERE key = ${key} AND version = ${before}"
            ),
            None => format!(
                "INSERT INTO {table} (key, version, value, ends) \
                 SELECT ${key}::bytea, ${version}::bigint, ${value}::bytea, ${ends}::bigint WHERE true"
            ),
        };
        let conflict = if before.is_none() {
            " ON CONFLICT (key) DO NOTHING"
        } else {
            ""
        };
        if is_one {
            return change + conflict;
        }
        made +=
            &format!(", c{place} AS ({change} AND (SELECT ok FROM fits){conflict} RETURNING 1)");
        count += &format!(" + (SELECT count(*) FROM c{place})");
        rows += 1;
    }
    format!(
        "WITH {locks}fits AS MATERIALIZED ({fits} AS ok){made} \
         SELECT 1 / (CASE WHEN (SELECT ok FROM fits) AND {count} = {rows} THEN 1 ELSE 0 END)"
    )
}

#[async_trait]
impl Rows for Table {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        let of = |place: usize| {
            format!(
                "SELECT t.version, t.value, t.ends, {CLOCK}, {place} FROM (SELECT) AS one \
                 LEFT JOIN {table} t ON t.key = ${number}",
                table = self.name,
                number = place + 1
            )
        };
        let statement: Vec<_> = (0..keys.len()).map(of).collect();
        let statement: Arc<str> = statement.join(" UNION ALL ").into();
        let read = || {
            let query = sqlx::query(AssertSqlSafe(Arc::clone(&statement)));
            let query = keys.iter().fold(query, |query, key| query.bind(key));
            query.fetch_all(&self.pool)
        };
        let mut found = read().await;
        // After a restart of the server, each connection fails once.
        for _ in 0..self.pool.options().get_max_connections() {
            if !matches!(&found, Err(error) if is_lost(error) || is_race(error)) {
                break;
            }
            found = read().await;
        }
        let failed = |error| failed(error, Statement::Reads);
        let found = found.map_err(failed)?;
        let mut now = Timestamp::UNIX_EPOCH;
        let mut rows = vec![None; keys.len()];
        for columns in &found {
            now = instant(columns.try_get(3).map_err(failed)?);
            let place: i32 = columns.try_get(4).map_err(failed)?;
            if let Some(row) = usize::try_from(place)
                .ok()
                .and_then(|place| rows.get_mut(place))
            {
                *row = column::row(columns).map_err(failed)?;
            }
        }
        Ok(Snapshot { rows, now })
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        match self.change(changes).await {
            Ok(made) => Ok(made),
            Err(error) if is_race(&error) => Ok(false),
            Err(error) => Err(failed(error, Statement::Changes)),
        }
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let query = sqlx::query_scalar(AssertSqlSafe(Arc::clone(&self.sweep)));
        let last = query
            .bind(self.swept.last())
            .fetch_optional(&self.pool)
            .await;
        let last = last.map_err(|error| failed(error, Statement::Reads))?;
        self.swept.go_on(last);
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
