//! The text syntax of GCRA.

use std::fmt;

use super::Gcra;
use crate::algorithm::{Machine, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for Gcra {
    const OPTIONS: &'static [(&'static str, bool)] = &[("burst", true)];

    fn read(quota: Quota, options: &Options<'_>) -> Result<Self, LimitError> {
        match options.number("burst") {
            Some(burst) => Self::with_burst(quota, burst),
            None => Self::new(quota),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.burst() == self.quota().amount() {
            return Ok(());
        }
        write!(f, ",burst={}", self.burst())
    }
}
