//! The project's commands.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "these commands talk to whoever runs them"
)]

mod bench;
mod ci;
mod features;
mod fuzz;
mod instructions;
mod layers;
mod lint;
mod mutants;
mod names;
mod outcome;
mod project;
mod readme;
mod release;
mod results;
mod servers;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::outcome::{Outcome, Record};

/// The project's commands. Only `mutants` (its list and date), `pictures`, `charts`, and `instructions` and
/// `names` with `--write` change committed files.
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
    /// Writes the tables of what `cargo bench` measured last into `docs/benchmarks.md`, and draws their charts.
    Charts,
    /// Runs the checks that must pass, after `test`, before a change lands: lints, the oldest compiler, licences, every
    /// test on every server, every benchmark once, and instruction counts. Or runs the steps that are named.
    Ci(ci::Arguments),
    /// Runs the fuzz targets of `xtask/fuzz`, each for a while.
    Fuzz(fuzz::Arguments),
    /// Counts the instructions of decisions in memory, with valgrind, and checks that they take no more
    /// than is recorded.
    Instructions(Record),
    /// Checks which crates depend on which.
    Layers,
    /// Checks formatting, lints, documentation, dependencies between crates, and tidiness.
    Lint,
    /// Breaks a copy of the scripts in Lua and of the code, one change at a time, and checks that a test fails
    /// each time.
    Mutants(mutants::Arguments),
    /// Compares the public names of the published crates with the list in `docs/public-names.txt`.
    Names(Record),
    /// Draws the pictures of the algorithms, and the charts of what was measured last.
    Pictures(results::Arguments),
    /// Checks that the crates can be published, which a person then does.
    Release(release::Arguments),
    /// Fetches the servers for tests, other than the system's own, and installs the other programs that
    /// tests run, such as nginx, if that is permitted.
    Servers,
    /// Runs the tests of the limiter, including the examples of the documents; installs `redis-server`
    /// first if it is missing and that is permitted.
    Test(test::Arguments),
    /// Checks file heads, links, and the compiler that the README names.
    Tidy,
}

/// Runs the command that the program's arguments select.
pub fn run() -> ExitCode {
    end(
        project::shell().and_then(|shell| match Arguments::parse().command {
            Command::Bench(arguments) => bench::run(&shell, &arguments),
            Command::Charts => results::charts(&shell),
            Command::Ci(arguments) => ci::run(&shell, &arguments),
            Command::Fuzz(arguments) => fuzz::run(&shell, &arguments),
            Command::Instructions(arguments) => instructions::run(&shell, &arguments),
            Command::Layers => layers::run(&shell),
            Command::Lint => lint::run(&shell),
            Command::Mutants(arguments) => mutants::run(&shell, &arguments),
            Command::Names(arguments) => names::run(&shell, &arguments),
            Command::Pictures(arguments) => results::draw(&shell, &arguments),
            Command::Release(arguments) => release::run(&shell, &arguments),
            Command::Servers => servers::run(&shell),
            Command::Test(arguments) => test::run(&shell, &arguments),
            Command::Tidy => tidy::run(&shell),
        }),
    )
}

/// Prints the error of a command that failed, and returns the exit code of the program.
fn end(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
