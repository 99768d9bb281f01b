//! What became of the mutants, kept for the next run and shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use super::mutant::Mutant;
use crate::Outcome;

/// What became of a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// No test noticed it.
    Alive,
    /// It is the same program, for the reason that the list of such mutants says.
    Equivalent,
    /// This test noticed it.
    Killed(String),
    /// This test did not end.
    TimedOut(String),
    /// No test comes to it.
    Unreached,
}

impl Fate {
    fn is_alive(&self) -> bool {
        matches!(self, Self::Alive | Self::Unreached)
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive => f.write_str("ALIVE"),
            Self::Equivalent => f.write_str("equivalent"),
            Self::Killed(test) => write!(f, "killed by {test}"),
            Self::TimedOut(test) => write!(f, "hangs {test}"),
            Self::Unreached => f.write_str("ALIVE, no test reaches it"),
        }
    }
}

/// The mutants that lived when they were tried last.
#[derive(Debug, Default)]
pub(super) struct Results {
    alive: BTreeSet<u64>,
}

impl Results {
    /// Reads what the last run wrote, if there was one.
    pub(super) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        Self {
            alive: text.lines().filter_map(|line| line.parse().ok()).collect(),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Outcome {
        let lines: Vec<_> = self.alive.iter().map(u64::to_string).collect();
        Ok(fs::write(path, lines.join("\n"))?)
    }

    pub(super) fn is_alive(&self, id: u64) -> bool {
        self.alive.contains(&id)
    }

    pub(super) fn add(&mut self, fates: &BTreeMap<u64, Fate>) {
        for (&id, fate) in fates {
            if fate.is_alive() {
                self.alive.insert(id);
            } else {
                self.alive.remove(&id);
            }
        }
    }
}

/// How many mutants of a crate ended how.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counts {
    tried: usize,
    killed: usize,
    equivalent: usize,
    alive: usize,
}

/// Shows what became of the mutants, and fails if there is one that lives.
pub(super) fn finish(fates: &[(&Mutant, &Fate)]) -> Outcome {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    let mut alive = Vec::new();
    for (mutant, fate) in fates {
        let group = match mutant.text {
            Some(_) => "scripts".to_owned(),
            None => format!("`{}`", mutant.package()),
        };
        let counts = counts.entry(group).or_default();
        counts.tried += 1;
        match fate {
            Fate::Equivalent => counts.equivalent += 1,
            Fate::Killed(_) | Fate::TimedOut(_) => counts.killed += 1,
            Fate::Alive | Fate::Unreached => {
                counts.alive += 1;
                alive.push(format!("{mutant}: {fate}"));
            }
        }
    }
    println!("\n| crate | tried | killed | equivalent | alive |\n|---|---:|---:|---:|---:|");
    for (group, of) in &counts {
        let Counts {
            tried,
            killed,
            equivalent,
            alive,
        } = of;
        println!("| {group} | {tried} | {killed} | {equivalent} | {alive} |");
    }
    if alive.is_empty() {
        return Ok(());
    }
    println!("\n{}", alive.join("\n"));
    Err(format!("{} mutants live: no test notices them", alive.len()).into())
}
