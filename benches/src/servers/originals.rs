//! Widely used rate limiters, as subjects to compare the library with.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use tollgate_scenarios::published as systems;

use super::clients::{Client, RedisRs};
use super::keys::Keys;
use super::measure::{Plan, Point};
use super::run::{Subject, erase};
use crate::Problem;

/// The number of keys: as many as most other subjects use.
const KEYS: usize = 1_000;
/// A limit that no measurement reaches.
const MOST: u64 = 1_000_000_000;
/// How long a log keeps its calls, in seconds. At a few hundred calls per second for each key, it
/// holds about a hundred.
const LOG_S: u64 = 1;
const MINUTE_S: u64 = 60;

/// The limiters, named by how they store their counts.
#[derive(Clone, Copy)]
enum System {
    CounterInTransaction,
    CounterSetByFirst,
    CounterSetThenRead,
    CountsBySecond,
    SortedSetInScript,
    SortedSetInTransaction,
}

impl System {
    const ALL: [(Self, &'static str); 6] = [
        (
            Self::SortedSetInTransaction,
            "sorted set in one transaction",
        ),
        (Self::SortedSetInScript, "sorted set in a script"),
        (Self::CounterSetByFirst, "counter set by the first call"),
        (Self::CounterSetThenRead, "counter set, then read"),
        (Self::CounterInTransaction, "counter in one transaction"),
        (Self::CountsBySecond, "counts by second"),
    ];

    async fn decide(
        self,
        connection: &mut MultiplexedConnection,
        key: &str,
        now_ms: u64,
    ) -> RedisResult<bool> {
        match self {
            Self::CounterInTransaction => {
                systems::counter_in_transaction(connection, key, MINUTE_S, MOST).await
            }
            Self::CounterSetByFirst => {
                systems::counter_set_by_the_first(connection, key, MINUTE_S, MOST).await
            }
            Self::CounterSetThenRead => {
                systems::counter_set_then_read(connection, key, MINUTE_S, MOST).await
            }
            Self::CountsBySecond => {
                let counts = format!("{key}:counts");
                systems::counts_by_second(connection, key, &counts, LOG_S, MOST).await
            }
            Self::SortedSetInScript => {
                systems::sorted_set_in_script(connection, key, now_ms, LOG_S, MOST).await
            }
            Self::SortedSetInTransaction => {
                systems::sorted_set_in_transaction(connection, key, now_ms, LOG_S, MOST).await
            }
        }
    }
}

/// A limiter on a connection.
struct Original {
    system: System,
    row: String,
    connection: MultiplexedConnection,
    keys: Arc<Keys>,
}

impl Subject for Original {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let now_ms = u64::try_from(now.as_millis())?;
        let key = format!("{}:{}", self.row, self.keys.name(turn));
        let mut connection = self.connection.clone();
        let decided = self.system.decide(&mut connection, &key, now_ms);
        Ok(decided.await?)
    }
}

/// Returns a point for each limiter, through the client that it is written for.
pub(crate) fn all(client: &RedisRs, plan: &Plan) -> impl Iterator<Item = Point> {
    System::ALL.into_iter().map(move |(system, name)| {
        let row = format!("original: {name}");
        let keys = Arc::new(Keys::new(KEYS));
        let subject = Original {
            system,
            row: row.clone(),
            connection: client.0.clone(),
            keys: Arc::clone(&keys),
        };
        Point {
            row,
            client: RedisRs::NAME,
            runs: erase(subject),
            keys,
            warm_up: plan.warm_up,
            expected: None,
        }
    })
}
