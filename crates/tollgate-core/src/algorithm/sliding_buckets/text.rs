//! The text syntax of sliding buckets.

use std::fmt;

use super::SlidingBuckets;
use crate::algorithm::{Forms, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;

impl Written for SlidingBuckets {
    const OPTIONS: Forms = &[("buckets", "NUMBER")];

    fn read(quota: Quota, _: &str, options: &Options<'_>) -> Result<Self, LimitError> {
        let buckets = options
            .number("buckets")
            .ok_or_else(|| options.missing("`,buckets=NUMBER`, such as `,buckets=12`"))?;
        Self::new(quota, buckets)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ",buckets={}", self.buckets())
    }
}
