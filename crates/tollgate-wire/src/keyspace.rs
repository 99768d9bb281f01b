//! `Keyspace`: the names of keys on the server.

use std::hash::Hasher;

use sha2::{Digest, Sha256};
use siphasher::sip128::{Hasher128, SipHasher24};
use smallvec::SmallVec;
use tollgate_core::Key;
use tollgate_core::store::Check;

use super::options::{Hashing, LONG_PART, LONGEST_PART, Options};

/// The version of the state encoding; a release that changes the encoding increments it.
pub(super) const VERSION: &str = "v1";
/// Marks states written at callers' instants, so that no key mixes two clocks.
pub(super) const CALLER: &str = "-caller";
/// The shape in the keys of answers that are kept by id.
pub(super) const ANSWER: &str = "answer";
/// Marks the counters of scriptless stores.
pub(super) const PLAIN: &str = "-plain";

/// The keys of a call, most of which have one.
pub(super) type Keys = SmallVec<[Vec<u8>; 1]>;

/// Takes the pieces of a key's text in order.
trait Sink {
    fn add(&mut self, piece: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn add(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// Compares the pieces with a text: what is left of it, or `None` if it is another one.
struct Rest<'t>(Option<&'t [u8]>);

impl Sink for Rest<'_> {
    #[inline]
    fn add(&mut self, piece: &[u8]) {
        self.0 = self.0.and_then(|rest| rest.strip_prefix(piece));
    }
}

/// Names the keys of one store.
///
/// A key is `PREFIX:LIMIT:SHAPE:VERSION:{PARTITION}`, followed by `:REST` if it has a rest. The
/// shape is the algorithm and the parameters that its states depend on. User text is escaped, so
/// that no two keys collide and only the library's braces form a hash tag. A part longer than
/// [`LONGEST_PART`] bytes is replaced with its SHA-256, so that callers cannot create long keys.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    prefix: String,
    hashing: Option<Hashing>,
    takes_hashes: bool,
}

