//! `Probe`: what to search the table for, with its hash.

use std::array;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher13};
use tollgate_core::Key;
use tollgate_core::inside::{self, Kind, RawPartition};
use tollgate_core::store::{Check, Fingerprint};

use crate::clock::Timeline;

/// The longest key that is stored as it is.
const SHORT: usize = 16;

/// The length that marks a key stored as its hash. No short key has this length.
const HASHED: u8 = 0xff;

/// A check with its hash, computed once, before any lock is taken.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'r, 'k> {
    pub(crate) check: &'r Check<'k>,
    /// The hash of the key alone, which says in which shard its entries are.
    pub(crate) key_hash: u64,
    /// The hash of the limit's identity and the key, by which the table finds an entry.
    pub(crate) hash: u64,
    pub(crate) key: StoredKey,
}

impl<'r, 'k> Probe<'r, 'k> {
    #[inline(always)]
    pub(crate) fn new(check: &'r Check<'k>, hasher: &KeyHasher) -> Self {
        let key = StoredKey::new(inside::key(check), hasher);
        let key_hash = hasher.hash(&key);
        Self {
            check,
            key_hash,
            hash: key_hash ^ inside::identity_hash(check.limit()),
            key,
        }
    }

    /// Returns the fingerprint of a request with this check alone.
    #[inline]
    pub(crate) fn fingerprint(&self, timeline: Timeline) -> Fingerprint {
        Fingerprint::new(self.hash ^ u64::from(timeline == Timeline::Caller))
    }
}

/// A key as the table stores it: 24 bytes, whatever its length.
///
/// A key of up to 16 bytes without a rest is stored as it is; any other key as a 128-bit hash.
/// Among a million such keys, the probability that two have the same hash is 10^-27, and nobody can
/// search for such a pair without the store's secret.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct StoredKey {
    /// The number of bytes, or [`HASHED`].
    length: u8,
    /// The [packed](pack) bytes, or the hash.
    words: [u64; 2],
}

impl StoredKey {
    #[inline(always)]
    pub(crate) fn new(key: &Key<'_>, hasher: &KeyHasher) -> Self {
        let rest = key.rest();
        match inside::raw_partition(key) {
            RawPartition::Bytes(partition) => match u8::try_from(partition.len()) {
                Ok(length) if partition.len() <= SHORT && rest.is_empty() => Self {
                    length,
                    words: pack(partition),
                },
                _ => Self {
                    length: HASHED,
                    words: hasher.hash_long(partition, rest),
                },
            },
            // Each in registers: a key that was returned in memory would be written to memory for all
            // other keys, too.
            RawPartition::Value(kind, [low, high]) => Self {
                length: Self::length_of_value(kind, low, high, rest),
                words: Self::words_of_value(kind, low, high, rest, hasher),
            },
        }
    }

    #[cold]
    fn length_of_value(kind: Kind, low: u64, high: u64, rest: &[u8]) -> u8 {
        let partition = inside::partition(kind, [low, high]);
        match u8::try_from(partition.len()) {
            Ok(length) if partition.len() <= SHORT && rest.is_empty() => length,
            _ => HASHED,
        }
    }

    #[cold]
    fn words_of_value(
        kind: Kind,
        low: u64,
        high: u64,
        rest: &[u8],
        hasher: &KeyHasher,
    ) -> [u64; 2] {
        let partition = inside::partition(kind, [low, high]);
        if partition.len() <= SHORT && rest.is_empty() {
            pack(&partition)
        } else {
            hasher.hash_long(&partition, rest)
        }
    }
}

/// The hash functions of a store, with its secret seeds.
pub(crate) struct KeyHasher {
    seed: u64,
    shared_seed: SharedSeed,
    long: SipHasher13,
}

impl KeyHasher {
    pub(crate) fn new() -> Self {
        // `RandomState` is the only source of system randomness in the standard library.
        let random = RandomState::new();
        let [seed, shared_seed, first, second] = array::from_fn(|number| random.hash_one(number));
        Self {
            seed,
            shared_seed: SharedSeed::from_u64(shared_seed),
            long: SipHasher13::new_with_keys(first, second),
        }
    }

