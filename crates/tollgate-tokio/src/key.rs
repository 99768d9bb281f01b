//! `OwnedKey`: a key that outlives the caller's.

use tollgate_core::Key;

/// A copy of a [`Key`].
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct OwnedKey {
    partition: Box<[u8]>,
    rest: Box<[u8]>,
}

impl OwnedKey {
    pub(crate) fn as_key(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self {
            partition: (*key.partition()).into(),
            rest: key.rest().into(),
        }
    }
}