impl Keyspace {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            prefix: options.prefix.clone(),
            hashing: options.hashing.clone(),
            takes_hashes: options.takes_hashes,
        }
    }

    /// Returns the keys of `checks`, for states written at callers' instants if `caller`.
    pub(super) fn of(&self, checks: &[Check<'_>], caller: bool) -> Keys {
        let keys = checks.iter();
        keys.map(|check| self.one(check.limit().identity(), check.key(), caller))
            .collect()
    }

    /// Returns the key of the answer to a call with `id`, which the first of `checks` names; kept
    /// apart for calls at callers' instants if `caller`.
    ///
    /// It ends in half a SHA-256 of the id, or in a keyed hash if all keys are hashed.
    pub(super) fn answer(&self, first: &Check<'_>, id: &[u8], caller: bool) -> Vec<u8> {
        let identity = format!("{}:{ANSWER}", first.limit().name());
        let variant = if caller { CALLER } else { "" };
        let mut text = self.key(&identity, first.key(), variant);
        text.push(b':');
        let hash = match &self.hashing {
            Some(hashing) => {
                let mut hasher = SipHasher24::new_with_key(&hashing.secret);
                hasher.write(id);
                hasher.finish128().as_bytes().to_vec()
            }
            None => Sha256::digest(id)[..16].to_vec(),
        };
        for byte in hash {
            push_hex(&mut text, byte);
        }
        text
    }

    /// Returns both keys of `identity` for `key`: for the server's clock, and for callers' clocks.
    pub(super) fn both(&self, identity: &str, key: Key<'_>) -> [Vec<u8>; 2] {
        [false, true].map(|caller| self.one(identity, key, caller))
    }

    /// Returns the key of `identity` for `key`, for a state written at callers' instants if
    /// `caller`.
    pub(super) fn one(&self, identity: &str, key: Key<'_>, caller: bool) -> Vec<u8> {
        self.key(identity, key, if caller { CALLER } else { "" })
    }

    /// Returns the key of a scriptless counter; `variant` tells the counters of a limit apart.
    pub(super) fn plain(&self, check: &Check<'_>, variant: &str) -> Vec<u8> {
        let variant = format!("{PLAIN}{variant}");
        self.key(check.limit().identity(), check.key(), &variant)
    }

    /// Returns whether `named` is the key of `check`, for a state written at callers' instants if
    /// `caller`.
    pub(super) fn is_of(&self, check: &Check<'_>, caller: bool, named: &[u8]) -> bool {
        let variant = if caller { CALLER } else { "" };
        let mut rest = Rest(Some(named));
        self.write(&mut rest, check.limit().identity(), check.key(), variant);
        rest.0.is_some_and(<[u8]>::is_empty)
    }

    fn key(&self, identity: &str, key: Key<'_>, variant: &str) -> Vec<u8> {
        // Room for what is between the parts, too, unless much is escaped.
        let parts = [
            self.prefix.len(),
            identity.len(),
            key.partition().len(),
            key.rest().len(),
        ];
        let mut text = Vec::with_capacity(parts.iter().sum::<usize>() + variant.len() + 16);
        self.write(&mut text, identity, key, variant);
        text
    }

    fn write(&self, text: &mut impl Sink, identity: &str, key: Key<'_>, variant: &str) {
        text.add(self.prefix.as_bytes());
        text.add(b":");
        text.add(identity.as_bytes());
        text.add(b":");
        text.add(VERSION.as_bytes());
        text.add(variant.as_bytes());
        text.add(b":");
        self.write_user(text, key);
    }

    /// Returns the user's part of the texts of `key`: `{PARTITION}`, or `{PARTITION}:REST`.
    #[cfg(feature = "operate")]
    pub(super) fn user(&self, key: Key<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        self.write_user(&mut text, key);
        text
    }

    /// Returns the text of `rest` in keys.
    #[cfg(feature = "operate")]
    pub(super) fn rest(&self, rest: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        if !rest.is_empty() {
            self.push(&mut text, rest);
        }
        text
    }

    fn write_user(&self, text: &mut impl Sink, key: Key<'_>) {
        text.add(b"{");
        if key.partition().is_empty() {
            // `{}` would not be a hash tag, and escaping never produces a lone `%`.
            text.add(b"%");
        } else {
            self.push(text, &key.partition());
        }
        text.add(b"}");
        if !key.rest().is_empty() {
            text.add(b":");
            self.push(text, key.rest());
        }
    }

    /// Appends a part of a key, hashed or escaped.
    ///
    /// The forms never collide: a keyed hash is `#` and hexadecimal digits, a SHA-256 begins with
    /// `##`, and escaped text contains no `#`.
    fn push(&self, text: &mut impl Sink, part: &[u8]) {
        match &self.hashing {
            _ if self.takes_hashes && is_hash(part) => text.add(part),
            Some(hashing) if !hashing.only_long || part.len() > LONG_PART => {
                let mut hasher = SipHasher24::new_with_key(&hashing.secret);
                hasher.write(part);
                text.add(b"#");
                for byte in hasher.finish128().as_bytes() {
                    push_hex(text, byte);
                }
            }
            _ if part.len() > LONGEST_PART => {
                text.add(b"##");
                for byte in Sha256::digest(part) {
                    push_hex(text, byte);
                }
            }
            _ => escape(text, part),
        }
    }
}

/// Returns whether a part of a key on a server is the hash of a part.
#[must_use]
pub fn is_hash(part: &[u8]) -> bool {
    let digits = match part {
        [b'#', b'#', digits @ ..] if digits.len() == 64 => digits,
        [b'#', digits @ ..] if digits.len() == 32 => digits,
        _ => return false,
    };
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.iter().all(is_digit)
}

