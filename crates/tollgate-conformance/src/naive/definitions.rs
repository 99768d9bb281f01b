//! `Definition`: what remains of each algorithm at an instant, computed from all counted calls.

/// One counted call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: u128,
    pub(crate) amount: u128,
}

/// An algorithm with its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Definition {
    Aligned {
        amount: u128,
        window: u128,
    },
    Anchored {
        amount: u128,
        window: u128,
    },
    Bucket {
        burst: u128,
        amount: u128,
        window: u128,
    },
    Buckets {
        amount: u128,
        bucket: u128,
        buckets: u128,
    },
    Counter {
        amount: u128,
        window: u128,
    },
    Log {
        amount: u128,
        window: u128,
    },
}

impl Definition {
    /// Returns the largest cost that can ever be admitted.
    pub(crate) fn capacity(self) -> u128 {
        match self {
            Self::Bucket { burst, .. } => burst,
            Self::Aligned { amount, .. }
            | Self::Anchored { amount, .. }
            | Self::Buckets { amount, .. }
            | Self::Counter { amount, .. }
            | Self::Log { amount, .. } => amount,
        }
    }

    /// Returns how much of a call's cost is counted. In a log, a denied call counts at most the
    /// amount.
    pub(crate) fn weight(self, cost: u128) -> u128 {
        match self {
            Self::Log { amount, .. } => cost.min(amount),
            _ => cost,
        }
    }

    /// Returns the instant to use for `now` if the clock may have stepped back: never before the
    /// last counted call, or before the start of its window or bucket.
    pub(crate) fn clamp(self, events: &[Event], now: u128) -> u128 {
        let Some(last) = events.last() else {
            return now;
        };
        now.max(match self {
            Self::Aligned { window, .. } | Self::Counter { window, .. } => {
                last.at / window * window
            }
            Self::Anchored { window, .. } => last_window(events, window).0,
            Self::Buckets { bucket, .. } => last.at / bucket * bucket,
            Self::Bucket { .. } | Self::Log { .. } => last.at,
        })
    }

    /// Returns the largest cost that is admitted at `now`.
    pub(crate) fn remaining(self, events: &[Event], now: u128) -> u128 {
        let sum = |counts: &dyn Fn(u128) -> bool| -> u128 {
            let counted = events.iter().filter(|event| counts(event.at));
            counted.map(|event| event.amount).sum()
        };
        match self {
            // Counts every call in the same window.
            Self::Aligned { amount, window } => {
                amount.saturating_sub(sum(&|at| at / window == now / window))
            }
            // A window opens at the first call outside an open window; counts every call in it.
            Self::Anchored { amount, window } => {
                let (start, used) = last_window(events, window);
                if now < start + window {
                    amount.saturating_sub(used)
                } else {
                    amount
                }
            }
            // After each event, at most the burst plus what has refilled since may be taken.
            Self::Bucket {
                burst,
                amount,
                window,
            } => {
                let mut since = 0;
                let mut least = burst;
                for event in events.iter().rev() {
                    since += event.amount;
                    let flowed = burst * window + (now - event.at) * amount;
                    least = least.min((flowed / window).saturating_sub(since));
                }
                least
            }
            // Counts the current bucket, and as many before it as a window holds.
            Self::Buckets {
                amount,
                bucket,
                buckets,
            } => amount.saturating_sub(sum(&|at| now / bucket <= at / bucket + buckets)),
            // Counts the current window, and the share of the previous one that a sliding window
            // would cover.
            Self::Counter { amount, window } => {
                let this = sum(&|at| at / window == now / window);
                let last = sum(&|at| at / window + 1 == now / window);
                let covered = (last * (window - now % window)).div_ceil(window);
                amount.saturating_sub(this + covered)
            }
            // Counts every call in the half-open window that ends now.
            Self::Log { amount, window } => amount.saturating_sub(sum(&|at| at + window > now)),
        }
    }
}

/// Returns the start of the last anchored window, and the total counted in it.
fn last_window(events: &[Event], window: u128) -> (u128, u128) {
    let mut last = (0, 0);
    for event in events {
        if last.1 == 0 || event.at >= last.0 + window {
            last = (event.at, 0);
        }
        last.1 += event.amount;
    }
    last
}
