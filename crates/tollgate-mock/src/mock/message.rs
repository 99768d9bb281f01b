//! The messages of tests that a mock fails.

use std::fmt::Write;

use super::expected::{Expected, Standing};
use super::received::{Received, literal};

/// Returns the message for an unexpected call: the call, all expectations, and what to add to the
/// test.
pub(super) fn unexpected(
    expected: &[Expected],
    received: &Received<'_>,
    standings: &[Standing],
) -> String {
    let verb = received.verb;
    let mut text = format!("unexpected {verb}");
    if let Some(at) = received.at {
        text += &format!(" at the caller's instant {at}");
    }
    text += ":";
    for (part, standing) in received.parts.iter().zip(standings) {
        let line = &part.line;
        text += &match standing {
            Standing::Expected(_) => format!("\n  {line}: expected"),
            Standing::NotNamed => {
                let this = verb.subject().this;
                format!("\n  {line}: no expectation names {this} and key")
            }
            Standing::Other => format!("\n  {line}: expected {} only", verb.subject().other),
            Standing::UsedUp => {
                format!("\n  {line}: every expectation that fits has had all its calls")
            }
        };
    }
    text += "\nexpected calls:";
    if expected.is_empty() {
        text += " none";
    }
    for expected in expected {
        text += &format!("\n  {expected}");
    }
    text + "\n" + &advice(received, standings)
}

/// Returns how to expect the call, using the first part that refused it.
fn advice(received: &Received<'_>, standings: &[Standing]) -> String {
    let refused = standings.iter().position(|standing| standing.refuses());
    let index = refused.unwrap_or(0);
    let (verb, part) = (received.verb, &received.parts[index]);
    let (method, name, key) = (verb.method(), part.name, literal(&part.key));
    let mut call = format!("store.{method}(\"{name}\", {key})");
    let what = match standings[index] {
        Standing::Other => {
            let detail = part.details.first().copied().unwrap_or_default();
            let (only, what) = match (detail.cost, detail.id) {
                (Some(cost), _) => (format!(".cost({cost})"), "this cost, add"),
                (None, Some(id)) => (format!(".id({})", literal(id)), "this, add"),
                (None, None) => (".time(..)".to_owned(), "this, add"),
            };
            call += &only;
            what
        }
        Standing::UsedUp => "another call, raise `.times(..)`, or add",
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
