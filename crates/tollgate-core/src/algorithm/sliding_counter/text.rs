//! The text syntax of a sliding counter.

use std::fmt;

use super::SlidingCounter;
use crate::algorithm::{Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for SlidingCounter {
    const OPTIONS: &'static [(&'static str, bool)] = &[];

    fn read(quota: Quota, _options: &Options<'_>) -> Result<Self, LimitError> {
        Self::new(quota)
    }

    fn write(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
