//! The fixed window's script: its parameters, and how to read its states.

use super::{FixedWindow, State};
use crate::algorithm::Machine;
use crate::algorithm::{self, CallContext, Listed, Paired, Told, Words, words};

impl Paired for FixedWindow {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["amount_per_window", "window", "anchored"];

    fn parameters(&self) -> Words {
        let quota = self.quota();
        Words::from_slice(&[
            quota.amount(),
            quota.window_us(),
            u64::from(self.is_anchored()),
        ])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [start, kept, at_start] => Self::keep(State {
                start,
                kept,
                at_start,
            }),
            _ => return None,
        })
    }

    fn numbers(shape: &str) -> Option<Words> {
        let anchored = shape.strip_prefix("-anchored-");
        let window = anchored.or_else(|| shape.strip_prefix("-aligned-"))?;
        let window = window.parse().ok()?;
        Some(Words::from_slice(&[window, u64::from(anchored.is_some())]))
    }

    fn told(shape: &[u64], state: &[u64]) -> Option<Told> {
        let (&[window, anchored], &[start, kept, at_start]) = (shape, state) else {
            return None;
        };
        // A first call that was refunded keeps its window, and its place.
        let place = anchored == 1 && kept > 0 && at_start == 0;
        Some(Told {
            consumed: Some(kept + u64::from(place)),
            since: Some(start),
            ends: Some(start.checked_add(window)?),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _kept, _at_start] => Some(start),
            _ => None,
        }
    }
}
