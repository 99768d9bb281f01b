//! The block's script: its parameters, and how to read its states.

use super::{Block, State};
use crate::algorithm::{self, CallContext, Listed, Machine, Paired, Told, Words, words};

impl Paired for Block {
    const SCRIPT: &'static str = include_str!("script.lua");
    const PARAMETERS: &'static [&'static str] = &["usual", "longest", "memory"];

    fn parameters(&self) -> Words {
        Words::from_slice(&[self.quota().window_us(), self.longest, self.memory()])
    }

    fn decode(&self, reply: &[u64], _: CallContext) -> Option<algorithm::State> {
        Some(match *reply {
            [] => algorithm::State::default(),
            [ends, at, length] => Self::keep(State { ends, at, length }),
            _ => return None,
        })
    }

    fn told(_shape: &[u64], state: &[u64]) -> Option<Told> {
        let &[ends, at, _length] = state else {
            return None;
        };
        Some(Told {
            since: Some(at),
            last: Some(at),
            ends: Some(ends),
            ..Told::default()
        })
    }

    fn latest(_shape: &[u64], values: &[Vec<u8>]) -> Option<u64> {
        let [raw] = values else { return None };
        match *words(raw)? {
            [_ends, at, _length] => Some(at),
            _ => None,
        }
    }
}
