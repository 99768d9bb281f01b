//! The text syntax of GCRA.

use std::fmt;

use super::Gcra;
use crate::algorithm::{Forms, Machine, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for Gcra {
    const OPTIONS: Forms = &[("burst", "NUMBER")];

    fn read(quota: Quota, _: &str, options: &Options<'_>) -> Result<Self, LimitError> {
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
