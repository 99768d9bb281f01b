//! The sliding counter on a server.

use super::{SlidingCounter, State};
use crate::algorithm::{self, Kind, Machine};
use crate::wire::{Asked, Paired, Words, words};

impl Paired for SlidingCounter {
    fn parameters(&self) -> Words {
        let quota = self.quota();
        Words::from_slice(&[quota.amount(), quota.window_us(), self.step, self.steps])
    }

    fn decode(&self, told: &[u64], _: Asked) -> Option<algorithm::State> {
        let kind = match *told {
            [] => Kind::Vacant,
            [start, current, previous] => Kind::SlidingCounter(State {
                start,
                current,
                previous,
            }),
            _ => return None,
        };
        Some(algorithm::State(kind))
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _current, _previous] => Some(start),
            _ => None,
        }
    }
}
