//! `cargo xtask mutants`: breaks the code in every small way it can think of, one at a time, and
//! tells which test notices.
//!
//! All mutants are built into one copy of the project, each behind a switch that the environment
//! sets when a test is run, so that hundreds of them cost one build.

mod copy;
mod equivalent;
mod lua;
mod mutant;
mod point;
mod report;
mod rust;
mod sources;
mod suite;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use xshell::Shell;

use self::copy::Binary;
use self::copy::Copy;
use self::mutant::Mutant;
use self::report::{Fate, Results};
use self::suite::Test;
use self::worker::{Ending, Worker, each, lock};
use crate::Outcome;
use crate::project::Files;

/// Which mutants to try.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Tries only those whose file, function or change holds one of these texts.
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
    /// Tries as many as this of those that need no server, always the same as long as they exist.
    #[arg(long, value_name = "COUNT")]
    sample: Option<usize>,
    /// Tries none, and writes what became of each when it was tried last into the document.
    #[arg(long)]
    write: bool,
    /// Tries only those that no test noticed when they were tried last.
    #[arg(long)]
    alive: bool,
}

/// Tests that fail whenever the text of a script is another one, whatever it does; that they fail
/// says nothing about a mutant of a script.
const SNAPSHOTS: [&str; 1] = ["scripts::scripts_are_what_they_were"];
/// Parts of the names of tests on servers that are not the system's; what they test of the code is
/// the same there.
const OTHER_SERVERS: [&str; 2] = ["redis_6_2", "valkey_9_1"];
/// The tests on a server that a script must satisfy, beside those of core.
const EXACT: &str = "multiplexed_on_system::";

/// Where the results of all mutants are.
const DOCUMENT: &str = "docs/mutants.md";
/// The heading of the part that is written by `--write`.
const RESULTS: &str = "## Results\n";

/// A mutant, and what says which tests judge it.
#[derive(Clone, Debug)]
struct Candidate {
    mutant: Mutant,
    /// Whether only stores on servers need the file.
    is_wire: bool,
}

impl Candidate {
    /// Returns the packages whose tests judge this.
    fn packages(&self) -> &'static [&'static str] {
        match self.mutant.package() {
            _ if self.mutant.text.is_some() => &["tollgate-core", "tollgate-redis"],
            "tollgate-core" if self.is_wire => {
                &["tollgate-core", "tollgate-redis", "tollgate-fred"]
            }
            "tollgate-core" => &["tollgate-core", "tollgate-memory"],
            "tollgate-memory" => &["tollgate-memory"],
            "tollgate-mock" => &["tollgate-mock"],
            "tollgate-redis" => &["tollgate-redis"],
            "tollgate-fred" => &["tollgate-fred"],
            _ => &[],
        }
    }

    fn needs_server(&self) -> bool {
        self.is_wire || matches!(self.mutant.package(), "tollgate-redis" | "tollgate-fred")
    }

    /// Returns whether the test called `name` in `binary` judges this, if it reaches it.
    fn may_be_judged_by(&self, binary: &Binary, name: &str) -> bool {
        let is_core = binary.package == "tollgate-core";
        if !self.packages().contains(&&*binary.package)
            || OTHER_SERVERS.iter().any(|server| name.contains(server))
        {
            return false;
        }
        match self.mutant.text {
            Some(_) if is_core => !SNAPSHOTS.contains(&name),
            Some(_) => name.starts_with(EXACT),
            // What needs no server is to be noticed without one.
            None => self.is_wire || !is_core || binary.target != "wire",
        }
    }

    fn is_judged_by(&self, test: &Test) -> bool {
        let reached = match &self.mutant.text {
            Some(_) => sources::script_id(&self.mutant.file),
            None => self.mutant.id,
        };
        test.reaches.contains(&reached) && self.may_be_judged_by(&test.binary, &test.name)
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let files = Files::read(shell)?;
    let mut copy = Copy::of(shell, &files)?;
    let results_path = copy.folder().join("results");
    let mut results = Results::read(&results_path);
    let equivalent = equivalent::Index::of(&copy.all_mutants(&files))?;
    if arguments.write {
        return write(shell, &files, &copy, &equivalent, &results);
    }
    let wanted = |mutant: &Mutant| {
        let shown = mutant.to_string();
        let filters = &arguments.filters;
        (filters.is_empty() || filters.iter().any(|filter| shown.contains(filter)))
            && (!arguments.alive || results.is_alive(mutant.id) == Some(true))
    };
    let mut candidates = candidates(&copy, &files, &wanted);
    if let Some(count) = arguments.sample {
        candidates.retain(|of| !of.needs_server());
        candidates.sort_by_key(|candidate| candidate.mutant.id);
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
    // Some of them may have turned out not to compile.
    let compiled: BTreeSet<u64> = copy.mutants().map(|(mutant, _)| mutant.id).collect();
    candidates.retain(|of| of.mutant.text.is_some() || compiled.contains(&of.mutant.id));
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
    fates.iter().for_each(|(&id, fate)| results.add(id, fate));
    results.write(&results_path)?;
    report::finish(&candidates_with(&candidates, &fates))
}

/// Writes the tables of the document, which are its end.
fn write(
    shell: &Shell,
    files: &Files,
    copy: &Copy<'_>,
    equivalent: &equivalent::Index,
    results: &Results,
) -> Outcome {
    let text = files.text(DOCUMENT).ok_or("there is no document")?;
    let (before, _) = text.split_once(RESULTS).unwrap_or((text, ""));
    let all = candidates(copy, files, &|_| true);
    let mutants: Vec<_> = all.iter().map(|of| &of.mutant).collect();
    let tables = report::tables(&mutants, copy.dropped(), equivalent, results)?;
    shell.write_file(DOCUMENT, format!("{before}{tables}"))?;
    Ok(())
}

fn candidates_with<'c>(
    candidates: &'c [Candidate],
    fates: &'c BTreeMap<u64, Fate>,
) -> Vec<(&'c Mutant, &'c Fate)> {
    let mut all: Vec<_> = candidates
        .iter()
        .filter_map(|of| Some((&of.mutant, fates.get(&of.mutant.id)?)))
        .collect();
    all.sort_by(|(a, _), (b, _)| (&a.file, a.line).cmp(&(&b.file, b.line)));
    all
}

