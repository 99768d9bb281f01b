//! `Fingerprint`: a hash of the limits, keys and clock of a request.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use crate::request::Request;

/// A hash of what a request counts: its limits, its keys, and whose clock decides.
///
/// Costs, amounts and instants are not part of it. It is the same in every process that runs the
/// same build. It finds mistakes; it does not stop anyone who searches for two equal ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    #[inline]
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        // The store's clock and a caller's count in different states.
        hasher.write_u64(u64::from(request.caller_time().is_some()));
        for check in request.checks() {
            let key = check.key();
            hasher.write_u64(check.limit().identity_hash());
            hasher.write(key.partition());
            // Written apart, so that ("ab", "c") is not ("a", "bc").
            hasher.write_usize(key.partition().len());
            hasher.write(key.rest());
        }
        Self(hasher.finish())
    }
}
