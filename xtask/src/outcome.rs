//! `Outcome`: the result of a command, and how findings are printed.

use std::error::Error;

/// The result of a command.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Prints `findings`, one per line, and fails; without any, prints that `what` is in order.
pub(crate) fn report(what: &str, findings: &[String]) -> Outcome {
    if findings.is_empty() {
        println!("{what}: in order");
        return Ok(());
    }
    for finding in findings {
        println!("{what}: {finding}");
    }
    Err(format!("{} to mend", findings.len()).into())
}
