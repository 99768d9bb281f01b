//! What stores need that run the algorithms as scripts on a server.

use std::time::Duration;

use crate::algorithm::{Algorithm, FixedWindow, State};
pub use crate::algorithm::{
    CallContext, CounterPlan, CounterReply, MOST_PARAMETERS, TWINS, Twin, Words, double, integer,
    words,
};
pub use crate::lease::SHAPE as LEASES;
pub use crate::request::Change;
use crate::request::{Check, Request};
pub use crate::schedule::SHAPE as SCHEDULE;
use crate::schedule::{Period, ScheduleRequest, ScheduleTerms};
pub use crate::time::micros_ceil;

/// Returns the index of `algorithm` in [`TWINS`].
#[must_use]
pub fn code(algorithm: &Algorithm) -> usize {
    algorithm.code()
}

/// Returns the parameters of the script.
#[must_use]
pub fn parameters(algorithm: &Algorithm) -> Words {
    algorithm.parameters()
}

/// Decodes the state in a script's reply, or returns `None` if no script replies with such a state.
#[must_use]
pub fn decode(algorithm: &Algorithm, reply: &[u64], call: CallContext) -> Option<State> {
    algorithm.decode(reply, call)
}

/// Returns the numbers that the script needs if `request` cancels a reservation of `check`, which is
/// at `index`.
#[must_use]
pub fn reserved(request: &Request<'_>, index: usize, check: &Check<'_>) -> Option<[u64; 3]> {
    let reserved = request.cancelled(index)?;
    Some(check.limit().algorithm().reserved(reserved))
}

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

/// Returns how plain commands count this window.
///
/// # Errors
///
/// The reason why they cannot.
pub fn plan(window: &FixedWindow) -> Result<CounterPlan, &'static str> {
    window.plan()
}

/// Returns the amount of each quota of a schedule, the microseconds of its window, and its periods:
/// zero for a quota by the calendar, and no periods for a sliding window.
pub fn quotas<'r>(
    request: &'r ScheduleRequest<'_>,
) -> impl Iterator<Item = (u64, u64, &'r [Period])> {
    let all = request.quotas();
    all.map(|(quota, periods)| (quota.amount(), quota.window_us().unwrap_or(0), periods))
}

/// Returns whether a quota counts by the calendar.
#[must_use]
pub fn has_calendar(terms: &ScheduleTerms) -> bool {
    terms.has_calendar()
}

/// Returns for how long events are kept after their times, in microseconds.
#[must_use]
pub fn retention_us(terms: &ScheduleTerms) -> u64 {
    terms.retention_us()
}
