//! The keys of rows.

use tollgate_core::{Key, Timestamp};

/// What a row is for.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Limit = b'l',
    Schedule = b's',
    Lease = b'c',
    /// The answer to a call with an id.
    Answer = b'a',
}

/// Returns the key of the row of `key` for the limit, or other terms, with this identity, at the database's
/// clock or at callers' instants. No two have one key: each part is preceded by its length.
pub(crate) fn row_key(kind: Kind, identity: &str, key: Key<'_>, at: Option<Timestamp>) -> Vec<u8> {
    let clock = if at.is_some() { b'c' } else { b'd' };
    let mut bytes = vec![kind as u8, clock];
    for part in [identity.as_bytes(), &key.partition()] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(key.rest());
    bytes
}
