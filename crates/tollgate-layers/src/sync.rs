//! What threads share, or, with the feature `__shuttle`, what shows every order in which they may take turns.

use std::ops::DerefMut;
use std::sync::PoisonError;

#[cfg(not(feature = "__shuttle"))]
pub(crate) use std::sync::Mutex;
#[cfg(all(not(feature = "__shuttle"), feature = "limits"))]
pub(crate) use std::sync::MutexGuard;
#[cfg(not(feature = "__shuttle"))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "__shuttle")]
pub(crate) use shuttle::sync::Mutex;
#[cfg(all(feature = "__shuttle", feature = "limits"))]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(feature = "__shuttle")]
pub(crate) use shuttle::sync::atomic::{AtomicU64, Ordering};

/// What threads share is slow where each order of their turns is tried.
pub(crate) const FEW: bool = cfg!(feature = "__shuttle");

pub(crate) fn lock<T>(of: &Mutex<T>) -> impl DerefMut<Target = T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where another thread may take over, beside what the above does: around what is shared in a crate
/// that does not know of this.
#[inline(always)]
pub(crate) fn may_take_over() {
    #[cfg(feature = "__shuttle")]
    shuttle::thread::yield_now();
}
