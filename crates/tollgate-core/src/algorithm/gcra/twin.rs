//! GCRA's script: its parameters, and how to read its states.

use super::{Gcra, State};
use crate::algorithm::{self, CallContext, Listed, Paired, Reserved, Told, Words, words};
use crate::time::MAX_EXACT;

impl Paired for Gcra {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["leak", "unit", "full"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.leak, self.unit, self.full])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        if reply.is_empty() {
            return Some(algorithm::State::default());
        }
        let [debt, at, unit, starts] = numbers(reply)?;
        (unit > 0).then(|| Self::keep(State::new(debt, at, unit, starts)))
    }

    fn reserved(&self, reserved: &Reserved) -> [u64; 3] {
        // A debt in another unit is not restored: no reservation leaves more than `MAX_EXACT`,
        // and this and its cost would be more.
        let before = if reserved.unit == self.unit {
            reserved.before
        } else {
            MAX_EXACT
        };
        [reserved.at, before, reserved.starts]
    }

    fn told(_shape: &[u64], state: &[u64]) -> Option<Told> {
        let [debt, at, unit, _] = numbers(state)?;
        Some(Told {
            consumed: (unit > 0).then(|| debt.div_ceil(unit)),
            last: Some(at),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        numbers(&words(raw)?).map(|[_, at, ..]| at)
    }
}

/// Returns the debt, its instant, its unit and the latest start, if these are the numbers of a state.
fn numbers(state: &[u64]) -> Option<[u64; 4]> {
    match *state {
        [debt, at, unit] => Some([debt, at, unit, 0]),
        [debt, at, unit, starts] => Some([debt, at, unit, starts]),
        _ => None,
    }
}
