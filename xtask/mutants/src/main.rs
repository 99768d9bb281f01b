//! `cargo xtask mutants [FILTER]...`: breaks the Lua scripts, one token at a time, and checks that a test fails
//! each time.
//!
//! Tries those mutants of the Lua scripts whose names contain one of the filters.

mod copy;
mod equivalents;
mod lua;
mod scripts;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::copy::Copy;

/// The result of a step.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The document that says when everything was last tried, in a line that begins like this.
const DOCUMENT: &str = "docs/internals/mutants.md";
const LAST_RUN: &str = "Last run of everything: ";

/// What became of the changes that were tried.
#[derive(Debug, Default)]
struct Results {
    killed: usize,
    alive: Vec<String>,
    skipped: Vec<String>,
}

impl Results {
    /// Counts and prints a change that this test noticed.
    fn killed(&mut self, change: &str, test: &str) {
        self.killed += 1;
        println!("killed by {test}: {change}");
    }

    /// Counts and prints a change that no test noticed.
    fn alive(&mut self, change: String) {
        println!("ALIVE: {change}");
        self.alive.push(change);
    }

    /// Counts and prints a change that could not be tried.
    fn skipped(&mut self, change: &str, reason: &str) {
        let skipped = format!("{change}: {reason}");
        println!("skipped: {skipped}");
        self.skipped.push(skipped);
    }

    /// Returns the counts as one sentence.
    fn summary(&self) -> String {
        let (alive, skipped) = (self.alive.len(), self.skipped.len());
        format!("{} killed, {alive} alive, {skipped} skipped", self.killed)
    }
}

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).collect();
    match run(&filters) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Tries the changes whose description contains one of `filters`; all, if there are none.
fn run(filters: &[String]) -> Outcome {
    if let Some(option) = filters.iter().find(|filter| filter.starts_with('-')) {
        return Err(format!("{option} is no filter: see {DOCUMENT}").into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    let target = root.join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from));
    let copy = Copy::of(&root, &target.join("mutants"))?;
    let wanted = |change: &str| {
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| change.contains(filter.as_str()))
    };
    let mut results = Results::default();
    scripts::run(&root, &copy, &wanted, &mut results)?;
    println!("\nmutants: {}", results.summary());
    for change in &results.skipped {
        println!("skipped: {change}");
    }
    for change in &results.alive {
        println!("ALIVE: {change}");
    }
    if filters.is_empty() {
        let document = fs::read_to_string(root.join(DOCUMENT))?;
        let last_run = format!("{LAST_RUN}{}: {}.", copy.date()?, results.summary());
        let lines = document
            .lines()
            .map(|line| match line.starts_with(LAST_RUN) {
                true => &last_run,
                false => line,
            });
        let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
        fs::write(root.join(DOCUMENT), lines)?;
    }
    match (results.killed, results.alive.len()) {
        (0, 0) => Err("nothing was tried".into()),
        (_, 0) => Ok(()),
        (_, count) => Err(format!("{count} alive: no test notices them").into()),
    }
}
