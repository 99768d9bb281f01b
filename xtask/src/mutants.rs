//! `cargo xtask mutants`: runs the mutation tester, which is a package of its own so that nothing else
//! waits until it is built.

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;

/// What to pass on.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Arguments for the tester.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    rest: Vec<String>,
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let rest = &arguments.rest;
    let tester = cmd!(
        shell,
        "cargo run --quiet --package xtask-mutants -- {rest...}"
    );
    Ok(tester.quiet().run()?)
}
