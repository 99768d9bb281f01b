//! `Fields`, `BadLine` and `Stopped`: what a line of a file of messages holds, or why it is not read.

use std::io;

use crate::text::{printable, shortened};

/// How much of a wrong value an error shows.
const SHOWN: usize = 60;

/// The text of a message's fields, and its line.
pub(super) struct Fields<'a> {
    pub(super) line: u64,
    pub(super) key: &'a str,
    pub(super) id: &'a str,
    pub(super) time: &'a str,
    /// The recipient's time zone, or nothing.
    pub(super) zone: &'a str,
}

/// A line that is not a message, and why.
pub(super) struct BadLine {
    pub(super) line: u64,
    pub(super) reason: String,
}

impl BadLine {
    /// Returns the error about a record that begins on `line`; `hint` says what to do.
    pub(super) fn too_long(line: u64, hint: &str) -> Self {
        let reason = format!("the record is longer than 1 MiB: {hint}");
        Self { line, reason }
    }
}

/// Why a file was not read to its end.
pub(super) enum Stopped {
    Bad(BadLine),
    Unreadable(io::Error),
}

impl From<BadLine> for Stopped {
    fn from(bad: BadLine) -> Self {
        Self::Bad(bad)
    }
}

/// Returns the start of a wrong value, for an error message.
pub(super) fn shown(text: &str) -> String {
    shortened(&printable(text.as_bytes()), SHOWN)
}