    /// Returns the hash of a key. With the hash of a limit's identity, which nobody outside the
    /// process knows either, it makes the hash by which the table finds an entry.
    #[inline]
    pub(crate) fn hash(&self, key: &StoredKey) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        hasher.write_u64(key.words[0]);
        hasher.write_u64(key.words[1] ^ u64::from(key.length).rotate_right(8));
        hasher.finish()
    }

    /// Returns the hash by which the state of a schedule or of leases is found.
    pub(crate) fn hash_text(&self, identity: &str, key: &StoredKey) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        identity.hash(&mut hasher);
        self.hash(key) ^ hasher.finish()
    }

    /// Returns the fingerprint of a request whose probes have these hashes, in this order.
    #[inline]
    pub(crate) fn fingerprint(
        &self,
        hashes: impl IntoIterator<Item = u64>,
        timeline: Timeline,
    ) -> Fingerprint {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared_seed);
        timeline.hash(&mut hasher);
        for hash in hashes {
            hasher.write_u64(hash);
        }
        Fingerprint::new(hasher.finish())
    }

    /// Returns a 128-bit hash of a key.
    #[inline(never)]
    fn hash_long(&self, partition: &[u8], rest: &[u8]) -> [u64; 2] {
        let mut hasher = self.long;
        // The partition's length is part of a key: `("ab", "c")` is not `("a", "bc")`.
        hasher.write_usize(partition.len());
        hasher.write(partition);
        hasher.write(rest);
        let hash = hasher.finish128();
        [hash.h1, hash.h2]
    }
}

/// Returns the bits of a hash that choose a shard, at least as many as there are shards.
///
/// The table takes the top bits of the hash as tags and the low ones as bucket indices. The bits in
/// between are spread badly for one seed in a hundred, because the hash of a short key is a single
/// multiplication; another one mixes all bits below into these.
#[inline]
pub(crate) fn shard_bits(hash: u64) -> usize {
    let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 40).unwrap_or_default()
}

