//! The bound of each limit: how much it may admit in a time span, and how much was admitted.

use tollgate_core::Algorithm;
use tollgate_core::store::Verdict;
use tollgate_core::{Limit, Timestamp};

/// The cost admitted at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) at: Timestamp,
    pub(crate) amount: u64,
}

impl Admitted {
    /// Returns what was used at `micros`.
    pub(crate) fn at(micros: u64, amount: u64) -> Self {
        Self {
            at: Timestamp::saturating_from_micros(micros),
            amount,
        }
    }

    /// Returns the cost that `verdict` admitted.
    pub(crate) fn by(verdict: &Verdict) -> Self {
        Self {
            at: verdict.decided_at(),
            amount: verdict.consumed(),
        }
    }
}

/// Returns the largest total admitted in any half-open span of `span_us`.
pub(crate) fn most_within(admitted: &[Admitted], span_us: u64) -> u128 {
    let mut sorted = admitted.to_vec();
    sorted.sort_unstable_by_key(|one| one.at);
    let (mut most, mut held, mut first) = (0, 0, 0);
    for one in &sorted {
        held += u128::from(one.amount);
        while sorted[first].at.as_micros() + span_us <= one.at.as_micros() {
            held -= u128::from(sorted[first].amount);
            first += 1;
        }
        most = most.max(held);
    }
    most
}

/// Returns the most that `limit` may admit in any half-open span of `span_us`.
pub(crate) fn bound(limit: &Limit, span_us: u64) -> u128 {
    let quota = limit.algorithm().quota();
    let (amount, window) = (u128::from(quota.amount()), u128::from(quota.window_us()));
    let span = u128::from(span_us);
    // The span fits into this many windows, but can touch one more.
    let windows = span.div_ceil(window);
    match limit.algorithm() {
        // The shortest month is nine tenths of the longest, and so are the shortest day and year at
        // least.
        Algorithm::CalendarWindow(_) if span_us > 1 => {
            ((10 * span).div_ceil(9 * window) + 1) * amount
        }
        Algorithm::Gcra(machine) => {
            u128::from(machine.burst()) + (span * amount).div_ceil(window) - 1
        }
        // The span holds at most the amounts of all windows that it touches; if they are anchored,
        // all but the first call of the first.
        Algorithm::FixedWindow(machine) if span_us > 1 => {
            (windows + 1) * amount - u128::from(machine.is_anchored())
        }
        // Within one window, the excess over the amount is paced.
        Algorithm::SlidingCounter(_) if (2..=quota.window_us()).contains(&span_us) => {
            (2 * amount - 1).min(amount + (span * amount).div_ceil(window))
        }
        Algorithm::SlidingCounter(_) if span_us > 1 => (windows + 1) * amount - 1,
        _ => windows.max(1) * amount,
    }
}
