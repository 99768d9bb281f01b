//! `cargo xtask bench`: runs the benchmarks in `benches/`.

use clap::Args;
use xshell::{Cmd, Shell, cmd};

use crate::outcome::Outcome;
use crate::project::{PEERS, tools};
use crate::servers;

/// Which benchmarks to run, and how.
#[derive(Args, Debug, Default)]
pub(crate) struct Arguments {
    /// Runs every benchmark of criterion once, including those on a server, to check that it works; installs
    /// `redis-server` if it is missing and that is permitted.
    #[arg(long, group = "which")]
    test: bool,
    /// Measures the processor time of servers instead; an argument selects rows, such as `gcra`, and `--help`
    /// after it lists more options.
    #[arg(long, group = "which")]
    servers: bool,
    /// Measures units ahead instead, next to calls that each ask the server; an argument selects a table,
    /// such as `hot`.
    #[arg(long, group = "which")]
    prefetch: bool,
    /// Counts what other rate limiters admit instead, next to the most that they should.
    #[arg(long, group = "which")]
    peers: bool,
    /// Arguments for criterion, such as a filter or `--save-baseline NAME`.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    rest: Vec<String>,
}

impl Arguments {
    /// Returns the arguments that run every benchmark once.
    pub(crate) fn once() -> Self {
        Self {
            test: true,
            ..Self::default()
        }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let rest: Vec<&str> = arguments.rest.iter().map(String::as_str).collect();
    servers::ensure_system(shell)?;
    let command = if arguments.test {
        // Only that they work matters. They are built for the packages that are tested together, because cargo builds
        // much of it a second time for one package alone.
        let packages = tools("--package");
        cmd!(
            shell,
            "cargo bench --profile dev {packages...} --features tollgate-benches/sql --bench stores -- --test {rest...}"
        )
    } else if arguments.peers {
        let target = servers::target(shell);
        cmd!(
            shell,
            "cargo run --release --quiet --locked --manifest-path {PEERS}/Cargo.toml --target-dir {target} -- {rest...}"
        )
    } else if arguments.servers {
        servers::fetch(shell)?;
        measure(shell, "servers", &rest).env("TOLLGATE_EVERY_SERVER", "1")
    } else if arguments.prefetch {
        measure(shell, "prefetch", &rest)
    } else {
        cmd!(shell, "cargo bench --package tollgate-benches -- {rest...}")
    };
    Ok(command.run()?)
}

/// Returns the command for what criterion does not measure.
fn measure<'s>(shell: &'s Shell, table: &str, rest: &[&str]) -> Cmd<'s> {
    cmd!(
        shell,
        "cargo run --profile measured --quiet --package tollgate-measure -- {table} {rest...}"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: super::Arguments,
    }

    #[test]
    fn remaining_arguments_are_passed_on() {
        let line = Line::parse_from(["bench", "--test", "gcra", "--save-baseline", "before"]);
        assert!(line.arguments.test);
        assert_eq!(line.arguments.rest, ["gcra", "--save-baseline", "before"]);
        assert!(Line::try_parse_from(["bench", "--servers", "--test"]).is_err());
    }
}
