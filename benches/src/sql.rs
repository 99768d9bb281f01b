//! Databases, beside one bare statement for each call.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use criterion::Criterion;
use tempfile::TempDir;
use tollgate_core::store::{Checks, Request, State, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError, Timestamp};
use tollgate_sql::SqlStore;
use tollgate_sql::sqlx::postgres::{PgPool, PgPoolOptions};
use tollgate_sql::sqlx::{self, Executor};
use tollgate_testkit::Postgres;

use super::{CASE, Case, Group, Server, group, on_server};

/// A PostgreSQL server and a file of SQLite, which are made when they are first needed.
#[derive(Default)]
pub(crate) struct Databases {
    postgres: OnceCell<Postgres>,
    folder: OnceCell<TempDir>,
}

impl Databases {
    /// Measures a case on both databases.
    pub(crate) fn compare(&self, group: &mut Group<'_>, case: &Case, server: &Server) {
        on_server(group, "postgres", case, server, || self.postgres(server));
        if case.limits == 1 {
            on_server(group, "postgres, bare statement", case, server, || {
                self.bare(case, server)
            });
        }
        on_server(group, "sqlite", case, server, || {
            let folder = self
                .folder
                .get_or_init(|| tempfile::tempdir().expect("a folder"));
            let url = format!("sqlite:{}", folder.path().join("limits.db").display());
            connect(&url, server)
        });
    }

    /// Measures 64 calls in flight for one key, of one process and of four.
    pub(crate) fn one_key(&self, criterion: &mut Criterion, server: &Server) {
        let case = &Case {
            name: "64 in flight, 1 key",
            in_flight: 64,
            ..CASE
        };
        let mut group = group(criterion, case.name);
        self.compare(&mut group, case, server);
        on_server(&mut group, "postgres, 4 processes", case, server, || {
            let stores = [(); 4].map(|()| self.postgres(server));
            InTurn(stores, AtomicUsize::new(0))
        });
        group.finish();
    }

    fn url(&self) -> String {
        // Each commit waits for the disk, as it does unless somebody says otherwise.
        let server = self.postgres.get_or_init(|| Postgres::with("fsync=on"));
        server.url()
    }

    fn postgres(&self, server: &Server) -> SqlStore {
        connect(&self.url(), server)
    }

    fn bare(&self, case: &Case, server: &Server) -> Bare {
        let is_allowed = case.is_allowed;
        let pool = PgPoolOptions::new()
            .max_connections(8)
            .test_before_acquire(false);
        let pool = server.runtime().block_on(async {
            let pool = pool.connect(&self.url()).await?;
            let table = "CREATE TABLE IF NOT EXISTS bare (key bytea PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50)";
            let _ = pool.execute(table).await?;
            Ok::<_, sqlx::Error>(pool)
        });
        let pool = pool.expect("PostgreSQL answers");
        Bare { pool, is_allowed }
    }
}

fn connect(url: &str, server: &Server) -> SqlStore {
    let store = server.runtime().block_on(SqlStore::connect(url));
    store.expect("the database answers")
}

/// Stores that are called in turn, as by several processes.
struct InTurn<const N: usize>([SqlStore; N], AtomicUsize);

#[async_trait]
impl<const N: usize> Store for InTurn<N> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let turn = self.1.fetch_add(1, Ordering::Relaxed);
        self.0[turn % N].decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0[0].reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0[0].supports(request)
    }
}

/// Counts each call in a row of its own key by one statement, or only reads the row, and keeps no limit.
struct Bare {
    pool: PgPool,
    is_allowed: bool,
}

#[async_trait]
impl Store for Bare {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let statement = match self.is_allowed {
            true => {
                "INSERT INTO bare VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET n = bare.n + 1"
            }
            false => "SELECT n FROM bare WHERE key = $1",
        };
        let check = &request.checks()[0];
        let key = [check.limit().name().as_bytes(), &check.key().partition()].concat();
        let query = sqlx::query(statement).bind(key);
        let done = query.execute(&self.pool).await;
        let _ = done.map_err(|error| {
            StoreError::new(ErrorKind::Unavailable, "the statement failed").with_source(error)
        })?;
        let mut states = [State::default()];
        let now = Timestamp::UNIX_EPOCH;
        if !self.is_allowed {
            let _ = request.decide_on(&mut states[..], now);
        }
        Ok(request.decide_on(&mut states[..], now))
    }

    async fn reset<'a>(&'a self, _checks: Checks<'a>) -> Result<(), StoreError> {
        Ok(())
    }

    fn supports<'a>(&self, _request: &Request<'a>) -> Result<(), StoreError> {
        Ok(())
    }
}
