//! `lock`: locks a mutex even if it is poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex` even if it is poisoned: nothing panics while it holds one, and if it did, the
/// value would still be consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
