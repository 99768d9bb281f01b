//! A database, in which single keys are checked and changed.

use async_trait::async_trait;
use tollgate_core::store::{Checks, Request, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Key, Limit, Store, StoreError, schedule};
use tollgate_sql::SqlStore;
use tollgate_wire::operate::{Clear, Cleared, Diagnosis, Facts, FoundState, Operate, Search};
use tollgate_wire::{Options, TimeSource};

use crate::store::has_secret;

/// A store in a database, which does not look for states.
pub(super) struct Database(SqlStore);

impl Database {
    /// Connects to the database at `url`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for options of servers that would count by other keys.
    pub(super) async fn connect(url: &str, options: &Options) -> Result<Self, StoreError> {
        let is_plain = options.prefix() == Options::new().prefix() && !has_secret();
        if !is_plain || options.time_source() != TimeSource::Server {
            return Err(StoreError::new(
                ErrorKind::Unsupported,
                "a database has no prefix and no hashed keys, and this program decides by its clock: leave out \
                 --prefix, --time-source and TOLLGATE_KEY_SECRET",
            ));
        }
        let store = SqlStore::connect(url).await?;
        Ok(Self(store.deadline(options.deadline())))
    }
}

#[async_trait]
impl Store for Database {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.0.decide(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.supports(request)
    }
}

#[async_trait]
impl schedule::Store for Database {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.0.schedule(request).await
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.0.reset_schedule(terms, key).await
    }
}

fn not_there<T>() -> Result<T, StoreError> {
    Err(StoreError::new(
        ErrorKind::Unsupported,
        "the states in a database are not looked for: only `check`, `peek`, `charge`, `give` and `block` work there",
    ))
}

#[async_trait]
impl Operate for Database {
    async fn clear(
        &self,
        _what: &Clear,
        _progress: &mut (dyn for<'c> FnMut(&'c Cleared) + Send),
    ) -> Result<Cleared, StoreError> {
        not_there()
    }

    async fn diagnose(&self) -> Diagnosis {
        Diagnosis::default()
    }

    async fn find(&self, _search: &mut Search) -> Result<Option<Vec<FoundState>>, StoreError> {
        not_there()
    }

    async fn held(&self, _limits: &[Limit], _key: Key<'_>) -> Result<Vec<FoundState>, StoreError> {
        not_there()
    }

    async fn forget(&self, _states: &[FoundState]) -> Result<u64, StoreError> {
        not_there()
    }

    async fn read(&self, _states: &[FoundState]) -> Result<Vec<Option<Facts>>, StoreError> {
        not_there()
    }

    async fn peek_at(
        &self,
        _limit: &Limit,
        _states: &[FoundState],
    ) -> Result<Vec<Option<Verdict>>, StoreError> {
        not_there()
    }
}
