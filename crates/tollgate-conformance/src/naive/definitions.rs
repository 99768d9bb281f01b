//! What remains of each algorithm at an instant, given everything that was counted.

/// What was counted, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: u128,
    pub(crate) amount: u128,
}

/// An algorithm by its parameters.
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

    /// Returns how much of a call is counted: of a denied one, no more than fills a log.
    pub(crate) fn weight(self, cost: u128) -> u128 {
        match self {
            Self::Log { amount, .. } => cost.min(amount),
            _ => cost,
        }
    }

    /// Returns `now` as a clock that steps back is read: never before the last instant counted,
    /// or the start of its window or bucket.
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
            // Everything in the same window.
            Self::Aligned { amount, window } => {
                amount.saturating_sub(sum(&|at| at / window == now / window))
            }
            // Everything since the last call that found no window open, for one window.
            Self::Anchored { amount, window } => {
                let (start, used) = last_window(events, window);
                if now < start + window {
                    amount.saturating_sub(used)
                } else {
                    amount
                }
            }
            // From each event on, no more than the burst and what has flowed in since.
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
            // This bucket and as many before it as a window holds.
            Self::Buckets {
                amount,
                bucket,
                buckets,
            } => amount.saturating_sub(sum(&|at| now / bucket <= at / bucket + buckets)),
            // This window, and the part of the last one that a sliding window would cover.
            Self::Counter { amount, window } => {
                let this = sum(&|at| at / window == now / window);
                let last = sum(&|at| at / window + 1 == now / window);
                let covered = (last * (window - now % window)).div_ceil(window);
                amount.saturating_sub(this + covered)
            }
            // Everything in the half-open window that ends now.
            Self::Log { amount, window } => amount.saturating_sub(sum(&|at| at + window > now)),
        }
    }
}

/// Returns the start of the last anchored window, and what was counted in it.
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
