//! What other crates of this workspace need beside the public API. Not part of it: this may change in any
//! version, so they depend on exactly one.

pub use crate::late::answered;
pub use crate::random::random;
