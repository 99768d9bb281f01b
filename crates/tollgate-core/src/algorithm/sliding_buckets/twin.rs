//! Sliding buckets on a server.

use super::{SlidingBuckets, State};
use crate::algorithm::{self, Kind, Machine};
use crate::time::MAX_EXACT;
use crate::wire::{Asked, Paired, Words};

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
}
