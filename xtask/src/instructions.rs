//! `cargo xtask instructions`: counts the instructions of decisions in memory, which are the same in
//! every run, and compares them with the recorded ones.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::results::{self, GENERAL};
use crate::servers;

/// By how many percent a count may exceed the recorded one.
const MARGIN: u64 = 3;
/// How many decisions are made; the difference of both runs is what they cost.
const CALLS: [u64; 2] = [1_000, 31_000];
/// The name of their table.
const TABLE: &str = "instructions";

/// Whether to compare or to record.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Records the counts, instead of comparing them with those that are recorded.
    #[arg(long)]
    write: bool,
}

impl Arguments {
    /// Returns the arguments that compare.
    pub(crate) fn compare() -> Self {
        Self { write: false }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let has_valgrind = cmd!(shell, "valgrind --version").quiet().ignore_stderr();
    if has_valgrind.read().is_err() {
        println!("instructions are not counted, because there is no valgrind");
        return Ok(());
    }
    let counts = counts(shell)?;
    let compiler = cmd!(shell, "rustc --version").read()?;
    if arguments.write {
        return save(shell, &compiler, &counts);
    }
    let recorded = results::read(shell, GENERAL, TABLE)?;
    if !recorded.starts_with(&by(&compiler)) {
        println!("the recorded counts are of another compiler, so nothing is compared");
        return Ok(());
    }
    report("instructions", &findings(&recorded, &counts))
}

/// Counts the instructions of a decision of each kind.
fn counts(shell: &Shell) -> Result<BTreeMap<String, u64>, Box<dyn Error>> {
    cmd!(
        shell,
        "cargo build --profile bench --package tollgate-memory --example decide"
    )
    .run()?;
    let program = servers::target(shell).join("release/examples/decide");
    let kinds = cmd!(shell, "{program}").quiet().read()?;
    let each = kinds.lines().map(|kind| {
        let [few, many] = CALLS.map(|calls| instructions(shell, &program, kind, calls));
        let counted = (many? - few?) / (CALLS[1] - CALLS[0]);
        println!("{kind}: {counted}");
        Ok((kind.to_owned(), counted))
    });
    each.collect()
}

/// Counts the instructions of a run.
fn instructions(
    shell: &Shell,
    program: &Path,
    kind: &str,
    calls: u64,
) -> Result<u64, Box<dyn Error>> {
    let calls = calls.to_string();
    let counted = cmd!(
        shell,
        "valgrind --tool=callgrind --callgrind-out-file=/dev/null {program} {kind} {calls}"
    );
    let output = counted.quiet().output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let found = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let count = found.and_then(|(_, count)| count.trim().parse().ok());
    count.ok_or_else(|| format!("valgrind did not count: {text}").into())
}

/// Returns the kinds that take more than is recorded, or that are not recorded.
fn findings(recorded: &str, counts: &BTreeMap<String, u64>) -> Vec<String> {
    let findings = counts.iter().filter_map(|(kind, count)| {
        let row = format!("| {kind} | ");
        let known = recorded.lines().find_map(|line| line.strip_prefix(&row));
        match known.and_then(|known| known.trim_end_matches(" |").parse::<u64>().ok()) {
            None => Some(format!(
                "{kind} is not recorded: run `cargo xtask instructions --write`"
            )),
            Some(known) if *count > known + known * MARGIN / 100 => Some(format!(
                "{kind} takes {count} instructions instead of {known}: find out why, or record it by `cargo xtask instructions --write`"
            )),
            Some(_) => None,
        }
    });
    findings.collect()
}

fn save(shell: &Shell, compiler: &str, counts: &BTreeMap<String, u64>) -> Outcome {
    let mut text = format!(
        "{}\n\n| decision | instructions |\n|---|---:|\n",
        by(compiler)
    );
    for (kind, count) in counts {
        text += &format!("| {kind} | {count} |\n");
    }
    results::write(shell, GENERAL, TABLE, &text)
}

/// Returns the line that says which compiler the counts are of.
fn by(compiler: &str) -> String {
    format!("By {compiler}:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_margin_above_what_is_recorded_is_found() {
        let recorded =
            "By rustc 1:\n\n| decision | instructions |\n|---|---:|\n| a | 100 |\n| b | 1000 |\n";
        let counts = |all: &[(&str, u64)]| {
            all.iter()
                .map(|(kind, count)| ((*kind).to_owned(), *count))
                .collect()
        };
        let found = |all| findings(recorded, &counts(all));
        assert_eq!(found(&[("a", 103), ("b", 900)]), [""; 0]);
        assert_eq!(found(&[("a", 104), ("b", 1_031)]).len(), 2);
        assert!(found(&[("c", 1)])[0].contains("not recorded"));
    }
}
