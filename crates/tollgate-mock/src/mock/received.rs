//! `Received`: a call that the code under test makes, and how messages describe it.

use std::fmt;
use std::str;

use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};

use super::answer::Answer;
use super::operation::Verb;

/// A call of a store: one operation on one or more limits, on a schedule, or on leases.
pub(super) struct Received<'r> {
    pub(super) verb: Verb,
    pub(super) at: Option<Timestamp>,
    pub(super) parts: Vec<Part<'r>>,
}

/// One limit of a call, or its schedule or leases, and the key.
pub(super) struct Part<'r> {
    pub(super) name: &'r str,
    /// Both parts of the key, concatenated, as an expectation names it.
    pub(super) key: Vec<u8>,
    /// What an expectation may be narrowed to, once for each event that the call is about.
    pub(super) details: Vec<Detail<'r>>,
    /// The line of a message that describes it.
    pub(super) line: String,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Detail<'r> {
    pub(super) cost: Option<u64>,
    pub(super) id: Option<&'r [u8]>,
    pub(super) time: Option<Timestamp>,
}

impl<'r> Received<'r> {
    /// Returns a call on the schedule or the leases called `name`; in messages, `more` follows the
    /// key.
    pub(super) fn of_one(
        (verb, at): (Verb, Option<Timestamp>),
        name: &'r str,
        key: Key<'_>,
        details: Vec<Detail<'r>>,
        more: &str,
    ) -> Self {
        let parts = vec![Part::new(verb, (name, &name), key, details, more)];
        Self { verb, at, parts }
    }

    /// Returns a reset of the schedule or the leases called `name`.
    pub(super) fn reset(verb: Verb, name: &'r str, key: Key<'_>) -> Self {
        Self::of_one((verb, None), name, key, vec![Detail::default()], "")
    }

    /// Fails the test because no store gives `answer` to the part at `index`, and says `why`.
    pub(super) fn refuse(&self, index: usize, answer: &Answer, why: &str) -> ! {
        let (verb, line, text) = (self.verb, &self.parts[index].line, &answer.text);
        panic!("no store answers `{text}` to this {verb}:\n  {line}\n{why}")
    }
}

impl<'r> Part<'r> {
    /// Returns a part of a call; in messages it is called `shown`, and `more` follows its key.
    pub(super) fn new(
        verb: Verb,
        (name, shown): (&'r str, &dyn fmt::Display),
        key: Key<'_>,
        details: Vec<Detail<'r>>,
        more: &str,
    ) -> Self {
        let partition = key.partition();
        let rest = match key.rest() {
            [] => String::new(),
            rest => format!(" with rest {}", literal(rest)),
        };
        let (noun, first) = (verb.subject().noun, literal(&partition));
        Self {
            name,
            key: [&*partition, key.rest()].concat(),
            details,
            line: format!("{noun} `{shown}` for key {first}{rest}{more}"),
        }
    }
}

/// Returns the error for an operation that is newer than the mock.
pub(super) fn unsupported() -> StoreError {
    let message = "the mock does not know this operation: wrap another store";
    StoreError::new(ErrorKind::Unsupported, message)
}

/// Returns `bytes` as a Rust literal: a string if they are UTF-8.
pub(super) fn literal(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => format!("{text:?}"),
        Err(_) => format!("b\"{}\"", bytes.escape_ascii()),
    }
}
