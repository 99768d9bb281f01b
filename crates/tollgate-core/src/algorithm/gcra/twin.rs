//! GCRA's script: its parameters, and how to read its states.

use super::{Gcra, State};
use crate::algorithm::{self, CallContext, Listed, Paired, Words, words};

impl Paired for Gcra {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["leak", "unit", "full"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.leak, self.unit, self.full])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [debt, at, unit] if unit > 0 => Self::keep(State { debt, at, unit }),
            _ => return None,
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [_debt, at, _unit] => Some(at),
            _ => None,
        }
    }
}
