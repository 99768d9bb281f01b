//! The script of a calendar's window: its parameters, and how to read its states.

use super::{CalendarWindow, State};
use crate::algorithm::{self, CallContext, Listed, Machine, Paired, Told, Words, words};
use crate::cycle::CalendarUnit;

impl Paired for CalendarWindow {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &[
        "amount_per_period",
        "first_boundary",
        "second_boundary",
        "third_boundary",
    ];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.capacity()])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [start, length, kept] => Self::keep(State {
                start,
                length,
                kept,
            }),
            _ => return None,
        })
    }

    fn numbers(shape: &str) -> Option<Words> {
        let (unit, zone) = shape.strip_prefix('-')?.split_once('-')?;
        (CalendarUnit::named(unit).is_some() && !zone.is_empty()).then(Words::new)
    }

    fn told(_shape: &[u64], state: &[u64]) -> Option<Told> {
        let &[start, length, kept] = state else {
            return None;
        };
        Some(Told {
            consumed: Some(kept),
            since: Some(start),
            ends: Some(start.checked_add(length)?),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [start, _length, _kept] => Some(start),
            _ => None,
        }
    }
}
