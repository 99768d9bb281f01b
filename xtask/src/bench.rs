//! `cargo xtask bench`: runs the benchmarks in `benches/`.

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;
use crate::project::PEERS;
use crate::{pictures, replay, servers};

/// Which benchmarks to run, and how.
#[derive(Args, Debug, Default)]
pub(crate) struct Arguments {
    /// Runs every benchmark once, including those on a server, to check that it works; installs
    /// `redis-server` if it is missing and that is permitted.
    #[arg(long)]
    test: bool,
    /// Compares every algorithm with governor instead, measured in turn; an argument selects
    /// points, such as `1 key`.
    #[arg(long, conflicts_with = "test")]
    ratios: bool,
    /// Measures how fast the program replays a log, what several threads gain, and how much memory a
    /// line takes instead; fails if one of them misses its target.
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
    /// Compares stores that send calls together with stores that send each by itself instead; `--help`
    /// after it lists options.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers", "waiting", "outbound"])]
    batches: bool,
    /// Measures how a server's time for a decision grows instead: with the calls that a key remembers,
    /// with the cost of a call, and with the number of keys.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers", "waiting", "outbound", "batches"])]
    growth: bool,
    /// Measures how long the costliest calls of each kind hold a server instead; an argument selects
    /// rows, such as `list`.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers", "waiting", "outbound", "batches", "growth"])]
    costliest: bool,
    /// Counts what other rate limiters admit instead, next to the most that they should; with `--ratios`
    /// or `--servers`, measures them beside the algorithms.
    #[arg(long, conflicts_with_all = ["test", "replay", "waiting", "outbound", "batches", "growth", "costliest"])]
    peers: bool,
    /// Measures all that `docs/benchmarks.md` shows instead, and writes its tables and charts, and the
    /// numbers to `benches/results`; with `--quick`, within five minutes.
    #[arg(long, conflicts_with_all = ["test", "ratios", "replay", "servers", "waiting", "outbound", "batches", "growth", "costliest", "peers"])]
    report: bool,
    /// With `--report`: measures less, so that single numbers may be off by much.
    #[arg(long, requires = "report")]
    quick: bool,
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
    if arguments.replay {
        return replay::run(shell);
    }
    if arguments.test {
        return once(shell, &rest);
    }
    if arguments.report {
        return measure_all(shell, arguments.quick);
    }
    let programs = [
        ("ratios", arguments.ratios),
        ("servers", arguments.servers),
        ("waiting", arguments.waiting),
        ("outbound", arguments.outbound),
        ("batches", arguments.batches),
        ("growth", arguments.growth),
        ("costliest", arguments.costliest),
        ("admitted", arguments.peers),
    ];
    let Some((program, _)) = programs.into_iter().find(|(_, is_chosen)| *is_chosen) else {
        servers::ensure_system(shell)?;
        // The glob selects only the benchmarks: the library's test harness does not know criterion's
        // options.
        let benches = cmd!(
            shell,
            "cargo bench --package tollgate-benches --bench * -- {rest...}"
        );
        return Ok(benches.run()?);
    };
    if program != "ratios" {
        servers::ensure_system(shell)?;
    }
    if program == "servers" {
        servers::fetch(shell)?;
    }
    measure(shell, arguments.peers, program, &rest)
}

/// Runs every benchmark once, as the tests are built: only that they work matters. All is built
/// together with the tests, because cargo builds much of it a second time for one package alone.
fn once(shell: &Shell, rest: &[&str]) -> Outcome {
    servers::ensure_system(shell)?;
    cmd!(shell, "cargo build --workspace --all-targets").run()?;
    cmd!(
        shell,
        "cargo bench --profile dev --workspace --bench * -- --test {rest...}"
    )
    .run()?;
    let programs = servers::target(shell).join("debug");
    for (program, arguments) in [
        ("servers", &["--quick", "--flavor", "redis_system"][..]),
        ("waiting", &["--quick"]),
        ("outbound", &["--quick"]),
        ("growth", &["--quick"]),
        ("costliest", &["--rounds", "1", "lease"]),
        ("batches", &["--quick"]),
    ] {
        println!("$ {program} {}", arguments.join(" "));
        let path = programs.join(program);
        cmd!(shell, "{path} {arguments...}").quiet().run()?;
    }
    Ok(())
}

/// Measures what the documentation shows, and writes it there.
fn measure_all(shell: &Shell, is_quick: bool) -> Outcome {
    servers::ensure_system(shell)?;
    let command = if is_quick {
        "cargo xtask bench --report --quick"
    } else {
        servers::fetch(shell)?;
        "cargo xtask bench --report"
    };
    let _all = shell.push_env("TOLLGATE_EVERY_SERVER", if is_quick { "" } else { "1" });
    for (program, file, full, quick) in [
        (
            "ratios",
            "memory",
            &[][..],
            &["--rounds", "5", "--most", "10000"][..],
        ),
        ("admitted", "peers", &[], &["--quick"]),
        (
            "servers",
            "peers-on-server",
            &["peer", "--flavor", "redis_system"],
            &["peer", "--flavor", "redis_system", "--rounds", "1"],
        ),
        ("sizes", "sizes", &[], &[]),
        (
            "growth",
            "growth",
            &[],
            &["--rounds", "3", "--calls", "1024", "--most", "100000"],
        ),
        (
            "batches",
            "batches",
            &["--span", "200", ":1000000000/1000d"],
            &["--rounds", "1", "--span", "100", ":1000000000/1000d"],
        ),
        (
            "servers",
            "servers",
            &["--rounds", "5"],
            &["--rounds", "1", "--slice", "20", "--flavor", "redis_system"],
        ),
    ] {
        let path = format!("{}/{file}.csv", tollgate_report::FOLDER);
        let amount = if is_quick { quick } else { full };
        let arguments = [&["--csv", &*path], amount].concat();
        println!("measuring {file}");
        let with_peers = ["ratios", "admitted", "servers"].contains(&program);
        measure(shell, with_peers, program, &arguments)?;
    }
    tollgate_report::save_machine(shell, command)?;
    pictures::run(shell, &pictures::Arguments::write())
}

/// Runs one of the programs that measure. With peers, it is a command of their program.
fn measure(shell: &Shell, with_peers: bool, program: &str, rest: &[&str]) -> Outcome {
    let command = if with_peers {
        let target = servers::target(shell);
        cmd!(
            shell,
            "cargo run --release --quiet --locked --manifest-path {PEERS}/Cargo.toml --target-dir {target} -- {program} {rest...}"
        )
    } else {
        cmd!(
            shell,
            "cargo run --release --quiet --package tollgate-benches --bin {program} -- {rest...}"
        )
    };
    Ok(command.run()?)
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
        let line = Line::parse_from(["bench", "--servers", "--peers", "peer"]);
        assert!(line.arguments.servers && line.arguments.peers);
        let line = Line::parse_from(["bench", "--servers", "--soak", "60"]);
        assert_eq!(line.arguments.rest, ["--soak", "60"]);
    }
}
