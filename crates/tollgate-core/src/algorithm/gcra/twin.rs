//! GCRA on a server.

use super::{Gcra, State};
use crate::algorithm::{self, Kind};
use crate::wire::{Asked, Paired, Words, words};

impl Paired for Gcra {
    fn parameters(&self) -> Words {
        Words::from_slice(&[self.leak, self.unit, self.full])
    }

    fn decode(&self, told: &[u64], _: Asked) -> Option<algorithm::State> {
        let kind = match *told {
            [] => Kind::Vacant,
            [debt, at, unit] if unit > 0 => Kind::Gcra(State { debt, at, unit }),
            _ => return None,
        };
        Some(algorithm::State(kind))
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [_debt, at, _unit] => Some(at),
            _ => None,
        }
    }
}
