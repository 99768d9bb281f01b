//! `cargo xtask mutants`: runs the mutation tester, which is a workspace of its own so that nothing else waits
//! until it is built.

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;
use crate::servers;

/// What to pass on.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Tries the changes whose description contains one of these texts; all, without any.
    filters: Vec<String>,
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let filters = &arguments.filters;
    let target = servers::target(shell).join("mutants/tool");
    let tester = cmd!(
        shell,
        "cargo run --quiet --manifest-path xtask/mutants/Cargo.toml --target-dir {target} -- {filters...}"
    );
    Ok(tester.quiet().run()?)
}
