//! Fixed windows on a server.

use super::{FixedWindow, State};
use crate::algorithm::{self, Kind, Machine};
use crate::wire::{Asked, Paired, Words};

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
}
