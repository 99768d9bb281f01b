//! The commands of the project, as a library so that the examples of its documents are tested.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these commands talk to whoever runs them"
)]

mod bench;
mod ci;
mod layers;
mod lint;
mod mutants;
mod pictures;
mod project;
mod replay;
mod servers;
mod test;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The commands of the project; of what is committed, `pictures` alone writes any.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the benchmarks.
    Bench(bench::Arguments),
    /// Checks all that must hold before a change lands: lints, the oldest compiler, licences, every
    /// benchmark once, and every test on every server.
    Ci,
    /// Checks which crate depends on which.
    Layers,
    /// Checks formatting, lints, documentation, layers and tidiness.
    Lint,
    /// Breaks a copy of the code in many small ways, each of which some test must notice.
    Mutants(mutants::Arguments),
    /// Draws the pictures of the algorithms.
    Pictures(pictures::Arguments),
    /// Fetches the servers that the tests run against, beside the system's own.
    Servers,
    /// Runs every test of the workspace, examples in documentation included, after it has made sure
    /// of the server; installs `redis-server` if it is missing and that is allowed.
    Test(test::Arguments),
    /// Checks what no compiler checks: file heads, folders, promises, links.
    Tidy,
}

/// Runs the command that the program's arguments name.
pub fn run() -> ExitCode {
    let outcome = project::shell().and_then(|shell| match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&shell, &arguments),
        Command::Ci => ci::run(&shell),
        Command::Layers => layers::run(&shell),
        Command::Lint => lint::run(&shell),
        Command::Mutants(arguments) => mutants::run(&shell, &arguments),
        Command::Pictures(arguments) => pictures::run(&shell, &arguments),
        Command::Servers => servers::run(&shell),
        Command::Test(arguments) => test::run(&shell, &arguments),
        Command::Tidy => tidy::run(&shell),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What a command ends in.
type Outcome = Result<(), Box<dyn Error>>;

/// Fails with `findings`, one a line, or says that `what` is in order.
fn report(what: &str, findings: &[String]) -> Outcome {
    if findings.is_empty() {
        println!("{what}: in order");
        return Ok(());
    }
    for finding in findings {
        println!("{what}: {finding}");
    }
    Err(format!("{} to mend", findings.len()).into())
}

/// The documents whose examples are compiled and run.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;

    #[doc = include_str!("../../docs/algorithms.md")]
    struct Algorithms;

    #[doc = include_str!("../../docs/architecture.md")]
    struct Architecture;
}
