//! The messages of tests that a mock fails.

use std::fmt::{self, Write};

use tollgate_core::Timestamp;

use super::expected::{Listed, Standing};
use super::received::{ReceivedCall, Verb, joined, literal};

/// Returns the message for an unexpected call: the call, all expectations, and what to add to the
/// test.
pub(super) fn unexpected(
    expected: &[&dyn Listed],
    received: &ReceivedCall<'_>,
    standings: &[Standing],
) -> String {
    let lines = standings.iter().enumerate();
    let lines = lines.map(|(index, standing)| format!("{}: {standing}", received.line(index)));
    unexpected_call(
        &received.verb,
        received.at,
        lines,
        expected,
        &advice(received, standings),
    )
}

/// Returns the message for an unexpected call, which `lines` describe.
pub(super) fn unexpected_call(
    verb: &dyn fmt::Display,
    at: Option<Timestamp>,
    lines: impl IntoIterator<Item = String>,
    expected: &[&dyn Listed],
    advice: &str,
) -> String {
    let mut text = format!("unexpected {verb}");
    if let Some(at) = at {
        text += &format!(" at the caller's instant {at}");
    }
    text += ":";
    for line in lines {
        text += &format!("\n  {line}");
    }
    text += "\nexpected calls:";
    if expected.is_empty() {
        text += " none";
    }
    for expected in expected {
        text += &format!("\n  {expected}");
    }
    text + "\n" + advice
}

/// Returns how to expect the call, using the first limit that refused it.
fn advice(received: &ReceivedCall<'_>, standings: &[Standing]) -> String {
    let refused = |standing: &Standing| matches!(standing, Standing::OtherCost | Standing::UsedUp);
    let index = standings.iter().position(refused).unwrap_or(0);
    let check = &received.checks[index];
    let (verb, limit) = (received.verb, check.limit().name());
    let key = literal(&joined(check.key()));
    let mut call = format!("store.expect_{verb}(\"{limit}\", {key})");
    let what = match standings[index] {
        Standing::OtherCost => {
            let cost = received.cost(index).unwrap_or_default();
            call += &format!(".cost({cost})");
            "this cost, add"
        }
        Standing::UsedUp => "another call, raise `.times(..)`, or add",
        Standing::Expected(_) | Standing::NotNamed => "this call, add",
    };
    let answer = match verb {
        Verb::Block | Verb::Reset => "succeed",
        _ => "allow",
    };
    format!("to expect {what} `{call}` with an answer, such as `.{answer}()`")
}

/// Panics unless every expectation is met; `when` completes the message "before ...".
pub(super) fn assert_all_met(expected: &[&dyn Listed], when: &str) {
    if expected.iter().all(|expected| expected.is_met()) {
        return;
    }
    let lines = expected.iter().fold(String::new(), |mut lines, expected| {
        let unmet = if expected.is_met() { "" } else { ", too few" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(lines, "  {expected}{unmet}");
        lines
    });
    panic!(
        "not every expected call was made before {when}:\n{lines}\
         if fewer calls are right, say so with `.times(..)`, or remove the expectation"
    );
}
