//! The messages of tests that a mock fails.

use std::fmt::Write;

use super::expected::{Expected, Standing};
use super::limit::{Received, joined, literal};

/// Returns the message for an unexpected call: the call, all expectations, and what to add to the
/// test.
pub(super) fn unexpected(
    expected: &[Expected],
    received: &Received<'_>,
    standings: &[Standing],
) -> String {
    let advice = advice(expected, received, standings);
    listed(expected, received, standings, "expected") + "\n" + &advice
}

/// Returns the message for a call that other calls of its sequence must precede.
pub(super) fn early(
    expected: &[Expected],
    received: &Received<'_>,
    standings: &[Standing],
) -> String {
    let standing = "expected after other calls of its sequence";
    listed(expected, received, standings, standing)
}

/// Returns the call and all expectations; `standing` says how a part is that one of them answers.
fn listed(
    expected: &[Expected],
    received: &Received<'_>,
    standings: &[Standing],
    standing: &str,
) -> String {
    let verb = received.verb;
    let mut text = format!("unexpected {verb}");
    if let Some(at) = received.at {
        text += &format!(" at the caller's instant {at}");
    }
    text += ":";
    for (part, of) in received.parts.iter().zip(standings) {
        let standing = match of {
            Standing::Expected(_) => standing,
            Standing::NotNamed => "no expectation names this limit and key",
            Standing::OtherCost => "expected at another cost only",
            Standing::UsedUp => "every expectation that fits has had all its calls",
        };
        text += &format!("\n  {}: {standing}", part.line);
    }
    text += "\nexpected calls:";
    if expected.is_empty() {
        text += " none";
    }
    for expected in expected {
        text += &format!("\n  {expected}");
    }
    text
}

/// Returns how to expect the call, using the first part that refused it.
fn advice(expected: &[Expected], received: &Received<'_>, standings: &[Standing]) -> String {
    let refused = standings.iter().position(|standing| standing.refuses());
    let index = refused.unwrap_or(0);
    let (verb, check) = (received.verb, &received.parts[index].check);
    let (name, key) = (check.limit().name(), literal(&joined(check.key())));
    let mut call = format!("store.{}(\"{name}\", {key})", verb.method());
    let what = match standings[index] {
        Standing::OtherCost => {
            call += &format!(".cost({})", check.cost());
            "this cost, add"
        }
        Standing::UsedUp => "another call, raise `.times(..)`, or add",
        Standing::NotNamed if expected.iter().any(|of| of.call.is_about(verb, check)) => {
            "this call, accept its key where its limit is expected, or add"
        }
        Standing::Expected(_) | Standing::NotNamed => "this call, add",
    };
    let answers = verb.listed_answers();
    format!("to expect {what} `{call}` with an answer: {answers}")
}

/// Panics unless every expectation is met; `when` completes the message "before ...".
pub(super) fn assert_all_met(expected: &[Expected], when: &str) {
    if expected.iter().all(Expected::is_met) {
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
