//! The points of calls that have ids, and of calls that are given back or settled afterwards.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{CallId, Gcra, Limit, Quota, RateLimiter, Store};

use super::clients::{Client, options};
use super::keys::Keys;
use super::measure::{KEYS, Plan, Point, row};
use super::run::{Subject, erase};
use crate::{Outcome, Problem};

/// What is done besides a check of one GCRA limit.
#[derive(Clone, Copy)]
enum Extra {
    /// An id of its own for every call.
    Id,
    /// The same id for every call of a key.
    Repeated,
    Refund,
    Settle,
}

const EXTRAS: [(&str, Extra); 4] = [
    ("gcra with an id", Extra::Id),
    ("gcra with an id, repeated", Extra::Repeated),
    ("gcra and its refund", Extra::Refund),
    ("gcra and its settlement", Extra::Settle),
];

/// Returns the names of the rows.
pub(crate) fn rows() -> [String; 4] {
    EXTRAS.map(|(name, _)| row(name, Outcome::Allowed))
}

/// Adds the points through one client.
pub(crate) fn add<C: Client>(
    points: &mut Vec<Point>,
    client: &C,
    plan: &Plan,
) -> Result<(), Problem> {
    for ((name, extra), row) in EXTRAS.into_iter().zip(rows()) {
        let quota = Quota::per_second(1_000_000);
        let limit = Limit::new(&name.replace([' ', ','], "-"), Gcra::new(quota)?)?;
        let keys = Arc::new(Keys::new(KEYS));
        let subject = Calls {
            limiter: RateLimiter::new(client.store(options(false))?, [limit])?,
            extra,
            keys: Arc::clone(&keys),
        };
        points.push(Point {
            row,
            client: C::NAME,
            runs: erase(subject),
            keys,
            warm_up: plan.warm_up,
            expected: Some(Outcome::Allowed),
        });
    }
    Ok(())
}

struct Calls<S> {
    limiter: RateLimiter<S>,
    extra: Extra,
    keys: Arc<Keys>,
}

impl<S: Store + 'static> Subject for Calls<S> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        let key = self.keys.name(turn);
        let call = self.limiter.check(key);
        let decision = match self.extra {
            Extra::Id => {
                let id = turn.to_le_bytes();
                // Otherwise the server would hold all of them.
                let id = CallId::new(&id).kept(Duration::from_secs(1));
                call.id(id).await?
            }
            Extra::Repeated => call.id("always the same").await?,
            Extra::Refund | Extra::Settle => call.cost(2).await?,
        };
        let allowed = decision.is_allowed();
        if let Some(receipt) = decision.into_receipt() {
            match self.extra {
                Extra::Refund => drop(self.limiter.refund(key, receipt).await?),
                Extra::Settle => drop(self.limiter.settle(key, receipt, 1).await?),
                Extra::Id | Extra::Repeated => {}
            }
        }
        Ok(allowed)
    }
}
