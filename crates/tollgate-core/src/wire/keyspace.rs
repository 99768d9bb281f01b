//! The text of keys.

use std::hash::Hasher;

use sha2::{Digest, Sha256};
use siphasher::sip128::{Hasher128, SipHasher24};

use super::options::{Hashing, LONG_PART, LONGEST_PART, Options};
use crate::request::Check;

/// The version of the states, which a release that encodes them otherwise counts up.
pub(super) const VERSION: &str = "v1";
/// Marks the states that were written at a caller's instants: one key never has two clocks.
pub(super) const CALLER: &str = "-caller";
/// Marks the counters of stores that run no scripts.
pub(super) const PLAIN: &str = "-plain";

/// Names the keys of one store.
///
/// `PREFIX:LIMIT:SHAPE:VERSION:{PARTITION}` and, where the key has another part, `:REST`. The
/// shape is the algorithm and what its states depend on. What a user chose is escaped, so that no
/// two keys meet and only the library's braces make a hash tag. A part of more than
/// [`LONGEST_PART`] bytes is written as its SHA-256, so that no caller can make long keys.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    prefix: String,
    hashing: Option<Hashing>,
}

impl Keyspace {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            prefix: options.prefix.clone(),
            hashing: options.hashing.clone(),
        }
    }

    /// Returns the keys of `checks`, of states written at a caller's instants or the server's.
    pub(super) fn of(&self, checks: &[Check<'_>], caller: bool) -> Vec<Vec<u8>> {
        let variant = if caller { CALLER } else { "" };
        let keys = checks.iter().map(|check| self.key(check, variant));
        keys.collect()
    }

    /// Returns both keys of `check`, whose states are of the server's clock and of callers'.
    pub(super) fn both(&self, check: &Check<'_>) -> [Vec<u8>; 2] {
        ["", CALLER].map(|variant| self.key(check, variant))
    }

    /// Returns the key of a counter without scripts, told from others by `variant`.
    pub(super) fn plain(&self, check: &Check<'_>, variant: &str) -> Vec<u8> {
        self.key(check, &format!("{PLAIN}{variant}"))
    }

    fn key(&self, check: &Check<'_>, variant: &str) -> Vec<u8> {
        let (identity, key) = (check.limit().identity(), check.key());
        // Enough for nearly every key.
        let mut text = Vec::with_capacity(128);
        text.extend_from_slice(self.prefix.as_bytes());
        text.push(b':');
        text.extend_from_slice(identity.as_bytes());
        text.push(b':');
        text.extend_from_slice(VERSION.as_bytes());
        text.extend_from_slice(variant.as_bytes());
        text.extend_from_slice(b":{");
        if key.partition().is_empty() {
            // Empty braces would be no hash tag; nothing is escaped to this.
            text.push(b'%');
        } else {
            self.push(&mut text, key.partition());
        }
        text.push(b'}');
        if !key.rest().is_empty() {
            text.push(b':');
            self.push(&mut text, key.rest());
        }
        text
    }

    /// Appends a part of a key, hashed or escaped.
    ///
    /// Each form begins otherwise: a keyed hash with `#` and a digit, a SHA-256 with `##`, and no
    /// escaped text holds a `#`.
    fn push(&self, text: &mut Vec<u8>, part: &[u8]) {
        match &self.hashing {
            Some(hashing) if !hashing.only_long || part.len() > LONG_PART => {
                let mut hasher = SipHasher24::new_with_key(&hashing.secret);
                hasher.write(part);
                text.push(b'#');
                for byte in hasher.finish128().as_bytes() {
                    push_hex(text, byte);
                }
            }
            _ if part.len() > LONGEST_PART => {
                text.extend_from_slice(b"##");
                for byte in Sha256::digest(part) {
                    push_hex(text, byte);
                }
            }
            _ => escape(text, part),
        }
    }
}

/// Appends `part` with every byte that means something in a key, or cannot be seen, as `%XX`.
fn escape(text: &mut Vec<u8>, part: &[u8]) {
    for &byte in part {
        if byte <= b' ' || matches!(byte, b'#' | b'%' | b':' | b'{' | b'}' | 0x7f) {
            text.push(b'%');
            push_hex(text, byte);
        } else {
            text.push(byte);
        }
    }
}

fn push_hex(text: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push(DIGITS[usize::from(byte >> 4)]);
    text.push(DIGITS[usize::from(byte & 15)]);
}
