//! Limits in databases: every promise of a store, what becomes of calls while a database fails, and many processes.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod conformance;
mod faults;
mod processes;
mod relay;

use tempfile::TempDir;
use tollgate_sql::{RateLimiter, SqlStore};
use tollgate_testkit::Postgres;

/// A database of one test, with a store in it.
trait Database {
    fn start() -> Self;

    fn url(&self) -> String;
}

impl Database for Postgres {
    fn start() -> Self {
        Self::start()
    }

    fn url(&self) -> String {
        self.url()
    }
}

impl Database for TempDir {
    fn start() -> Self {
        tempfile::tempdir().unwrap()
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path().join("limits.db").display())
    }
}

/// Returns a limiter in the database at `url`.
async fn limiter(url: &str, limit: &str) -> RateLimiter<SqlStore> {
    let store = SqlStore::connect(url).await.unwrap();
    RateLimiter::new(store, [limit]).unwrap()
}
