//! The text syntax of a sliding log.

use std::fmt;

use super::SlidingLog;
use crate::algorithm::{Forms, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for SlidingLog {
    const OPTIONS: Forms = &[("count-denied", "")];

    fn read(quota: Quota, _: &str, options: &Options<'_>) -> Result<Self, LimitError> {
        let log = Self::new(quota)?;
        Ok(if options.has("count-denied") {
            log.count_denied()
        } else {
            log
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.count_denied {
            ",count-denied"
        } else {
            ""
        })
    }
}
