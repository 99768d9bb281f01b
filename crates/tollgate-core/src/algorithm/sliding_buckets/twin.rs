//! Sliding buckets on a server.

use super::{SlidingBuckets, State};
use crate::algorithm::{self, Kind, Machine};
use crate::time::MAX_EXACT;
use crate::wire::{Asked, Paired, Words, words};

impl Paired for SlidingBuckets {
    fn parameters(&self) -> Words {
        Words::from_slice(&[self.quota().amount(), self.bucket_us, self.buckets])
    }

    fn decode(&self, told: &[u64], _: Asked) -> Option<algorithm::State> {
        let [head, total, counts @ ..] = told else {
            let kind = Kind::Vacant;
            return told.is_empty().then_some(algorithm::State(kind));
        };
        let sum = counts
            .iter()
            .try_fold(0, |sum: u64, &count| sum.checked_add(count));
        let whole = counts.len() == self.slot(self.buckets) + 1 && sum == Some(*total);
        if !whole || *head > MAX_EXACT / self.bucket_us {
            return None;
        }
        Some(algorithm::State(Kind::SlidingBuckets(Box::new(State {
            head: *head,
            total: *total,
            bucket_us: self.bucket_us,
            counts: counts.to_vec(),
        }))))
    }

    /// The head is the newest bucket that counted; what it tells is when that bucket began.
    fn latest(shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let (&[window_us, buckets], [raw]) = (shape, values) else {
            return None;
        };
        let numbers = words(raw)?;
        let &[head, _total, ..] = numbers.as_slice() else {
            return None;
        };
        // One more than the buckets, behind the head and the total.
        let whole = u64::try_from(numbers.len()).ok() == buckets.checked_add(3);
        let bucket_us = window_us.checked_div(buckets)? + u64::from(window_us % buckets > 0);
        whole.then(|| head.checked_mul(bucket_us)).flatten()
    }
}
