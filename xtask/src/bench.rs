//! `cargo xtask bench`: runs the benchmarks in `benches/`.

use clap::Args;
use xshell::{Shell, cmd};

use crate::{Outcome, replay, servers};

/// Which benchmarks to run, and how.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Runs every benchmark once, including those on a server, to check that it works; installs
    /// `redis-server` if it is missing and that is permitted.
    #[arg(long)]
    test: bool,
    /// Compares every algorithm with governor instead, measured in turn; an argument selects
    /// points, such as `1 key`.
    #[arg(long, conflicts_with = "test")]
    ratios: bool,
    /// Measures how fast the program reads a log and how much memory a line takes instead; fails if
    /// either misses its target.
    #[arg(long, conflicts_with_all = ["test", "ratios"])]
    replay: bool,
    /// Measures decisions on servers instead, next to the commands they consist of; an argument
    /// selects subjects, such as `gcra`, and `--help` after it lists more options.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay"])]
    servers: bool,
    /// Measures calls that wait instead: what they cost, how exactly they start, and how fairly
    /// processes share a limit; `--help` after it lists options.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers"])]
    waiting: bool,
    /// Measures calls to services that enforce limits of their own instead: whether any is refused,
    /// and how much of the limits they use; `--help` after it lists options.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers", "waiting"])]
    outbound: bool,
    /// Arguments for criterion, such as a filter or `--save-baseline NAME`.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    rest: Vec<String>,
}

impl Arguments {
    /// Returns the arguments that run every benchmark once.
    pub(crate) fn once() -> Self {
        Self {
            test: true,
            ratios: false,
            replay: false,
            servers: false,
            waiting: false,
            outbound: false,
            rest: Vec::new(),
        }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    if arguments.replay {
        return replay::run(shell);
    }
    let rest = &arguments.rest;
    if arguments.ratios {
        cmd!(
            shell,
            "cargo run --release --quiet --package tollgate-benches --bin ratios -- {rest...}"
        )
        .run()?;
        return Ok(());
    }
    if arguments.servers {
        servers::ensure_system(shell)?;
        servers::run(shell)?;
        cmd!(
            shell,
            "cargo run --release --quiet --package tollgate-benches --bin servers -- {rest...}"
        )
        .run()?;
        return Ok(());
    }
    if arguments.waiting {
        servers::ensure_system(shell)?;
        cmd!(
            shell,
            "cargo run --release --quiet --package tollgate-benches --bin waiting -- {rest...}"
        )
        .run()?;
        return Ok(());
    }
    if arguments.outbound {
        servers::ensure_system(shell)?;
        cmd!(
            shell,
            "cargo run --release --quiet --package tollgate-benches --bin outbound -- {rest...}"
        )
        .run()?;
        return Ok(());
    }
    let test = arguments.test.then_some("--test");
    // The glob selects only the benchmarks: the library's test harness does not know criterion's
    // options.
    cmd!(
        shell,
        "cargo bench --package tollgate-benches --bench * -- {test...} {rest...}"
    )
    .run()?;
    if arguments.test {
        servers::ensure_system(shell)?;
        // With the profile of `cargo bench`, so that nothing is built twice.
        cmd!(
            shell,
            "cargo run --profile bench --quiet --package tollgate-benches --bin servers -- --quick --flavor redis_system"
        )
        .run()?;
        cmd!(
            shell,
            "cargo run --profile bench --quiet --package tollgate-benches --bin waiting -- --quick"
        )
        .run()?;
        cmd!(
            shell,
            "cargo run --profile bench --quiet --package tollgate-benches --bin outbound -- --quick"
        )
        .run()?;
    }
    Ok(())
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
        let line = Line::parse_from(["bench", "--baseline", "before"]);
        assert!(!line.arguments.test);
        assert_eq!(line.arguments.rest, ["--baseline", "before"]);
        let line = Line::parse_from(["bench", "--servers", "gcra", "--flavor", "redis_6_2"]);
        assert!(line.arguments.servers);
        assert_eq!(line.arguments.rest, ["gcra", "--flavor", "redis_6_2"]);
        let line = Line::parse_from(["bench", "--servers", "--soak", "60"]);
        assert_eq!(line.arguments.rest, ["--soak", "60"]);
    }
}
