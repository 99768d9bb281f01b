//! Both databases keep every promise of a store.

use std::sync::Arc;

use tempfile::TempDir;
use tollgate_conformance::{
    Harness, LeaseHarness, ScheduleHarness, conformance, lease_conformance, schedule_conformance,
};
use tollgate_sql::{SqlStore, Store, lease, schedule};
use tollgate_testkit::Postgres;

use super::Database;

macro_rules! suites {
    ($module:ident, $database:ty, $histories:expr) => {
        mod $module {
            use super::*;

            struct Suite($database);

            impl Harness for Suite {
                async fn store(&self) -> Arc<dyn Store> {
                    Arc::new(SqlStore::connect(&self.0.url()).await.unwrap())
                }

                fn histories(&self) -> u32 {
                    $histories
                }
            }

            impl ScheduleHarness for Suite {
                async fn store(&self) -> Arc<dyn schedule::Store> {
                    Arc::new(SqlStore::connect(&self.0.url()).await.unwrap())
                }

                fn histories(&self) -> u32 {
                    $histories
                }
            }

            impl LeaseHarness for Suite {
                async fn store(&self) -> Arc<dyn lease::Store> {
                    Arc::new(SqlStore::connect(&self.0.url()).await.unwrap())
                }

                fn histories(&self) -> u32 {
                    $histories
                }
            }

            conformance!(Suite(Database::start()), in one test);
            schedule_conformance!(Suite(Database::start()), in one test);
            lease_conformance!(Suite(Database::start()), in one test);
        }
    };
}

suites!(postgres, Postgres, 2);
suites!(sqlite, TempDir, 4);
