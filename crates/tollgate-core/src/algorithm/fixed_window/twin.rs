//! Fixed windows on a server.

use super::{FixedWindow, State};
use crate::algorithm::{self, Kind, Machine};
use crate::wire::{Asked, Paired, Words, words};

impl Paired for FixedWindow {
    fn parameters(&self) -> Words {
        let quota = self.quota();
        Words::from_slice(&[
            quota.amount(),
            quota.window_us(),
            u64::from(self.is_anchored()),
        ])
    }

    fn decode(&self, told: &[u64], _: Asked) -> Option<algorithm::State> {
        let kind = match *told {
            [] => Kind::Vacant,
            [start, kept, at_start] => Kind::FixedWindow(State {
                start,
                kept,
                at_start,
            }),
            _ => return None,
        };
        Some(algorithm::State(kind))
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _kept, _at_start] => Some(start),
            _ => None,
        }
    }
}
