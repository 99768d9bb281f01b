//! `Outcome`: the result of a command, and how findings are printed; and `Record`, the option of some.

use std::error::Error;

use clap::Args;

/// The result of a command.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Whether to compare what is found with what is recorded, or to record it.
#[derive(Args, Debug, Default)]
pub(crate) struct Record {
    /// Records what is found, instead of comparing it with what is recorded.
    #[arg(long)]
    pub(crate) write: bool,
}

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
