//! `cargo xtask bench`: the benchmarks of `benches/`.

use clap::Args;
use xshell::{Shell, cmd};

use crate::{Outcome, replay, servers};

/// Which benchmarks to run, and how.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Runs every benchmark once, to see that it works, those on a server included; installs
    /// `redis-server` if it is missing and that is allowed.
    #[arg(long)]
    test: bool,
    /// Prints how every algorithm compares with governor instead, measured in turn; an argument
    /// selects points, such as `1 key`.
    #[arg(long, conflicts_with = "test")]
    ratios: bool,
    /// Measures how fast the program reads a log and how much memory a line takes instead; fails
    /// if that is short of what is promised.
    #[arg(long, conflicts_with_all = ["test", "ratios"])]
    replay: bool,
    /// Measures decisions on servers instead, beside the commands that they are made of; an
    /// argument selects subjects, such as `gcra`, and `--help` after it tells the rest.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay"])]
    servers: bool,
    /// Passed on to criterion, such as a filter or `--save-baseline NAME`.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    rest: Vec<String>,
}

impl Arguments {
    /// Returns what runs every benchmark once.
    pub(crate) fn once() -> Self {
        Self {
            test: true,
            ratios: false,
            replay: false,
            servers: false,
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
    let test = arguments.test.then_some("--test");
    // A glob names the benchmarks only: the library's test harness knows no criterion options.
    cmd!(
        shell,
        "cargo bench --package tollgate-benches --bench * -- {test...} {rest...}"
    )
    .run()?;
    if arguments.test {
        servers::ensure_system(shell)?;
        // The profile of `cargo bench`, so that nothing is built twice.
        cmd!(
            shell,
            "cargo run --profile bench --quiet --package tollgate-benches --bin servers -- --quick --flavor redis_system"
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
    fn the_rest_is_passed_on() {
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
