//! Locks that a panic does not close for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`: nothing panics while it holds one, but if it did, what is within would still be
/// whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
