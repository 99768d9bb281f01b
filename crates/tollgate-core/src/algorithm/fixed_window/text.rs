//! The text syntax of a fixed window.

use std::fmt;

use super::FixedWindow;
use crate::algorithm::{Forms, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for FixedWindow {
    const OPTIONS: Forms = &[("anchored", ""), ("count-denied", "")];

    fn read(quota: Quota, _: &str, options: &Options<'_>) -> Result<Self, LimitError> {
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
