//! The text syntax of a sliding counter.

use std::fmt;

use super::SlidingCounter;
use crate::algorithm::{Forms, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for SlidingCounter {
    const OPTIONS: Forms = &[];

    fn read(quota: Quota, _: &str, _options: &Options<'_>) -> Result<Self, LimitError> {
        Self::new(quota)
    }

    fn write(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