/// Packs up to 16 bytes into two words, differently for any two texts of the same length.
///
/// Each word takes a piece from one end. For short texts the pieces overlap, so that no length
/// needs a loop.
#[inline]
fn pack(bytes: &[u8]) -> [u64; 2] {
    debug_assert!(bytes.len() <= SHORT, "longer keys are not packed");
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let word = |bytes: &[u8; 4]| u64::from(u32::from_le_bytes(*bytes));
        return [word(first), word(last)];
    }
    let byte = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
    [byte(0) | byte(1) << 8 | byte(2) << 16, 0]
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tollgate_core::FixedWindow;
    use tollgate_core::store::Check;
    use tollgate_core::{Key, Limit, Quota};

    use super::{KeyHasher, Probe, StoredKey, pack, shard_bits};

    fn limit(name: &str) -> Limit {
        Limit::new(name, FixedWindow::aligned(Quota::per_minute(1))).unwrap()
    }

    fn hash(hasher: &KeyHasher, limit: &Limit, key: Key<'_>) -> u64 {
        Probe::new(&Check::new(limit, key, 1), hasher).hash
    }

    /// A hash that anyone can compute.
    fn fnv_1a(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    #[test]
    fn packing_is_injective_for_short_texts() {
        let bytes = [0, 1, 2, 0x40, 0x80, 0x81, 0xc0, 0xff];
        for length in 0..=4 {
            let of = |mut number: usize| {
                let digit = |_| {
                    let byte = bytes[number % 8];
                    number /= 8;
                    byte
                };
                pack(&(0..length).map(digit).collect::<Vec<u8>>())
            };
            let count = 8_usize.pow(length);
            assert_eq!((0..count).map(of).collect::<BTreeSet<_>>().len(), count);
        }
    }

    #[test]
    fn packing_is_injective_for_texts_of_one_length() {
        for length in 1..=16 {
            let base: Vec<u8> = (0..length).collect();
            for index in 0..base.len() {
                let mut other = base.clone();
                other[index] ^= 0x80;
                assert_ne!(pack(&base), pack(&other), "length {length}, byte {index}");
            }
        }
    }

    /// Each key cancels out the public part of its limit's hash.
    #[test]
    fn keys_chosen_to_collide_over_many_limits_do_not() {
        let hasher = KeyHasher::new();
        let mut hashes = BTreeSet::new();
        let (mut shards, mut tags, mut groups) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for number in 0..4_096 {
            let limit = limit(&format!("limit-{number}"));
            let word = fnv_1a(limit.identity().as_bytes()) ^ 0x0123_4567_89ab_cdef;
            let mut key = [b'k'; 16];
            key[..8].copy_from_slice(&word.to_le_bytes());
            let hash = hash(&hasher, &limit, Key::from(&key[..]));
            hashes.insert(hash);
            let shard = shard_bits(hash) & 0x3f;
            *shards.entry(u64::try_from(shard).unwrap()).or_insert(0) += 1;
            *tags.entry(hash >> 57).or_insert(0) += 1;
            *groups.entry(hash & 0xff).or_insert(0) += 1;
        }
        assert_eq!(hashes.len(), 4_096);
        // The bits by which a table finds a key are spread evenly: 64, 32 and 16 each on average.
        let most = |counts: &BTreeMap<u64, u32>| *counts.values().max().unwrap();
        assert!(most(&shards) < 2 * 64, "{} in one shard", most(&shards));
        assert!(most(&tags) < 3 * 32, "{} of one tag", most(&tags));
        assert!(most(&groups) < 4 * 16, "{} in one group", most(&groups));
    }

    #[test]
    fn keys_that_differ_in_their_last_byte_do_not_collide() {
        let hasher = KeyHasher::new();
        let limit = limit("one");
        for length in 1..=16 {
            let of = |byte| {
                let mut key = vec![b'k'; length];
                key[length - 1] = byte;
                hash(&hasher, &limit, Key::from(&key[..]))
            };
            let hashes: BTreeSet<u64> = (0..=u8::MAX).map(of).collect();
            assert_eq!(hashes.len(), 256, "length {length}");
        }
    }

    #[test]
    fn numbers_and_addresses_are_stored_as_their_text() {
        let hasher = KeyHasher::new();
        for (key, text) in [
            (Key::from(7_u64), "7"),
            (Key::from(-1_234_567_890_123_456_i64), "-1234567890123456"),
            (Key::from(1_234_567_890_123_456_u64), "1234567890123456"),
            (Key::from(Ipv4Addr::LOCALHOST), "127.0.0.1"),
            (
                Key::from(Ipv6Addr::from(u128::MAX)),
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
        ] {
            let is_same = |key: Key<'_>, text: Key<'_>| {
                StoredKey::new(&key, &hasher) == StoredKey::new(&text, &hasher)
            };
            let text = Key::from(text);
            assert!(is_same(key, text), "{key:?}");
            assert!(
                is_same(key.with_rest("/login"), text.with_rest("/login")),
                "{key:?}"
            );
            assert!(!is_same(key.with_rest("/login"), text), "{key:?}");
        }
    }

    /// Searching for the state of a schedule or of leases compares few others.
    #[test]
    fn names_and_keys_of_schedules_do_not_collide() {
        let hasher = KeyHasher::new();
        let of = |name: u32, key: u32| {
            let key = StoredKey::new(&Key::from(&*key.to_string()), &hasher);
            hasher.hash_text(&format!("name-{name}"), &key)
        };
        let pairs = (0..64).flat_map(|name| (0..64).map(move |key| (name, key)));
        let hashes: BTreeSet<u64> = pairs.map(|(name, key)| of(name, key)).collect();
        assert_eq!(hashes.len(), 4_096);
    }

    #[test]
    fn limits_whose_names_collide_under_a_public_hash_do_not() {
        let names = ["8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"];
        assert_eq!(fnv_1a(names[0].as_bytes()), fnv_1a(names[1].as_bytes()));
        let [one, other] = names.map(limit);
        let hasher = KeyHasher::new();
        for key in ["alice", "a key of more than sixteen bytes"] {
            let hash = |limit| hash(&hasher, limit, Key::from(key));
            assert_ne!(hash(&one), hash(&other));
        }
    }

    #[test]
    fn every_store_has_its_own_hash_seed() {
        let limit = limit("one");
        let (one, other) = (KeyHasher::new(), KeyHasher::new());
        for key in ["alice", "a key of more than sixteen bytes"] {
            let key = Key::from(key);
            let check = Check::new(&limit, key, 1);
            assert_ne!(hash(&one, &limit, key), hash(&other, &limit, key));
            let long = key.partition().len() > 16;
            assert_eq!(
                Probe::new(&check, &one).key == Probe::new(&check, &other).key,
                !long
            );
        }
    }

    #[test]
    fn keys_of_different_parts_or_lengths_are_stored_differently() {
        let hasher = KeyHasher::new();
        let limit = limit("one");
        let text = "abcdefghijklmnopqrstuvwxyz".repeat(11);
        let mut keys = Vec::new();
        for length in (0..=40).chain([255, 256, 257, 286]) {
            for split in 0..=length {
                keys.push(Key::new(&text[..split]).with_rest(&text[split..length]));
            }
        }
        let held = keys.iter().map(|&key| {
            let key = Probe::new(&Check::new(&limit, key, 1), &hasher).key;
            (key.length, key.words)
        });
        assert_eq!(held.collect::<BTreeSet<_>>().len(), keys.len());
    }

    /// A key may consist of any bytes, including those under which a long key is stored.
    #[test]
    fn a_short_key_never_equals_a_long_one() {
        let hasher = KeyHasher::new();
        let limit = limit("one");
        let long = Check::new(&limit, "a key of more than sixteen bytes", 1);
        let long = Probe::new(&long, &hasher);
        let bytes: Vec<u8> = long
            .key
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let short = Check::new(&limit, &bytes[..], 1);
        let short = Probe::new(&short, &hasher);
        assert_eq!(short.key.words, long.key.words);
        assert!(short.key != long.key);
        assert_ne!(short.hash, long.hash);
    }
}
