//! What a backend author brings: a way to make stores, and keys that nobody else uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Key, Store};

/// How many histories each promise is checked on, unless something else is said.
pub(crate) const HISTORIES: u32 = 64;
/// The variable that says something else.
const CASES: &str = "TOLLGATE_CONFORMANCE_CASES";

/// Builds isolated stores for the suite.
///
/// # Examples
///
/// See the [crate] for a whole one.
pub trait Harness: Send + Sync {
    /// Returns a store that shares no key with any other.
    ///
    /// # Behavior
    ///
    /// - It is called once for each history, several hundred times in one run, from runtimes that
    ///   come and go: share a connection only if it outlives the runtime that opened it.
    /// - Stores MAY share a server, since every key of the suite is [fresh](fresh_key).
    /// - Where the server is absent it MUST panic with the command that installs it: a suite that
    ///   cannot run fails.
    fn store(&self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Returns how many histories each promise is checked on, 64 unless overridden;
    /// `TOLLGATE_CONFORMANCE_CASES` comes before both.
    ///
    /// Fewer do for code that is also checked on as many elsewhere, on another version of its
    /// server for example.
    fn histories(&self) -> u32 {
        HISTORIES
    }

    /// Returns whether `promise`, such as `gcra.never_over_admits`, asks anything that the stores
    /// support; nothing unless overridden.
    ///
    /// Where that is said, the suite fails unless it is so: no promise then passes because nothing
    /// of it was put to the test.
    fn applies(&self, promise: &str) -> Option<bool> {
        let _ = promise;
        None
    }
}

#[doc(hidden)]
#[must_use]
pub fn __histories(harness: &impl Harness) -> u32 {
    let said = std::env::var(CASES).ok();
    said.and_then(|cases| cases.parse().ok())
        .unwrap_or_else(|| harness.histories())
}

/// Returns a key that no other case, process or run uses: `stem`, process, time and a counter.
///
/// # Examples
///
/// ```
/// use tollgate_conformance::fresh_key;
///
/// assert_ne!(fresh_key("alice"), fresh_key("alice"));
/// ```
#[must_use]
pub fn fresh_key(stem: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.map_or(0, |since| since.as_micros());
    format!("{stem}-{}-{micros}-{count}", std::process::id())
}

/// A key that owns its bytes.
#[derive(Clone, Debug)]
pub(crate) struct OwnedKey {
    pub(crate) partition: Vec<u8>,
    pub(crate) rest: Vec<u8>,
}

impl OwnedKey {
    /// Returns a fresh key that is its own partition.
    pub(crate) fn fresh(stem: &str) -> Self {
        Self::of(fresh_key(stem), "")
    }

    /// Returns the key of `partition` and `rest`.
    pub(crate) fn of(partition: impl Into<Vec<u8>>, rest: impl Into<Vec<u8>>) -> Self {
        Self {
            partition: partition.into(),
            rest: rest.into(),
        }
    }

    pub(crate) fn key(&self) -> Key<'_> {
        Key::new(&self.partition).with_rest(&self.rest)
    }
}
