//! `Trial`: runs the tests against each mutant.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use xtask::project::OTHER_SERVERS;

use super::copy::Binary;
use super::mutant::Mutant;
use super::report::{Fate, append};
use super::sources;
use super::suite::Test;
use super::worker::{Ending, Worker, each, lock};

/// The file with the results.
pub(super) const RESULTS: &str = "results";
/// Tests that fail whenever the text of a script changes, so that their failure says nothing about
/// a mutant of a script.
const SNAPSHOTS: [&str; 1] = ["scripts::scripts_have_not_changed"];
/// The tests on a server that judge a script, in addition to core's.
const EXACT: &str = "multiplexed_on_system::";

/// The total duration of the tests that a mutant is tried against, fastest first.
///
/// If only the slowest tests detect a mutant, developers notice it too late. And surviving mutants
/// would take most of the time of a run.
const LONGEST: Duration = Duration::from_secs(20);

/// Which tests judge a mutant.
impl Mutant {
    /// Returns the packages whose tests judge this mutant.
    pub(super) fn packages(&self) -> &'static [&'static str] {
        match self.package() {
            _ if self.text.is_some() => &["tollgate-wire", "tollgate-redis"],
            "tollgate-core" if self.is_for_servers() => &[
                "tollgate-core",
                "tollgate-wire",
                "tollgate-redis",
                "tollgate-fred",
            ],
            "tollgate-wire" => &["tollgate-wire", "tollgate-redis", "tollgate-fred"],
            "tollgate-core" => &["tollgate-core", "tollgate-memory"],
            "tollgate-memory" => &["tollgate-memory"],
            "tollgate-mock" => &["tollgate-mock"],
            "tollgate-redis" => &["tollgate-redis"],
            "tollgate-fred" => &["tollgate-fred"],
            "tollgate-tokio" => &["tollgate-tokio"],
            "tollgate-layers" => &["tollgate-layers"],
            "tollgate-http" => &["tollgate-http"],
            "tollgate-cli" => &["tollgate-cli"],
            _ => &[],
        }
    }

    fn is_for_servers(&self) -> bool {
        sources::is_for_servers(&self.file)
    }

    /// Returns whether this mutant needs neither a server nor a runtime.
    pub(super) fn is_pure(&self) -> bool {
        let package = self.package();
        package == "tollgate-memory" || package == "tollgate-core" && !self.is_for_servers()
    }

    /// Returns whether the test `name` in `binary` judges this mutant, if it reaches it.
    pub(super) fn may_be_judged_by(&self, binary: &Binary, name: &str) -> bool {
        if !self.packages().contains(&&*binary.package)
            || OTHER_SERVERS.iter().any(|server| name.contains(server))
        {
            return false;
        }
        match self.text {
            Some(_) if binary.package == "tollgate-wire" => !SNAPSHOTS.contains(&name),
            Some(_) => name.starts_with(EXACT),
            None => true,
        }
    }

    fn is_judged_by(&self, test: &Test) -> bool {
        let reached = match &self.text {
            Some(_) => sources::script_id(&self.file),
            None => self.id,
        };
        test.reaches.contains(&reached) && self.may_be_judged_by(&test.binary, &test.name)
    }
}

/// The tests to run against mutants.
pub(super) struct Trial<'t> {
    /// Fastest first. Those of a mutant's own crate are run before others.
    pub(super) tests: &'t [Test],
    pub(super) folder: &'t Path,
    /// The tests that detected mutants of a place, the latest last.
    pub(super) killers: Mutex<HashMap<(String, String), Vec<usize>>>,
}

impl Trial<'_> {
    /// Tries all mutants and returns their results.
    pub(super) fn all(
        &self,
        candidates: &[Mutant],
        equivalent: &HashSet<u64>,
        workers: &[Worker],
    ) -> Result<BTreeMap<u64, Fate>, Box<dyn Error>> {
        let next = AtomicUsize::new(0);
        let fates = Mutex::new(BTreeMap::new());
        each(workers, |worker| {
            while let Some(candidate) = candidates.get(next.fetch_add(1, Ordering::Relaxed)) {
                let fate = if equivalent.contains(&candidate.id) {
                    Fate::Equivalent
                } else {
                    self.one(candidate, worker)
                        .map_err(|error| error.to_string())?
                };
                let mut fates = lock(&fates);
                let count = fates.len() + 1;
                println!("[{count}/{}] {}: {fate}", candidates.len(), candidate);
                // Write each result at once, because the run may be interrupted.
                append(&self.folder.join(RESULTS), candidate.id, &fate)
                    .map_err(|error| error.to_string())?;
                fates.insert(candidate.id, fate);
            }
            Ok(())
        })?;
        Ok(fates.into_inner().unwrap_or_default())
    }

    fn one(&self, mutant: &Mutant, worker: &Worker) -> Result<Fate, Box<dyn Error>> {
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
            let others = || (0..self.tests.len()).filter(|index| !known.contains(index));
            let is_own = |index: &usize| self.tests[*index].binary.package == mutant.package();
            indices
                .chain(others().filter(is_own))
                .chain(others().filter(move |index| !is_own(index)))
                .filter(|&index| mutant.is_judged_by(&self.tests[index]))
        };
        let mut fate = match judges().next() {
            Some(_) => Fate::Alive,
            None => Fate::Unreached,
        };
        let mut promises = BTreeSet::new();
        let mut spent = Duration::ZERO;
        for index in judges() {
            // If a promise held on one kind of connection, the others would give the same result.
            if !promises.insert(promise(&self.tests[index].to_string()).to_owned()) {
                continue;
            }
            if spent > LONGEST {
                break;
            }
            spent += self.tests[index].cost;
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

/// Returns the promise that `test` checks, or else the test's full name.
pub(super) fn promise(test: &str) -> &str {
    test.find("conformance::").map_or(test, |at| &test[at..])
}
