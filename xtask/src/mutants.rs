//! `cargo xtask mutants`: runs the mutation tester, which is a workspace of its own so that nothing else waits
//! until it is built.

use clap::Args;
use xshell::{Cmd, Shell, cmd};

use crate::outcome::Outcome;
use crate::servers;

/// What to pass on.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Tries the changes whose description contains one of these texts; all, without any.
    filters: Vec<String>,
}

/// Returns the command that runs the tester's own tests: among others, that its lists are about the code as it is.
pub(crate) fn tests(shell: &Shell) -> Cmd<'_> {
    let target = servers::target(shell).join("mutants/tool");
    cmd!(
        shell,
        "cargo test --manifest-path xtask/mutants/Cargo.toml --target-dir {target} --locked"
    )
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
