//! The program `tollgate`: tests limits on access logs, and inspects limits on live servers.
//!
//! Imports point one way, from the commands down: `commands`, `report`, `decisions`, `input`; and for
//! live servers `commands`, `verdict`, `subject`, `doubt`, `store`. Each command has a file or a folder in `commands`, and
//! none uses another. A folder's `mod.rs` imports its files, and no file imports the `mod.rs` above it.

mod change;
mod commands;
mod decisions;
mod doubt;
mod failure;
mod file;
mod input;
mod lanes;
mod limits;
mod output;
mod progress;
mod report;
mod secrets;
mod signals;
mod store;
mod subject;
mod text;
mod time;
mod trace;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let output = Output::new();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(output.explain(&error)),
    };
    match commands::run(&cli, &output) {
        Ok(status) => status,
        // The reader has seen enough, as in `tollgate ... | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output.complain(&failure);
            ExitCode::from(failure.exit_status())
        }
    }
}
