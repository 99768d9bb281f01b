//! `cargo xtask mutants`: breaks the code in many small ways, one at a time, and finds out which
//! test fails.
//!
//! All mutants are built into one copy of the project. An environment variable switches one of them
//! on when a test runs, so hundreds of mutants cost one build.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the program talks to whoever runs it"
)]

mod copy;
mod equivalent;
mod lua;
mod mutant;
mod point;
mod report;
mod rust;
mod semantic;
mod sources;
mod suite;
mod trial;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use clap::Parser;
use xshell::Shell;
use xtask::Outcome;
use xtask::project::{self, Files};

use self::copy::{Binary, Copy};
use self::mutant::Mutant;
use self::report::{Fate, Results};
use self::trial::Trial;
use self::worker::Worker;
/// Breaks a copy of the code in many small ways, one at a time, and checks that a test fails each time.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask mutants")]
struct Arguments {
    /// Tries only mutants whose file, function or change contains one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Tries this many mutants of `tollgate-core` and `tollgate-memory` that need no server: always
    /// the same ones, as long as they exist.
    #[arg(long, value_name = "COUNT")]
    sample: Option<usize>,
    /// Tries no mutants, and writes their latest results into the document.
    #[arg(long)]
    write: bool,
    /// Tries only mutants that no test detected the last time, and those of `--new` if that is
    /// given, too.
    #[arg(long)]
    alive: bool,
    /// Tries only mutants that were never tried, because their code is new or has changed.
    #[arg(long)]
    new: bool,
    /// Applies patches that break the project in larger ways, one at a time: those whose name or
    /// first line contains one of the texts.
    #[arg(long, conflicts_with_all = ["sample", "write", "alive", "new"])]
    semantic: bool,
}

/// The document with the results of all mutants.
const DOCUMENT: &str = "docs/mutants.md";
/// The heading of the section that `--write` writes.
const RESULTS: &str = "## Results\n";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    xtask::end(project::shell().and_then(|shell| run(&shell, &arguments)))
}

fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    if arguments.semantic {
        return semantic::run(shell, &arguments.filters);
    }
    let files = Files::read(shell)?;
    let mut copy = Copy::of(shell, &files)?;
    let results = Results::read(&copy.folder().join(trial::RESULTS));
    let equivalent = equivalent::read(&files, &copy.all_mutants(&files))?;
    if arguments.write {
        return write(shell, &files, &copy, &equivalent, &results);
    }
    let wanted = |mutant: &Mutant| {
        let shown = mutant.to_string();
        let filters = &arguments.filters;
        let is_due = match results.is_alive(mutant.id) {
            Some(true) => arguments.alive,
            Some(false) => false,
            None => arguments.new,
        };
        (filters.is_empty() || filters.iter().any(|filter| shown.contains(filter)))
            && (is_due || !arguments.alive && !arguments.new)
    };
    let mut candidates = candidates(&copy, &files, &wanted);
    if let Some(count) = arguments.sample {
        candidates.retain(|of| of.is_pure() && !equivalent.contains(&of.id));
        candidates.sort_by_key(|candidate| candidate.id);
        candidates.truncate(count);
    }
    if candidates.is_empty() {
        return Err("there is no such mutant".into());
    }
    let started = Instant::now();
    let packages: BTreeSet<_> = candidates
        .iter()
        .flat_map(|of| of.packages())
        .copied()
        .collect();
    let binaries = copy.build(&packages.into_iter().collect::<Vec<_>>())?;
    // The build may have found more mutants that do not compile.
    let compiled: BTreeSet<u64> = copy.mutants().map(|mutant| mutant.id).collect();
    candidates.retain(|of| of.text.is_some() || compiled.contains(&of.id));
    println!(
        "mutants: {} to try, {} do not compile; built in {} s",
        candidates.len(),
        copy.dropped(),
        started.elapsed().as_secs()
    );
    let started = Instant::now();
    let count = std::thread::available_parallelism()?.get();
    let workers = (0..count).map(|number| Worker::new(copy.folder(), number));
    let workers = workers.collect::<Result<Vec<_>, _>>()?;
    let wanted = |binary: &Binary, name: &str| {
        let mut candidates = candidates.iter();
        candidates.any(|of| of.may_be_judged_by(binary, name))
    };
    let known = copy.folder().join("measured");
    let suite = suite::measure(&binaries, &wanted, &workers, &known)?;
    for test in &suite.failing {
        println!("mutants: fails without any mutant, and is not used: {test}");
    }
    println!(
        "mutants: {} tests measured in {} s; they take {} s",
        suite.tests.len(),
        started.elapsed().as_secs(),
        suite
            .tests
            .iter()
            .map(|test| test.cost.as_secs_f64())
            .sum::<f64>()
            .round()
    );
    let started = Instant::now();
    let trial = Trial {
        tests: &suite.tests,
        folder: copy.folder(),
        killers: Mutex::default(),
    };
    let fates = trial.all(&candidates, &equivalent, &workers)?;
    println!("mutants: tried in {} s", started.elapsed().as_secs());
    report::finish(&candidates_with(&candidates, &fates))
}

/// Writes the table at the end of the document.
fn write(
    shell: &Shell,
    files: &Files,
    copy: &Copy<'_>,
    equivalent: &HashSet<u64>,
    results: &Results,
) -> Outcome {
    let text = files.text(DOCUMENT).ok_or("there is no document")?;
    let (before, _) = text.split_once(RESULTS).unwrap_or((text, ""));
    let all = candidates(copy, files, &|_| true);
    let mutants: Vec<_> = all.iter().collect();
    let table = report::table(&mutants, copy.dropped(), equivalent, results)?;
    shell.write_file(DOCUMENT, format!("{before}{table}"))?;
    Ok(())
}

fn candidates_with<'c>(
    candidates: &'c [Mutant],
    fates: &'c BTreeMap<u64, Fate>,
) -> Vec<(&'c Mutant, &'c Fate)> {
    let mut all: Vec<_> = candidates
        .iter()
        .filter_map(|of| Some((of, fates.get(&of.id)?)))
        .collect();
    all.sort_by(|(a, _), (b, _)| (&a.file, a.line).cmp(&(&b.file, b.line)));
    all
}

/// Returns the mutants that `wanted` accepts.
fn candidates(copy: &Copy<'_>, files: &Files, wanted: &dyn Fn(&Mutant) -> bool) -> Vec<Mutant> {
    let rust = copy.mutants().cloned();
    let lua = sources::lua(files)
        .into_iter()
        .flat_map(|(_, mutants)| mutants);
    let all = rust.chain(lua).filter(wanted);
    all.collect()
}

#[cfg(test)]
mod tests;
