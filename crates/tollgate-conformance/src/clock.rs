//! Chooses the clock for a promise: the caller's instants, or the store's own if it takes none.

use std::time::SystemTime;

use tollgate_core::store::{Check, Request};
use tollgate_core::{Limit, Store, Timestamp};

use crate::families::resized;
use crate::harness::{OwnedKey, Stores};
use crate::plan::Plan;

/// The largest amount per day for which no unit comes back while a case runs.
const MOST: u64 = 1_000;

/// Adapts `plan` to stores that do not take the caller's instants.
///
/// Limits that `store` decides only by its own clock get windows of about a day, so that time gives
/// nothing back while a case runs.
pub(crate) async fn whatever_the_clock(harness: &Stores, plan: &Plan) -> Plan {
    let store = harness.store().await;
    let limits = plan.limits().iter().map(|limit| {
        let algorithm = limit.algorithm();
        if takes(&*store, limit, wall_clock()) {
            limit.clone()
        } else {
            let burst = algorithm.capacity().min(MOST);
            by_the_day(limit, algorithm.quota().amount().min(MOST), burst)
        }
    });
    plan.clone().with_limits(limits.collect())
}

/// Returns whether `store` decides `limit` at the caller's instant.
pub(crate) fn takes(store: &dyn Store, limit: &Limit, now: Timestamp) -> bool {
    let key = OwnedKey::fresh("alice");
    store
        .supports(&Request::consume(Check::new(limit, key.key(), 1)).at(now))
        .is_ok()
}

/// Returns `request` at the instant `given`; without one, at the store's own clock.
pub(crate) fn at_or_now(request: Request<'_>, given: Option<Timestamp>) -> Request<'_> {
    match given {
        Some(now) => request.at(now),
        None => request,
    }
}

/// Returns `limit` with `amount` in a window of about a day, half of which has passed.
///
/// No window ends while a case runs, and time gives back less than one unit.
pub(crate) fn by_the_day(limit: &Limit, amount: u64, burst: u64) -> Limit {
    const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;
    let now = wall_clock().as_micros();
    let window_us = 2 * now / (2 * (now / DAY_US) + 1);
    // Some stores only support windows of whole milliseconds, because their keys expire by the
    // millisecond.
    let window_us = window_us / 1_000 * 1_000;
    resized(limit, amount, window_us, burst)
}

pub(crate) fn wall_clock() -> Timestamp {
    Timestamp::try_from(SystemTime::now()).unwrap()
}
