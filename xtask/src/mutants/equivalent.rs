//! The mutants that are the same program: no test can tell them from the original.

use std::collections::HashMap;
use std::error::Error;

use super::mutant::Mutant;

/// A mutant that cannot be noticed, and why.
#[derive(Clone, Copy, Debug)]
struct Equivalent {
    file: &'static str,
    place: &'static str,
    before: &'static str,
    after: &'static str,
    /// Which of those that are the same in all this, from 0.
    nth: usize,
    reason: &'static str,
}

macro_rules! equivalent {
    ($($file:literal { $($place:literal: $($before:literal => $after:literal $(# $nth:literal)? because $reason:literal;)*)* })*) => {
        &[$($($(Equivalent {
            file: $file,
            place: $place,
            before: $before,
            after: $after,
            nth: 0 $(+ $nth - 1)?,
            reason: $reason,
        },)*)*)*]
    };
}

const EQUIVALENT: &[Equivalent] = equivalent! {};

/// The reasons of the list, by the mutants' numbers.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<u64, &'static str>);

impl Index {
    /// Finds what is listed among `mutants`.
    ///
    /// # Errors
    ///
    /// One of the list is not among them: the code has changed, and it is to be judged again.
    pub(super) fn of(mutants: &[Mutant]) -> Result<Self, Box<dyn Error>> {
        let mut reasons = HashMap::new();
        for listed in EQUIVALENT {
            let found = mutants.iter().find(|mutant| {
                mutant.file == listed.file
                    && mutant.place == listed.place
                    && mutant.before == listed.before
                    && mutant.after == listed.after
                    && mutant.nth == listed.nth
            });
            let found =
                found.ok_or_else(|| format!("listed as equivalent, but gone: {listed:?}"))?;
            reasons.insert(found.id, listed.reason);
        }
        Ok(Self(reasons))
    }

    pub(super) fn reason(&self, id: u64) -> Option<&'static str> {
        self.0.get(&id).copied()
    }
}
