//! The costliest calls to limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tollgate_benches::Problem;
use tollgate_core::{Algorithm, Limit, RateLimiter, Receipt, Timestamp};
use tollgate_redis::RedisStoreBuilder;
use tollgate_wire::Options;
use tollgate_wire::operate::{Clear, Operate};

use crate::{RedisStore, Table};

const KEY: &str = "alice";
const LOG: &str = "sliding-log:100000/{s}s";
const BUCKETS: &str = "sliding-buckets:100000/{s}s,buckets=127";
const NOW: u64 = 1_800_000_000_000_000;

fn at(micros: u64) -> Result<Timestamp, Problem> {
    Ok(Timestamp::from_micros(NOW + micros)?)
}

/// The most limits of one call, of the algorithm `text` with windows that differ.
fn limits(text: &str, count: u64) -> Result<Vec<Limit>, Problem> {
    let limits = (0..count).map(|index| {
        let algorithm: Algorithm = text.replace("{s}", &(3_600 + index).to_string()).parse()?;
        Ok(Limit::new(&format!("l{index}"), algorithm)?)
    });
    limits.collect()
}

/// Makes calls that record so many instants, a hundred of them in flight at a time.
async fn fill(store: &RedisStore, limits: &[Limit], calls: u64, cost: u64) -> Result<(), Problem> {
    let limiter = RateLimiter::new(store, limits.to_vec())?;
    for call in 0..calls {
        let _ = limiter.check(KEY).cost(cost).at(at(call * 1_000)?).await?;
    }
    Ok(())
}

pub(crate) async fn measure(table: &Table) -> Result<(), Problem> {
    for (label, text, count, calls, cost) in [
        ("a sliding log of 20,000 calls of cost 5", LOG, 1, 20_000, 5),
        (
            "a sliding log with a call of cost 100,000",
            LOG,
            1,
            1,
            100_000,
        ),
        (
            "32 sliding logs of 1,000 calls of cost 100",
            LOG,
            32,
            1_000,
            100,
        ),
        ("127 sliding buckets", BUCKETS, 1, 1_000, 100),
        ("32 limits of 127 sliding buckets", BUCKETS, 32, 1_000, 100),
        ("32 limits of GCRA", "gcra:100000/{s}s", 32, 10, 10_000),
    ] {
        let limits = limits(text, count)?;
        let full = async |store: &RedisStore| fill(store, &limits, calls, cost).await;
        let last = at(calls * 1_000)?;
        let half = at(calls * 500 + 3_600_000_000)?;
        for (name, cost, instant) in [
            ("deny", 50_000, last),
            ("allow as half of them leave", 40_000, half),
            ("allow once all have left", 1, at(7_200_000_000)?),
        ] {
            let call = async |store: &RedisStore| {
                let limiter = RateLimiter::new(Arc::clone(store), limits.clone())?;
                let _ = limiter.check(KEY).cost(cost).at(instant).await?;
                Ok(())
            };
            table.row(&format!("{label}: {name}"), full, call).await?;
        }
        let clear = async |store: &RedisStore| {
            store.clear(&Clear::new(), &mut |_| ()).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        };
        table.row(&format!("{label}: clear"), full, clear).await?;
    }
    for (label, text, count, calls) in [
        ("a sliding log", "sliding-log:100000/{s}s", 1, 4_001),
        ("32 sliding logs", "sliding-log:100000/{s}s", 32, 125),
        (
            "32 long sliding logs",
            "sliding-log:100000/{s}s,count-denied",
            32,
            9_999,
        ),
        (
            "32 limits of 127 sliding buckets",
            "sliding-buckets:100000/{s}s,buckets=127",
            32,
            1_000,
        ),
        ("32 sliding counters", "sliding-counter:100000/{s}s", 32, 10),
        ("32 limits of GCRA", "gcra:100000/{s}s", 32, 10),
        ("32 fixed windows", "fixed-window:100000/{s}s", 32, 10),
        (
            "32 anchored windows",
            "fixed-window:100000/{s}s,anchored",
            32,
            10,
        ),
        ("32 days", "fixed-window:100000/day@UTC", 32, 10),
    ] {
        let scene = Scene {
            table,
            label: format!("{label} of {calls} calls"),
            limits: limits(text, count)?,
            keys: vec![KEY.to_owned()],
            calls,
            receipts: Mutex::default(),
        };
        scene.every_operation().await?;
    }
    for (label, text, count, calls) in [
        ("a sliding log", "sliding-log:100000/{s}s", 1, 250),
        ("8 sliding logs", "sliding-log:100000/{s}s", 8, 500),
        (
            "127 sliding buckets",
            "sliding-buckets:100000/{s}s,buckets=127",
            1,
            250,
        ),
        ("GCRA", "gcra:100000/{s}s", 1, 10),
    ] {
        let scene = Scene {
            table,
            label: format!("a batch for 64 keys, each with {label} of {calls} calls"),
            limits: limits(text, count)?,
            keys: (0..64).map(|key| format!("user-{key}")).collect(),
            calls,
            receipts: Mutex::default(),
        };
        scene.batches().await?;
    }
    Ok(())
}

