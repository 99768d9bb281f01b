//! GCRA's script: its parameters, and how to read its states.

use super::{AHEAD, Gcra, MARK, State};
use crate::algorithm::{self, CallContext, Listed, Paired, Reserved, Told, Words, words};
use crate::time::MAX_EXACT;

impl Paired for Gcra {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["leak", "unit", "full"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.leak, self.unit, self.full])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [debt, at, unit] if unit > 0 => Self::keep(State {
                debt,
                at,
                unit,
                ahead: 0,
            }),
            [debt, at, unit, mark @ (0 | 1), starts] if unit > 0 => {
                let ahead = u32::try_from(starts.saturating_sub(at)).ok()?;
                let mark = if mark == 1 { MARK } else { 0 };
                let marks = mark | if ahead > 0 { AHEAD } else { 0 };
                Self::keep(State {
                    debt,
                    at,
                    unit: unit | marks,
                    ahead,
                })
            }
            _ => return None,
        })
    }

    fn reserved(&self, reserved: &Reserved) -> [u64; 3] {
        // A debt in another unit is not restored: no reservation leaves more than `MAX_EXACT`,
        // and this and its cost would be more.
        let before = if reserved.unit == self.unit {
            reserved.before
        } else {
            MAX_EXACT
        };
        [reserved.at, before, u64::from(reserved.marked)]
    }

    fn told(_shape: &[u64], state: &[u64]) -> Option<Told> {
        let (&[debt, at, unit] | &[debt, at, unit, 0 | 1, _]) = state else {
            return None;
        };
        Some(Told {
            consumed: (unit > 0).then(|| debt.div_ceil(unit)),
            last: Some(at),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [_debt, at, _unit] | [_debt, at, _unit, 0 | 1, _] => Some(at),
            _ => None,
        }
    }
}
