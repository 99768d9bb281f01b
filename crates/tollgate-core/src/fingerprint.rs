//! `Fingerprint`: a hash of the limits, keys and clock of a request.

use crate::request::{Check, Request};

/// A hash of what a request counts: its limits, its keys, and whose clock decides.
///
/// Costs, amounts and instants are not part of it, and it is the same in every process. It finds
/// mistakes; it does not stop anyone who searches for two requests with the same one.
///
/// Every decision pays for it, so it is made of few instructions that do not wait for each other:
/// a hasher that withstands chosen keys takes half as long as a decision in memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint(u64);

/// Two odd numbers without a pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

impl Fingerprint {
    #[inline(always)]
    pub(crate) fn of(request: &Request<'_>) -> Self {
        let checks = match request.checks() {
            [check] => hash_check(check),
            checks => checks.iter().fold(0, |hash, check| {
                mix(hash, hash_check(check).rotate_left(32))
            }),
        };
        // The store's clock and a caller's count in different states.
        Self(checks ^ u64::from(request.caller_time().is_some()))
    }
}

#[inline(always)]
fn hash_check(check: &Check<'_>) -> u64 {
    let key = check.key();
    let [first, last] = words(key.partition());
    let hash = mix(first ^ check.limit().identity_hash(), last);
    if key.rest().is_empty() {
        return hash;
    }
    let [first, last] = words(key.rest());
    mix(hash ^ first, last)
}

/// Returns a hash of two words: another whenever only one of them is another.
#[inline(always)]
fn mix(first: u64, last: u64) -> u64 {
    first.wrapping_mul(FACTORS[0]) ^ last.wrapping_mul(FACTORS[1])
}

/// Returns two words that stand for `bytes` and their number: themselves, if there are up to 16.
#[inline(always)]
fn words(bytes: &[u8]) -> [u64; 2] {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    // One word from each end; the two overlap where there are fewer bytes than they hold.
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) if bytes.len() <= 16 => {
            let last = u64::from_le_bytes(*last);
            [u64::from_le_bytes(*first), last.wrapping_add(length)]
        }
        (Some(_), Some(last)) => [long(bytes), u64::from_le_bytes(*last)],
        _ => [short(bytes), length],
    }
}

#[inline(never)]
fn long(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks();
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let add = |hash: u64, word: &[u8; 8]| mix(hash.rotate_left(32), u64::from_le_bytes(*word));
    words.iter().fold(length, add)
}

/// Returns up to seven bytes as a word, another for any two of the same number of bytes.
#[inline(always)]
fn short(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let half = |bytes: [u8; 4]| u64::from(u32::from_le_bytes(bytes));
        return half(*first) | half(*last) << 32;
    }
    let byte = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
    byte(0) | byte(1) << 8 | byte(2) << 16
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn every_byte_and_the_number_of_bytes_count() {
        for length in 0..60_u8 {
            let bytes: Vec<u8> = (1..=length).collect();
            let hash = words(&bytes);
            for index in 0..bytes.len() {
                let mut other = bytes.clone();
                other[index] ^= 0x80;
                assert_ne!(words(&other), hash, "byte {index} of {length}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_ne!(words(&longer), hash, "one more than {length}");
        }
    }
}
