//! `Swept`: how far a table was looked through for rows that are over.

use std::sync::{Mutex, PoisonError};

/// The last key that was looked at; nothing before the first time.
#[derive(Default)]
pub(crate) struct Swept(Mutex<Option<Vec<u8>>>);

impl Swept {
    /// Begins at `key`, unless it has begun: processes that end soon must not all begin at the front.
    pub(crate) fn begin(&self, key: &[u8]) {
        self.change(|last| {
            let _ = last.get_or_insert_with(|| key.to_vec());
        });
    }

    /// Returns the key after which to look next.
    pub(crate) fn last(&self) -> Vec<u8> {
        self.change(|last| last.clone().unwrap_or_default())
    }

    /// Goes on after `key`; from the front if there was none any more.
    pub(crate) fn go_on(&self, key: Option<Vec<u8>>) {
        self.change(|last| *last = Some(key.unwrap_or_default()));
    }

    fn change<A>(&self, change: impl FnOnce(&mut Option<Vec<u8>>) -> A) -> A {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
