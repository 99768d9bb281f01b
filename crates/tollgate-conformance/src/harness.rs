//! `Harness`: what a backend author implements to run the suite, and keys that no other test uses.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Key, Store};

/// The default number of histories per promise.
pub(crate) const HISTORIES: u32 = 64;
/// The environment variable that overrides it.
const CASES: &str = "TOLLGATE_CONFORMANCE_CASES";

/// Creates the stores that the suite checks.
///
/// # Examples
///
/// See the [crate] for a complete one.
pub trait Harness: Send + Sync {
    /// Returns a store that shares no key with any other.
    ///
    /// # Behavior
    ///
    /// - The suite calls this once for each history, several hundred times per run, from runtimes
    ///   that come and go: share a connection only if it outlives the runtime that opened it.
    /// - Stores MAY share a server, because every key of the suite is [fresh](fresh_key).
    /// - If the server is missing, this MUST panic with the command that installs it, so that a
    ///   suite that cannot run fails.
    fn store(&self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Returns the number of histories per promise: 64 unless overridden.
    /// `TOLLGATE_CONFORMANCE_CASES` overrides both.
    ///
    /// Return fewer if other tests check the same code on 64 histories, for example on another
    /// server version.
    fn histories(&self) -> u32 {
        HISTORIES
    }

    /// Returns whether `promise`, such as `gcra.never_over_admits`, needs anything that the stores
    /// support. The default is `None`: unspecified.
    ///
    /// If you return `Some`, the suite fails when it is wrong, so a promise cannot pass unnoticed
    /// because the store supports nothing of it.
    fn applies(&self, promise: &str) -> Option<bool> {
        let _ = promise;
        None
    }
}

/// Makes stores of the kind `S`. Every harness does, so that the promises are compiled once, and not
/// for each type of harness again.
pub trait Source<S: ?Sized>: Send + Sync {
    /// Returns a store that shares no key with any other.
    fn store<'a>(&'a self) -> Pin<Box<dyn Future<Output = Arc<S>> + Send + 'a>>;

    /// Returns the number of histories per promise; see [`Harness::histories`].
    fn histories(&self) -> u32;

    /// Returns whether `promise` applies to the stores; see [`Harness::applies`].
    fn applies(&self, promise: &str) -> Option<bool> {
        let _ = promise;
        None
    }
}

/// A [`Harness`] of any type.
pub type Stores = dyn Source<dyn Store>;

impl<H: Harness> Source<dyn Store> for H {
    fn store<'a>(&'a self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + 'a>> {
        Box::pin(Harness::store(self))
    }

    fn histories(&self) -> u32 {
        Harness::histories(self)
    }

    fn applies(&self, promise: &str) -> Option<bool> {
        Harness::applies(self, promise)
    }
}

/// Returns the number of histories that the environment asks for.
pub(crate) fn cases() -> Option<u32> {
    std::env::var(CASES).ok()?.parse().ok()
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
    /// Returns a fresh key that consists of a partition only.
    pub(crate) fn fresh(stem: &str) -> Self {
        Self::of(fresh_key(stem), "")
    }

    /// Returns a key with `partition` and `rest`.
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
