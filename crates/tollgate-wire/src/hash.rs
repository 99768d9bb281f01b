//! Hashes of limits and keys, by which calls for the same state are found.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::inside::identity_hash;
use tollgate_core::store::Request;

/// One hash for each check of a request, and one for the key of its answer.
pub(super) type Hashes = SmallVec<[u64; 4]>;

/// The same for all stores of this process. If someone makes keys that have the same hash, equal calls
/// for them are decided one after the other.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Returns the hash of the limit and the key of each check.
pub(super) fn of(request: &Request<'_>) -> Hashes {
    let checks = request.checks().iter();
    checks
        .map(|check| HASHER.hash_one(check.key()) ^ identity_hash(check.limit()))
        .collect()
}

/// Returns the hash of a key as it is written on a server.
pub(super) fn of_named(key: &[u8]) -> u64 {
    HASHER.hash_one(key)
}
