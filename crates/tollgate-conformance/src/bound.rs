//! How much may be admitted in a span, and how much was.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::{Limit, Timestamp, Verdict};

/// What was admitted at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) at: Timestamp,
    pub(crate) amount: u64,
}

impl Admitted {
    /// Returns what `verdict` admitted.
    pub(crate) fn by(verdict: &Verdict) -> Self {
        Self {
            at: verdict.decided_at(),
            amount: verdict.consumed(),
        }
    }
}

/// Returns the most that any half-open span of `span_us` holds of what was admitted.
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

/// Returns the most that `limit` may admit in a half-open span of `span_us`.
pub(crate) fn bound(limit: &Limit, span_us: u64) -> u128 {
    let quota = limit.algorithm().quota();
    let (amount, window) = (u128::from(quota.amount()), u128::from(quota.window_us()));
    let span = u128::from(span_us);
    // Whole windows that a span can touch: each is one more than those it can hold.
    let windows = span.div_ceil(window);
    match limit.algorithm() {
        Algorithm::Gcra(machine) => {
            u128::from(machine.burst()) + (span * amount).div_ceil(window) - 1
        }
        // A span that touches a window and the next holds at most all of both, an anchored one
        // without the first call of the first.
        Algorithm::FixedWindow(machine) if span_us > 1 => {
            (windows + 1) * amount - u128::from(machine.is_anchored())
        }
        Algorithm::SlidingCounter(_) if span_us > 1 => (windows + 1) * amount - 1,
        _ => windows.max(1) * amount,
    }
}
