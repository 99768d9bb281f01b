//! The program `tollgate`: what would a limit have done to yesterday's traffic?

mod cli;
mod compare;
mod demo;
mod failure;
mod input;
mod key;
mod output;
mod progress;
mod replay;
mod report;
mod summary;
mod text;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new();
    let done = match &cli.command {
        Command::Demo(options) => demo::run(options, &output),
        Command::Replay(options) => replay::run(options, &output),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough, as with `tollgate ... | head`.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output.complain(&failure);
            ExitCode::from(failure::EXIT_STATUS)
        }
    }
}
