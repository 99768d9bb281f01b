//! `CasStore` keeps every promise of a store, on rows in memory, also beside others that change the same rows.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::SystemTime;

use async_trait::async_trait;
use tokio::runtime::Runtime;
use tollgate_cas::store::{Checks, Request, Verdicts};
use tollgate_cas::{
    CasStore, Change, ErrorKind, Rows, Snapshot, Store, StoreError, Timestamp, lease, schedule,
};
use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};

use super::{Held, make};

/// A table in memory, which loses replies, makes changes late and lets others be faster, if it is troubled.
#[derive(Debug, Default)]
struct Table {
    rows: Held,
    is_troubled: bool,
    /// Changes whose replies were lost before they were made.
    late: Mutex<Vec<Vec<Change>>>,
    calls: AtomicU64,
}

impl Table {
    fn troubled() -> Self {
        Self {
            is_troubled: true,
            ..Self::default()
        }
    }
}

fn lost() -> StoreError {
    StoreError::new(ErrorKind::Unknown, "the reply was lost")
}

#[async_trait]
impl Rows for Table {
    async fn read<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Snapshot, StoreError> {
        let rows = self.rows.lock().unwrap();
        let rows = keys.iter().map(|key| rows.get(key).cloned()).collect();
        let now = Timestamp::try_from(SystemTime::now()).unwrap();
        Ok(Snapshot { rows, now })
    }

    async fn replace<'a>(&'a self, changes: &'a [Change]) -> Result<bool, StoreError> {
        if !self.is_troubled {
            return Ok(make(&self.rows, changes));
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call % 4 == 2 {
            // Half of them while the next change is on its way, the others after it.
            for late in self.late.lock().unwrap().drain(..) {
                let _ = make(&self.rows, &late);
            }
        }
        let answer = match call % 11 {
            // It is made, or will be, or never, but nobody says so.
            1 | 2 => {
                let _ = make(&self.rows, changes);
                Err(lost())
            }
            4 | 5 => {
                self.late.lock().unwrap().push(changes.to_vec());
                Err(lost())
            }
            7 => Err(lost()),
            9 => Ok(false),
            _ => Ok(make(&self.rows, changes)),
        };
        if call % 4 == 3 {
            for late in self.late.lock().unwrap().drain(..) {
                let _ = make(&self.rows, &late);
            }
        }
        tokio::task::yield_now().await;
        answer
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let now = Timestamp::try_from(SystemTime::now()).unwrap();
        self.rows.lock().unwrap().retain(|_, row| row.ends > now);
        Ok(())
    }
}

/// A second runtime, which every other call of a process is on.
static OTHER: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Three processes, whose calls take turns, on one table.
struct Fleet([CasStore<Arc<Table>>; 3], AtomicUsize);

impl Fleet {
    fn new(table: Table) -> Self {
        let table = Arc::new(table);
        Self(
            [(); 3].map(|()| CasStore::new(Arc::clone(&table))),
            AtomicUsize::new(0),
        )
    }

    fn next(&self) -> &CasStore<Arc<Table>> {
        &self.0[self.1.fetch_add(1, Ordering::Relaxed) % 3]
    }
}

#[async_trait]
impl Store for Fleet {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let is_other = self.1.load(Ordering::Relaxed) / 3 % 2 == 1;
        let mut call = self.next().decide(request);
        poll_fn(|context| {
            let _runtime = is_other.then(|| OTHER.enter());
            call.as_mut().poll(context)
        })
        .await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.next().reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.next().supports(request)
    }
}

struct Troubled;

impl Harness for Troubled {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(Fleet::new(Table::troubled()))
    }

    fn histories(&self) -> u32 {
        8
    }
}

mod troubled {
    use super::*;

    conformance!(Troubled, in one test);
}

struct InMemory;

impl Harness for InMemory {
    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(CasStore::new(Arc::new(Table::default())))
    }

    fn histories(&self) -> u32 {
        16
    }
}

impl ScheduleHarness for InMemory {
    async fn store(&self) -> Arc<dyn schedule::Store> {
        Arc::new(CasStore::new(Arc::new(Table::default())))
    }
}

impl LeaseHarness for InMemory {
    async fn store(&self) -> Arc<dyn lease::Store> {
        Arc::new(CasStore::new(Arc::new(Table::default())))
    }
}

conformance!(InMemory, in one test);
schedule_conformance!(InMemory, in one test);
lease_conformance!(InMemory, in one test);
