//! The fixed window's script: its parameters, and how to read its states.

use super::{FixedWindow, State};
use crate::algorithm::Machine;
use crate::algorithm::{self, CallContext, Listed, Paired, Words, words};

impl Paired for FixedWindow {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["amount_per_window", "window", "anchored"];

    fn parameters(&self, _around: u64) -> Words {
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
        let aligned = shape.strip_prefix("-aligned-");
        let window = aligned.or_else(|| shape.strip_prefix("-anchored-"))?;
        Some(Words::from_slice(&[window.parse().ok()?]))
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _kept, _at_start] => Some(start),
            _ => None,
        }
    }
}
