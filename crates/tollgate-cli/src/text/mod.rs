//! Formats numbers, times and tables for people.

mod number;
mod shown;
mod table;
mod time;

pub(crate) use number::{grouped, is_zero, noun, plural, share, times};
pub(crate) use shown::{
    LONGEST_SHOWN, Short, bullets, json, listed, printable, printable_lines, readable, shortened,
};
pub(crate) use table::Table;
pub(crate) use time::{
    Span, exact, instant, local, micros, named, rfc3339, times_in, utc_second, wait, zoned,
};