/// Returns the mutants that are `wanted`.
fn candidates(copy: &Copy<'_>, files: &Files, wanted: &dyn Fn(&Mutant) -> bool) -> Vec<Candidate> {
    let rust = copy.mutants().map(|(mutant, is_wire)| Candidate {
        mutant: mutant.clone(),
        is_wire,
    });
    let lua = sources::lua(files)
        .into_iter()
        .flat_map(|(_, mutants)| mutants);
    let lua = lua.map(|mutant| Candidate {
        mutant,
        is_wire: true,
    });
    rust.chain(lua).filter(|of| wanted(&of.mutant)).collect()
}

/// The tests that mutants are tried against.
struct Trial<'t> {
    /// Cheapest first.
    tests: &'t [Test],
    folder: &'t Path,
    /// The tests that noticed mutants of a place, the latest last.
    killers: Mutex<HashMap<(String, String), Vec<usize>>>,
}

impl Trial<'_> {
    /// Tries all mutants, and returns what becomes of each.
    fn all(
        &self,
        candidates: &[Candidate],
        equivalent: &equivalent::Index,
        workers: &[Worker],
    ) -> Result<BTreeMap<u64, Fate>, Box<dyn Error>> {
        let next = AtomicUsize::new(0);
        let fates = Mutex::new(BTreeMap::new());
        each(workers, |worker| {
            while let Some(candidate) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) {
                let fate = match equivalent.reason(candidate.mutant.id) {
                    Some(_) => Fate::Equivalent,
                    None => self
                        .one(candidate, worker)
                        .map_err(|error| error.to_string())?,
                };
                let mut fates = lock(&fates);
                let count = fates.len() + 1;
                println!(
                    "[{count}/{}] {}: {fate}",
                    candidates.len(),
                    candidate.mutant
                );
                fates.insert(candidate.mutant.id, fate);
            }
            Ok(())
        })?;
        Ok(fates.into_inner().unwrap_or_default())
    }

    fn one(&self, candidate: &Candidate, worker: &Worker) -> Result<Fate, Box<dyn Error>> {
        let mutant = &candidate.mutant;
        let place = (mutant.file.clone(), mutant.place.clone());
        let known = lock(&self.killers).get(&place).cloned().unwrap_or_default();
        let mut variables = vec![("TOLLGATE_MUTANT", mutant.id.to_string())];
        let mut path = PathBuf::new();
        if let Some(text) = &mutant.text {
            path = self.folder.join(format!("{}.lua", mutant.id));
            fs::write(&path, text)?;
            let id = sources::script_id(&mutant.file).to_string();
            variables.push(("TOLLGATE_MUTANT_TEXT", id));
            variables.push(("TOLLGATE_MUTANT_TEXT_PATH", path.display().to_string()));
        }
        let judges = || {
            let indices = known.iter().rev().copied();
            let others = (0..self.tests.len()).filter(|index| !known.contains(index));
            indices
                .chain(others)
                .filter(|&index| candidate.is_judged_by(&self.tests[index]))
        };
        let mut fate = match judges().next() {
            Some(_) => Fate::Alive,
            None => Fate::Unreached,
        };
        let mut promises = BTreeSet::new();
        for index in judges() {
            // A promise that was kept on one kind of connection is kept on the others, as far as
            // they come to the mutant too.
            if !promises.insert(promise(&self.tests[index].to_string()).to_owned()) {
                continue;
            }
            let ending = worker.run(&self.tests[index], &variables)?;
            if ending == Ending::Passed {
                continue;
            }
            let mut killers = lock(&self.killers);
            let killers = killers.entry(place).or_default();
            killers.retain(|&killer| killer != index);
            killers.push(index);
            let test = self.tests[index].to_string();
            fate = match ending {
                Ending::TimedOut => Fate::TimedOut(test),
                _ => Fate::Killed(test),
            };
            break;
        }
        if mutant.text.is_some() {
            fs::remove_file(path)?;
        }
        Ok(fate)
    }
}

/// Returns the promise that `test` checks, or else the whole name of the test.
fn promise(test: &str) -> &str {
    test.find("conformance::").map_or(test, |at| &test[at..])
}

#[cfg(test)]
mod tests;
