//! Stores the results of mutants, prints them, and writes them into the document.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::mutant::Mutant;
use xtask::Outcome;

/// The result of trying a mutant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    /// No test failed.
    Alive,
    /// No test can detect it; the list of equivalent mutants says why.
    Equivalent,
    /// This test failed.
    Killed(String),
    /// This test did not end.
    TimedOut(String),
    /// No test executes it.
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

/// Which mutants survived the last time they were tried, by id.
#[derive(Debug, Default)]
pub(super) struct Results(BTreeMap<u64, bool>);

impl Results {
    /// Reads the results of earlier runs, if there are any.
    pub(super) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let results = text.lines().filter_map(|line| {
            let (id, alive) = line.split_once(' ')?;
            Some((id.parse().ok()?, alive == "alive"))
        });
        Self(results.collect())
    }

    /// Returns whether the mutant survived the last time, or `None` if it was never tried.
    pub(super) fn is_alive(&self, id: u64) -> Option<bool> {
        self.0.get(&id).copied()
    }
}

/// Appends a mutant's result to the file `path`; the last line of each mutant counts.
pub(super) fn append(path: &Path, id: u64, fate: &Fate) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let fate = if fate.is_alive() { "alive" } else { "dead" };
    file.write_all(format!("{id} {fate}\n").as_bytes())
}

/// The number of mutants per result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Counts {
    killed: usize,
    equivalent: usize,
    alive: usize,
    untried: usize,
}

/// The number of mutants per result, by place.
#[derive(Debug, Default)]
struct Table(BTreeMap<String, Counts>);

impl Table {
    fn of(&mut self, mutant: &Mutant) -> &mut Counts {
        let part = part(&mutant.file);
        let group = match mutant.text {
            Some(_) => format!("scripts in Lua{part}"),
            None => format!("`{}`{part}", mutant.package()),
        };
        self.0.entry(group).or_default()
    }
}

/// Returns the part of `tollgate-core` that a file belongs to, if it is one of the large ones.
fn part(file: &str) -> &'static str {
    let inside = file.strip_prefix("crates/tollgate-core/src/");
    let (folder, _) = inside
        .and_then(|path| path.split_once('/'))
        .unwrap_or_default();
    match folder {
        "algorithm" => ": algorithms",
        "lease" => ": leases",
        "schedule" => ": schedules",
        _ => "",
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| code | tried | killed | equivalent | alive | not tried |"
        )?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|")?;
        let mut all = Counts::default();
        for (group, of) in &self.0 {
            all.killed += of.killed;
            all.equivalent += of.equivalent;
            all.alive += of.alive;
            all.untried += of.untried;
            count(f, group, of)?;
        }
        count(f, "all", &all)
    }
}

fn count(f: &mut fmt::Formatter<'_>, group: &str, of: &Counts) -> fmt::Result {
    let Counts {
        killed,
        equivalent,
        alive,
        untried,
    } = of;
    let tried = killed + equivalent + alive;
    writeln!(
        f,
        "| {group} | {tried} | {killed} | {equivalent} | {alive} | {untried} |"
    )
}

/// Prints the results, and fails if a mutant survived.
pub(super) fn finish(fates: &[(&Mutant, &Fate)]) -> Outcome {
    let mut table = Table::default();
    let mut alive = Vec::new();
    for (mutant, fate) in fates {
        let counts = table.of(mutant);
        match fate {
            Fate::Equivalent => counts.equivalent += 1,
            Fate::Killed(_) | Fate::TimedOut(_) => counts.killed += 1,
            Fate::Alive | Fate::Unreached => {
                counts.alive += 1;
                alive.push(format!("{mutant}: {fate}"));
            }
        }
    }
    println!("\n{table}");
    if alive.is_empty() {
        return Ok(());
    }
    println!("Alive:\n{}\n", alive.join("\n"));
    Err(format!("{} mutants live: no test notices them", alive.len()).into())
}

/// Returns the table of the document for `mutants`, which must be all that compile.
///
/// Fails if most of them were never tried on this machine: then the table of another one says more.
pub(super) fn table(
    mutants: &[&Mutant],
    dropped: usize,
    equivalent: &HashSet<u64>,
    results: &Results,
) -> Result<String, Box<dyn Error>> {
    let mut table = Table::default();
    for mutant in mutants {
        let counts = table.of(mutant);
        match results.is_alive(mutant.id) {
            _ if equivalent.contains(&mutant.id) => counts.equivalent += 1,
            Some(false) => counts.killed += 1,
            Some(true) => counts.alive += 1,
            None => counts.untried += 1,
        }
    }
    let untried: usize = table.0.values().map(|counts| counts.untried).sum();
    if 2 * untried > mutants.len() {
        return Err(format!(
            "{untried} of {} mutants were never tried on this machine: run `cargo xtask mutants` before",
            mutants.len()
        )
        .into());
    }
    Ok(format!(
        "## Results\n\n{table}\nAnother {dropped} do not compile.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_of_core_have_rows_of_their_own() {
        for (file, expected) in [
            ("crates/tollgate-core/src/schedule/search.rs", ": schedules"),
            ("crates/tollgate-core/src/lease/state.rs", ": leases"),
            ("crates/tollgate-wire/src/lease.lua", ""),
            (
                "crates/tollgate-core/src/algorithm/gcra/mod.rs",
                ": algorithms",
            ),
            ("crates/tollgate-core/src/call.rs", ""),
            ("crates/tollgate-mock/src/mock/schedule.rs", ""),
        ] {
            assert_eq!(part(file), expected, "{file}");
        }
    }

    #[test]
    fn mutants_that_were_not_tried_are_counted() {
        let mut table = Table::default();
        let counts = Counts {
            killed: 3,
            equivalent: 1,
            alive: 0,
            untried: 2,
        };
        table.0.insert("`tollgate-mock`".to_owned(), counts);
        let last = "| all | 4 | 3 | 1 | 0 | 2 |\n";
        assert!(table.to_string().ends_with(last), "{table}");
    }
}
