//! The sliding buckets' script: its parameters, and how to read its states.

use super::{SlidingBuckets, State};
use crate::algorithm::Machine;
use crate::algorithm::{self, CallContext, Listed, Paired, Told, Words, words};
use crate::time::MAX_EXACT;

impl Paired for SlidingBuckets {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["amount_per_window", "width", "buckets"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.quota().amount(), self.bucket_us, self.buckets])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        let [head, total, counts @ ..] = reply else {
            return reply.is_empty().then(algorithm::State::default);
        };
        // So few counts, each of which a double holds exactly, have a sum that does not overflow.
        let whole = counts.len() == self.slot(self.buckets) + 1;
        if !whole || counts.iter().sum::<u64>() != *total || *head > MAX_EXACT / self.bucket_us {
            return None;
        }
        Some(Self::keep(State {
            head: *head,
            total: *total,
            bucket_us: self.bucket_us,
            counts: counts.to_vec(),
        }))
    }

    fn numbers(shape: &str) -> Option<Words> {
        let (window, buckets) = shape.strip_prefix('-')?.split_once('-')?;
        Some(Words::from_slice(&[
            window.parse().ok()?,
            buckets.parse().ok()?,
        ]))
    }

    /// Returns when the head began, the newest bucket in which a call was counted.
    fn told(shape: &[u64], state: &[u64]) -> Option<Told> {
        let &[_head, total, ..] = state else {
            return None;
        };
        Some(Told {
            consumed: Some(total),
            // The instant at which the newest bucket began.
            last: Some(newest(shape, state)?),
            ..Told::default()
        })
    }

    fn latest(shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        newest(shape, &words(raw)?)
    }
}

/// Returns the instant at which the newest bucket began.
fn newest(shape: &[u64], state: &[u64]) -> Option<u64> {
    let (&[window_us, buckets], &[head, _total, ..]) = (shape, state) else {
        return None;
    };
    // The head, the total, and one count more than there are buckets.
    let whole = u64::try_from(state.len()).ok() == buckets.checked_add(3);
    let bucket_us = window_us.checked_div(buckets)? + u64::from(window_us % buckets > 0);
    whole.then(|| head.checked_mul(bucket_us)).flatten()
}
