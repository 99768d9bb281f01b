//! The text syntax of a block.

use std::fmt;

use super::Block;
use crate::algorithm::{Forms, Options, Written};
use crate::error::LimitError;
use crate::quota::Quota;
use crate::text::Reader;

impl Written for Block {
    const OPTIONS: Forms = &[("doublings", "NUMBER")];
    const EXPECTED_QUOTA: &'static str = "`:` and how long a block lasts, such as `:5m`";

    /// Reads how long a block lasts.
    fn read_quota(reader: &mut Reader<'_>) -> Result<Quota, LimitError> {
        Quota::read_time(reader)
    }

    fn write_quota(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota.write_window(f)
    }

    fn read(quota: Quota, _: &str, options: &Options<'_>) -> Result<Self, LimitError> {
        let block = Self::of(quota);
        match options.number("doublings") {
            Some(doublings) => block.doubling(doublings),
            None => Ok(block),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.doublings {
            0 => Ok(()),
            doublings => write!(f, ",doublings={doublings}"),
        }
    }
}
