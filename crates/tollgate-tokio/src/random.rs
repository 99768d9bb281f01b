//! Random numbers.

use std::hash::{BuildHasher, RandomState};

/// Returns a random number.
pub(crate) fn random() -> u64 {
    // `RandomState` is the only source of system randomness in the standard library.
    RandomState::new().hash_one(0)
}
