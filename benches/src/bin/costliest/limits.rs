//! The costliest calls to limits.

use std::sync::Arc;
use std::time::Duration;

use tollgate_benches::Problem;
use tollgate_core::{Algorithm, Limit, RateLimiter, Timestamp};
use tollgate_wire::{Clear, Operate};

use crate::{RedisStore, Table};

const KEY: &str = "alice";
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
    let over = 7_200_000_000;
    for (label, text, count, calls, cost) in [
        (
            "a sliding log of 20,000 calls of cost 5",
            "sliding-log:100000/{s}s",
            1,
            20_000,
            5,
        ),
        (
            "a sliding log with a call of cost 100,000",
            "sliding-log:100000/{s}s",
            1,
            1,
            100_000,
        ),
        (
            "32 sliding logs of 1,000 calls of cost 100",
            "sliding-log:100000/{s}s",
            32,
            1_000,
            100,
        ),
        (
            "127 sliding buckets",
            "sliding-buckets:100000/{s}s,buckets=127",
            1,
            1_000,
            100,
        ),
        (
            "32 limits of 127 sliding buckets",
            "sliding-buckets:100000/{s}s,buckets=127",
            32,
            1_000,
            100,
        ),
        ("32 limits of GCRA", "gcra:100000/{s}s", 32, 10, 10_000),
    ] {
        let limits = limits(text, count)?;
        let full = async |store: &RedisStore| fill(store, &limits, calls, cost).await;
        let limiter = |store: &RedisStore| RateLimiter::new(Arc::clone(store), limits.clone());
        let last = at(calls * 1_000)?;
        let half = at(calls * 500 + 3_600_000_000)?;
        table
            .row(
                &format!("{label}: deny"),
                full,
                async |store: &RedisStore| {
                    let _ = limiter(store)?.check(KEY).cost(50_000).at(last).await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("{label}: allow as half of them leave"),
                full,
                async |store: &RedisStore| {
                    let _ = limiter(store)?.check(KEY).cost(40_000).at(half).await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("{label}: allow once all have left"),
                full,
                async |store: &RedisStore| {
                    let _ = limiter(store)?.check(KEY).at(at(over)?).await?;
                    Ok(())
                },
            )
            .await?;
        table
            .row(
                &format!("{label}: clear"),
                full,
                async |store: &RedisStore| {
                    store.clear(&Clear::new(), &mut |_| ()).await?;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Ok(())
                },
            )
            .await?;
    }
    Ok(())
}
