//! What stores need that send requests to a server.

use std::time::Duration;

pub use crate::algorithm::Change;
pub use crate::lease::terms::SHAPE as LEASES;
pub use crate::schedule::terms::SHAPE as SCHEDULE;
use crate::schedule::{self, Period};
use crate::store::Request;
use crate::time::Timestamp;
pub use crate::time::micros_ceil;

/// Returns how a refund or a settlement changes what the limit at `index` counts, or `None` for
/// another operation.
#[must_use]
pub fn change(request: &Request<'_>, index: usize) -> Option<Change> {
    request.change(index)
}

/// Returns the longest delay that `request` accepts, in microseconds, and that all of its limits can
/// count exactly.
#[must_use]
pub fn longest_delay_us(request: &Request<'_>, max_delay: Duration) -> u64 {
    request.longest_delay_us(max_delay)
}

/// Returns the amount of each quota of a schedule, the microseconds of its window, and its periods:
/// zero for a quota by the calendar, and no periods for a sliding window. All closed times are one
/// quota, in the place of the first: it has no amount, and its periods are the open times.
pub fn quotas<'r>(
    request: &'r schedule::Request<'_>,
) -> impl Iterator<Item = (Option<u64>, u64, &'r [Period])> {
    request.searched().map(|(_, quota, periods)| {
        let amount = quota.counts().then(|| quota.amount());
        (amount, quota.window_us().unwrap_or(0), periods)
    })
}

/// Returns the quota that a refusal names, if the one at `place` of [`quotas`] is in the way of an event
/// at `time`.
#[must_use]
pub fn in_the_way<'r>(
    request: &schedule::Request<'r>,
    place: usize,
    time: Timestamp,
) -> Option<&'r schedule::Quota> {
    let (index, _, _) = request.searched().nth(place)?;
    request.in_the_way(index, time)
}

/// Returns whether a quota is by the calendar.
#[must_use]
pub fn has_calendar(terms: &schedule::Terms) -> bool {
    terms.has_calendar()
}

/// Returns for how long events are kept after their times, in microseconds.
#[must_use]
pub fn retention_us(terms: &schedule::Terms) -> u64 {
    terms.retention_us()
}
