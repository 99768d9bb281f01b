//! `cargo xtask bench`: runs the benchmarks in `benches/`.

use std::error::Error;
use std::thread;

use clap::Args;
use xshell::{Cmd, Shell, cmd};

use crate::outcome::Outcome;
use crate::project::{PEERS, tools};
use crate::results::{self, GENERAL, ON_SERVERS};
use crate::{replay, servers};

/// The packages whose versions are named beside results.
const PACKAGES: [&str; 7] = [
    "redis",
    "fred",
    "tokio",
    "governor",
    "throttlecrab",
    "tokio-rate-limit",
    "trypema",
];

/// Which benchmarks to run, and how.
#[derive(Args, Debug, Default)]
pub(crate) struct Arguments {
    /// Runs every benchmark of criterion once, including those on a server, to check that it works; installs
    /// `redis-server` if it is missing and that is permitted.
    #[arg(long, group = "which")]
    test: bool,
    /// Compares every algorithm with governor instead, measured in turn; an argument selects
    /// points, such as `1 key`.
    #[arg(long, group = "which")]
    ratios: bool,
    /// Measures how fast the program replays a log, and how much memory a line takes instead; fails if
    /// one of them misses its target.
    #[arg(long, group = "which")]
    replay: bool,
    /// Measures decisions on servers instead, next to the commands they consist of; an argument
    /// selects subjects, such as `gcra`, and `--help` after it lists more options.
    #[arg(long, group = "which")]
    servers: bool,
    /// Measures units ahead instead, next to calls that each ask the server; an argument selects a table,
    /// such as `hot`.
    #[arg(long, group = "which")]
    prefetch: bool,
    /// Counts what other rate limiters admit instead, next to the most that they should; with `--ratios`
    /// or `--servers`, measures them beside the algorithms.
    #[arg(long, conflicts_with_all = ["test", "replay", "prefetch", "report"])]
    peers: bool,
    /// Measures all that `docs/benchmarks.md` and `docs/benchmarks-servers.md` show instead, and writes their
    /// tables and charts.
    #[arg(long, group = "which")]
    report: bool,
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
        return measure_all(shell);
    }
    let programs = [
        ("ratios", arguments.ratios),
        ("servers", arguments.servers),
        ("prefetch", arguments.prefetch),
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
    Ok(measure(shell, arguments.peers, program, &rest).run()?)
}

/// Runs every benchmark once: only that they work matters. They are built for the packages that are tested together,
/// because cargo builds much of it a second time for one package alone. A test runs the programs that measure.
fn once(shell: &Shell, rest: &[&str]) -> Outcome {
    servers::ensure_system(shell)?;
    let packages = tools("--package");
    Ok(cmd!(
        shell,
        "cargo bench --profile dev {packages...} --bench * -- --test {rest...}"
    )
    .run()?)
}

/// Measures what the documentation shows, and writes it there.
fn measure_all(shell: &Shell) -> Outcome {
    servers::ensure_system(shell)?;
    servers::fetch(shell)?;
    let _all = shell.push_env("TOLLGATE_EVERY_SERVER", "1");
    for (page, name, with_peers, program, arguments) in [
        (GENERAL, "memory", true, "ratios", &["thread"][..]),
        (GENERAL, "admitted", true, "admitted", &[]),
        (
            ON_SERVERS,
            "peers-on-server",
            true,
            "servers",
            &["peer", "--flavor", "redis_system"],
        ),
        (ON_SERVERS, "servers", false, "servers", &["--rounds", "5"]),
    ] {
        println!("measuring {name}");
        let table = measure(shell, with_peers, program, arguments).read()?;
        results::write(shell, page, name, &table)?;
    }
    results::write(shell, GENERAL, "machine", &machine(shell)?)?;
    results::draw_again(shell)
}

/// Returns the command for one of the programs that measure. With peers, it is a command of their program.
fn measure<'s>(shell: &'s Shell, with_peers: bool, program: &str, rest: &[&str]) -> Cmd<'s> {
    if with_peers {
        let target = servers::target(shell);
        cmd!(
            shell,
            "cargo run --profile bench --quiet --locked --manifest-path {PEERS}/Cargo.toml --target-dir {target} -- {program} {rest...}"
        )
    } else {
        cmd!(
            shell,
            "cargo run --profile bench --quiet --package tollgate-benches --bin {program} -- {rest...}"
        )
    }
}

/// Returns on what the benchmarks ran, and the versions of what they measured.
fn machine(shell: &Shell) -> Result<String, Box<dyn Error>> {
    let information = shell.read_file("/proc/cpuinfo").unwrap_or_default();
    let cores = thread::available_parallelism()?;
    let locks = shell.read_file(format!("{PEERS}/Cargo.lock"))? + &shell.read_file("Cargo.lock")?;
    let versions = PACKAGES.map(|name| version(&locks, name));
    let compiler = cmd!(shell, "rustc --version").read()?;
    Ok(format!(
        "- processor: {}, {cores} cores\n\
         - system: {}, shared with other machines\n\
         - compiler: {compiler}\n\
         - packages: {}\n\
         - command: `cargo xtask bench --report`",
        model(&information),
        std::env::consts::OS,
        versions.join(", "),
    ))
}

/// Returns the name of the processor.
fn model(information: &str) -> &str {
    let mut lines = information.lines();
    let line = lines.find_map(|line| line.strip_prefix("model name"));
    line.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':']))
}

/// Returns a package and its version in a lock file; of several, the last.
fn version(lock: &str, name: &str) -> String {
    let head = format!("name = \"{name}\"\nversion = \"");
    let found = lock.rsplit_once(&head).map_or("", |(_, after)| after);
    let version = found.split('"').next().unwrap_or_default();
    format!("{name} {version}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{model, version};

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
        let line = Line::parse_from(["bench", "--servers", "gcra", "--flavor", "redis_6_2"]);
        assert!(line.arguments.servers);
        assert_eq!(line.arguments.rest, ["gcra", "--flavor", "redis_6_2"]);
        let line = Line::parse_from(["bench", "--servers", "--peers", "peer"]);
        assert!(line.arguments.servers && line.arguments.peers);
        assert!(Line::try_parse_from(["bench", "--servers", "--test"]).is_err());
    }

    #[test]
    fn machines_and_versions_are_named() {
        let found = model("processor\t: 0\nmodel name\t: AMD EPYC\n");
        assert_eq!(found, "AMD EPYC");
        assert_eq!(model(""), "unknown");
        let lock =
            "name = \"redis-x\"\nversion = \"2.0.0\"\n\nname = \"redis\"\nversion = \"1.8.1\"\n";
        assert_eq!(version(lock, "redis"), "redis 1.8.1");
    }
}