/// Appends `part`, with `#`, `%`, `:`, braces, spaces and control characters as `%xx`.
fn escape(text: &mut impl Sink, part: &[u8]) {
    let is_special =
        |byte: u8| byte <= b' ' || matches!(byte, b'#' | b'%' | b':' | b'{' | b'}' | 0x7f);
    if !part.iter().any(|&byte| is_special(byte)) {
        text.add(part);
        return;
    }
    for &byte in part {
        if is_special(byte) {
            text.add(b"%");
            push_hex(text, byte);
        } else {
            text.add(&[byte]);
        }
    }
}

/// Returns the part of a key that [`escape`] wrote as `text`; a hash is returned as it is.
#[cfg(feature = "operate")]
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    if text == b"%" {
        return Vec::new();
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut part = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if let (b'%', &[high, low, ref after @ ..]) = (byte, after)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
            && let Ok(byte) = u8::try_from(high << 4 | low)
        {
            part.push(byte);
            rest = after;
        } else {
            part.push(byte);
        }
    }
    part
}

fn push_hex(text: &mut impl Sink, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.add(&[
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use tollgate_core::store::Check;
    use tollgate_core::{Key, Limit};

    use super::Keyspace;
    use crate::options::{LONGEST_PART, Options};

    #[cfg(feature = "operate")]
    #[test]
    fn escaped_parts_are_read_back() {
        for part in ["", "k", "%", "a:b {}", "#1", "é\n%7b"] {
            let user = Keyspace::new(&Options::new()).user(Key::from(part));
            let text = user.strip_prefix(b"{").unwrap().strip_suffix(b"}").unwrap();
            assert_eq!(super::unescaped(text), part.as_bytes(), "{part}");
        }
        assert_eq!(super::unescaped(b"##ab"), b"##ab");
        assert_eq!(super::unescaped(b"a%zz%7"), b"a%zz%7");
    }

    #[cfg(feature = "operate")]
    #[test]
    fn a_hash_names_the_key_that_it_is_of() {
        let long = "x".repeat(LONGEST_PART + 1);
        let hashed = Options::new().with_hashed_keys([7; 16]);
        for (options, part) in [(Options::new(), &*long), (hashed.clone(), "alice")] {
            let key = Key::from(part).with_rest(part);
            let written = Keyspace::new(&options).user(key);
            let text = String::from_utf8(written.clone()).unwrap();
            let (partition, rest) = text.split_once("}:").unwrap();
            let key = Key::from(&partition[1..]).with_rest(rest);
            for options in [Options::new(), hashed.clone()] {
                let of = |options| Keyspace::new(&options).user(key);
                assert_eq!(of(options.clone().with_hashes_taken()), written);
                assert_ne!(of(options), written);
            }
            let other = Key::from(&text[1..9]);
            let taken = Keyspace::new(&Options::new().with_hashes_taken()).user(other);
            assert_eq!(taken, Keyspace::new(&Options::new()).user(other));
        }
    }

    #[test]
    fn a_text_is_that_of_its_own_key_and_clock_only() {
        let limits: [Limit; 2] = ["a=gcra:1/1s", "ab=gcra:1/1s"].map(|text| text.parse().unwrap());
        let long = "x".repeat(LONGEST_PART + 1);
        let longer = "x".repeat(LONGEST_PART + 2);
        let parts = ["", "k", "kk", "%", "a:b", "{}", &long, &longer];
        let plain = Keyspace::new(&Options::new());
        let hashed = Keyspace::new(&Options::new().with_hashed_keys([7; 16]));
        for keyspace in [plain, hashed] {
            let mut all = Vec::new();
            for limit in &limits {
                for partition in parts {
                    for rest in parts {
                        let key = Key::from(partition).with_rest(rest);
                        for caller in [false, true] {
                            all.push((Check::new(limit, key, 1), caller));
                        }
                    }
                }
            }
            for (at, (check, caller)) in all.iter().enumerate() {
                let text = keyspace.one(check.limit().identity(), check.key(), *caller);
                for (other, (check, caller)) in all.iter().enumerate() {
                    assert_eq!(keyspace.is_of(check, *caller, &text), at == other);
                }
            }
        }
    }
}
