//! `OwnedKey`: a key that a layer remembers.

use tollgate_core::Key;

/// No layer remembers anything of longer keys: clients may choose them, and memory is bounded.
const LONGEST_KEY: usize = 256;

pub(crate) struct OwnedKey {
    partition: Box<[u8]>,
    rest: Box<[u8]>,
}

impl OwnedKey {
    pub(crate) fn of(key: Key<'_>) -> Self {
        Self {
            partition: (*key.partition()).into(),
            rest: key.rest().into(),
        }
    }

    pub(crate) fn borrow(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }
}

/// Returns whether a key is too long to be remembered.
pub(crate) fn is_long(key: Key<'_>) -> bool {
    key.partition().len() + key.rest().len() > LONGEST_KEY
}
