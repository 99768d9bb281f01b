//! The text syntax of a fixed window.

use std::fmt;

use super::FixedWindow;
use crate::algorithm::{Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for FixedWindow {
    const OPTIONS: &'static [(&'static str, bool)] =
        &[("anchored", false), ("count-denied", false)];

    fn read(quota: Quota, options: &Options<'_>) -> Result<Self, LimitError> {
        let window = if options.has("anchored") {
            Self::anchored(quota)
        } else {
            Self::aligned(quota)
        };
        Ok(if options.has("count-denied") {
            window.count_denied()
        } else {
            window
        })
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.anchored { ",anchored" } else { "" })?;
        f.write_str(if self.count_denied {
            ",count-denied"
        } else {
            ""
        })
    }
}
