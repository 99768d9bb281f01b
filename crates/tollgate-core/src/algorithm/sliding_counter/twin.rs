//! The sliding counter's script: its parameters, and how to read its states.

use super::{SlidingCounter, State};
use crate::algorithm::Machine;
use crate::algorithm::{self, CallContext, Listed, Paired, Told, Words, words};

impl Paired for SlidingCounter {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["amount_per_window", "window", "step", "steps"];

    fn parameters(&self) -> Words {
        let quota = self.quota();
        Words::from_slice(&[quota.amount(), quota.window_us(), self.step, self.steps])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [start, current, previous] => Self::keep(State {
                start,
                current,
                previous,
            }),
            _ => return None,
        })
    }

    fn numbers(shape: &str) -> Option<Words> {
        let window = shape.strip_prefix('-')?;
        Some(Words::from_slice(&[window.parse().ok()?]))
    }

    fn told(shape: &[u64], state: &[u64]) -> Option<Told> {
        let (&[window], &[start, current, previous]) = (shape, state) else {
            return None;
        };
        let windows = if current > 0 { 2 } else { 1 };
        let before = if previous > 0 { window } else { 0 };
        Some(Told {
            consumed: Some(current),
            previous: Some(previous),
            since: Some(start.saturating_sub(before)),
            ends: Some(start.checked_add(window.checked_mul(windows)?)?),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _current, _previous] => Some(start),
            _ => None,
        }
    }
}
