//! `cargo xtask mutants`: breaks the code in many small ways, and tells which test notices each.

mod copy;
mod list;

use clap::Args;
use xshell::Shell;

use self::copy::Copy;
use self::list::MUTANTS;
use crate::project::Files;
use crate::{Outcome, report};

/// Which mutants to try.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Tries only those whose file or description holds this text.
    filter: Option<String>,
}

/// One small mistake.
#[derive(Clone, Copy, Debug)]
struct Mutant {
    file: &'static str,
    /// What is wrong.
    wrong: &'static str,
    /// A text that is once in the file.
    before: &'static str,
    after: &'static str,
}

impl Mutant {
    /// Returns the file, as it is named in the table.
    fn place(&self) -> &'static str {
        self.file.trim_start_matches("crates/")
    }

    /// Returns the algorithm whose script this changes, if it is one that runs on servers.
    fn twin(&self) -> Option<&'static str> {
        let folder = self.file.strip_suffix("/script.lua")?;
        folder.rsplit('/').next()
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let files = Files::read(shell)?;
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let mutants: Vec<Mutant> = MUTANTS
        .iter()
        .filter(|mutant| mutant.file.contains(filter) || mutant.wrong.contains(filter))
        .copied()
        .collect();
    if mutants.is_empty() {
        return Err(format!("no mutant is of {filter:?}").into());
    }
    let misplaced = findings(&files, &mutants);
    if !misplaced.is_empty() {
        return report("mutants", &misplaced);
    }
    let copy = Copy::of(shell, &files)?;
    if let Some(test) = copy.first_failure()? {
        return Err(format!("without any mutant there fails {test}").into());
    }
    let mut rows = Vec::new();
    let mut survivors = 0;
    for mutant in &mutants {
        let place = mutant.place();
        eprintln!("mutants: {place}: {}", mutant.wrong);
        let died_in = copy.first_failure_with(mutant)?;
        survivors += usize::from(died_in.is_none());
        let died_in = match died_in {
            Some(test) => format!("`{test}`"),
            None => "**survives**".to_owned(),
        };
        rows.push(format!("| `{place}` | {} | {died_in} |", mutant.wrong));
    }
    println!("| place | change | dies in |\n|---|---|---|");
    println!("{}", rows.join("\n"));
    println!(
        "\n{} mutants: {} died, {survivors} survived",
        mutants.len(),
        mutants.len() - survivors
    );
    if survivors == 0 {
        return Ok(());
    }
    Err("what survives is tested by nothing: add a test".into())
}

/// Returns the mutants whose place is not there, or is not the only one.
fn findings(files: &Files, mutants: &[Mutant]) -> Vec<String> {
    let mut findings = Vec::new();
    for mutant in mutants {
        let Mutant {
            file,
            wrong,
            before,
            ..
        } = mutant;
        let text = files.text(file).unwrap_or_default();
        let found = text.matches(before).count();
        if found != 1 {
            findings.push(format!(
                "{wrong}: {before:?} is {found} times in {file}, not once"
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