/// Calls of cost 10 for each of some keys, a millisecond apart, and their receipts.
struct Scene<'t> {
    table: &'t Table,
    label: String,
    limits: Vec<Limit>,
    keys: Vec<String>,
    calls: u64,
    receipts: Mutex<Vec<Vec<Receipt>>>,
}

impl Scene<'_> {
    async fn fill(&self, store: &RedisStore) -> Result<(), Problem> {
        let limiter = RateLimiter::new(store, self.limits.clone())?;
        let mut receipts = Vec::new();
        for key in &self.keys {
            let mut of_key = Vec::new();
            for call in 0..self.calls {
                let check = limiter.check(&**key).cost(10).at(at(call * 1_000)?);
                of_key.extend(check.await?.into_receipt());
            }
            receipts.push(of_key);
        }
        *self.receipts.lock().unwrap_or_else(PoisonError::into_inner) = receipts;
        Ok(())
    }

    /// Takes the receipt from the middle of the calls for a key, or as deep in its logs as a refund may
    /// be, in each of up to 20 rounds.
    fn receipt(&self, key: usize) -> Receipt {
        let mut receipts = self.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        let (middle, deepest) = (receipts[key].len() / 2, 2_000 / self.limits.len());
        receipts[key].remove(if middle > deepest {
            deepest - 20
        } else {
            middle
        })
    }

    #[expect(clippy::future_not_send, reason = "all calls are made on one thread")]
    async fn row(
        &self,
        name: &str,
        call: impl AsyncFn(RateLimiter<RedisStore>) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let name = format!("{}: {name}", self.label);
        let fill = async |store: &RedisStore| self.fill(store).await;
        let call = async |store: &RedisStore| {
            call(RateLimiter::new(Arc::clone(store), self.limits.clone())?).await
        };
        self.table.row(&name, fill, call).await
    }

    /// Measures all operations, with a cost for each limit and an id where they take one.
    async fn every_operation(&self) -> Result<(), Problem> {
        let (now, over) = (at(self.calls * 1_000)?, at(7_200_000_000)?);
        for (name, cost) in [
            ("settle for less", 3),
            ("refund", 0),
            ("settle for more", 1_000),
        ] {
            self.row(name, async |limiter| {
                let mut settlement = limiter.settle(KEY, self.receipt(0), cost).at(now);
                for limit in limiter.limits() {
                    settlement = settlement.cost_of(limit.name(), cost);
                }
                settlement.await?;
                Ok(())
            })
            .await?;
        }
        for (name, cost, instant) in [
            ("allow under an id", 5, now),
            ("allow under an id once all have left", 5, over),
            ("deny under an id", 99_999, now),
        ] {
            self.row(name, async |limiter| {
                let mut check = limiter.check(KEY).id("new").at(instant).cost_of("l0", cost);
                for limit in limiter.limits() {
                    check = check.cost_of(limit.name(), cost);
                }
                let _ = check.await?;
                Ok(())
            })
            .await?;
        }
        self.row("take up to", async |limiter| {
            let _ = limiter.take_up_to(KEY, 99_999).at(now).await?;
            Ok(())
        })
        .await?;
        self.row("lower", async |limiter| {
            let _ = limiter.lower(KEY, 5).at(now).await?;
            Ok(())
        })
        .await
    }

    /// Measures calls for all keys at once, which are sent together as far as batches permit.
    async fn batches(&self) -> Result<(), Problem> {
        let now = at(self.calls * 1_000)?;
        let builder = RedisStoreBuilder::from(Options::new().with_batches_only());
        let together = Arc::new(builder.connect(self.table.server.url()).await?);
        let limiter = RateLimiter::new(together, self.limits.clone())?;
        for (name, cost) in [("allow", 5), ("deny", 99_999)] {
            self.row(name, async |_| {
                let calls = self.keys.iter();
                let calls = calls.map(|key| limiter.check(&**key).cost(cost).at(now));
                for decision in join_all(calls.map(IntoFuture::into_future)).await {
                    let _ = decision?;
                }
                Ok(())
            })
            .await?;
        }
        self.row("refund", async |_| {
            let calls = self.keys.iter().enumerate();
            let calls =
                calls.map(|(index, key)| limiter.refund(&**key, self.receipt(index)).at(now));
            for left in join_all(calls.map(IntoFuture::into_future)).await {
                left?;
            }
            Ok(())
        })
        .await
    }
}
