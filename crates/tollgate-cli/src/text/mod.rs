//! Formats numbers, times and tables for people.

mod number;
mod shown;
mod table;
mod time;

pub(crate) use number::{Grouped, Share, Times, noun, plural};
pub(crate) use shown::{LONGEST_SHOWN, Short, json, printable, readable, shortened};
pub(crate) use table::Table;
pub(crate) use time::{Span, local, micros, rfc3339, utc, utc_second, wait};
