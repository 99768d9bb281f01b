//! `Marks`: the versions that a process gives rows, by which it finds its changes again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use tollgate_tokio::inside::random;

/// The versions of one process: 31 bits that no other process has, and a number.
pub(crate) struct Marks {
    process: u64,
    next: AtomicU32,
    /// Those that were sent, and that may still be looked for.
    sent: Mutex<HashSet<u64>>,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Self {
            process: random() >> 33,
            next: AtomicU32::new(0),
            sent: Mutex::default(),
        }
    }

    /// Returns a version that no row has had.
    pub(crate) fn send(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let version = self.process << 32 | u64::from(number);
        self.change(|sent| sent.insert(version));
        version
    }

    /// Forgets a version that is no longer looked for.
    pub(crate) fn forget(&self, version: u64) {
        self.change(|sent| sent.remove(&version));
    }

    /// Returns whether nobody looks for this version, because this process made it and knows what became of it.
    pub(crate) fn is_known(&self, version: u64) -> bool {
        version >> 32 == self.process && !self.change(|sent| sent.contains(&version))
    }

    fn change<A>(&self, change: impl FnOnce(&mut HashSet<u64>) -> A) -> A {
        change(&mut self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
