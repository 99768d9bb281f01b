//! `Companion`: what another crate keeps for a limiter.

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::key::Key;

/// What another crate keeps for a limiter and all of its clones.
pub trait Companion: Any + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Something was given back to `key` through the limiter: by a refund, a settlement, a reset, or
    /// the release of a lease.
    fn given_back(&self, key: Key<'_>);
}
