//! The costliest calls to concurrency limiters.

use std::sync::Arc;
use std::time::Duration;

use tollgate_benches::Problem;
use tollgate_core::Timestamp;
use tollgate_core::lease::ConcurrencyLimiter;

use crate::{RedisStore, Table};

const KEY: &str = "alice";
const NOW: u64 = 1_800_000_000_000_000;
const TTL: Duration = Duration::from_secs(30);

fn at(micros: u64) -> Result<Timestamp, Problem> {
    Ok(Timestamp::from_micros(NOW + micros)?)
}

pub(crate) async fn measure(table: &Table) -> Result<(), Problem> {
    for weight in [1, 2] {
        let leases = 1_000 / weight;
        let limiter =
            |store: &RedisStore| ConcurrencyLimiter::new(Arc::clone(store), "uploads", 1_000, TTL);
        let fill = async |store: &RedisStore| {
            let limiter = limiter(store)?;
            for lease in 0..leases {
                let id = format!("id-{lease}");
                let call = limiter.acquire(KEY, &id).weight(weight).at(at(lease)?);
                let _ = call.await?;
            }
            Ok(())
        };
        let label = format!("{leases} leases of weight {weight}");
        for (name, instant, is_granted) in [
            ("deny all of the amount", 1_000, false),
            ("acquire once all are over", 60_000_000, true),
        ] {
            let call = async |store: &RedisStore| {
                let limiter = limiter(store)?;
                let call = limiter.acquire(KEY, "new").weight(1_000).at(at(instant)?);
                assert_eq!(call.await?.is_granted(), is_granted);
                Ok(())
            };
            table.row(&format!("{label}: {name}"), fill, call).await?;
        }
        let renew = async |store: &RedisStore| {
            let limiter = limiter(store)?;
            let first = limiter.acquire(KEY, "id-0").weight(weight).at(at(1_000)?);
            let lease = first.await?.permit()?;
            let renewed = limiter.renew(KEY, &lease).at(at(1_000)?).await?;
            assert!(renewed.is_some());
            Ok(())
        };
        let name = format!("{label}: renew the first");
        table.row(&name, fill, renew).await?;
    }
    Ok(())
}
