//! Random numbers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a random number.
#[must_use]
pub fn random() -> u64 {
    // `RandomState` is the only source of system randomness in the standard library.
    RandomState::new().build_hasher().finish()
}
