//! Input files, plain or gzip, and standard input.

mod content;
mod source;

pub(crate) use content::{NotText, has_bare_returns, unreadable};
pub(crate) use source::{Source, is_read_from, is_standard_input};
