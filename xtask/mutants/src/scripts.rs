//! The mutants of the Lua scripts, which are written into the test programs.
//!
//! A program contains the text of each script, so nothing is built again: the text is overwritten in a copy of
//! the program, with another one of the same length.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::copy::{Copy, Ending};
use crate::lua::{self, Mutant};
use crate::{Outcome, Results, equivalents};

/// The tests that judge scripts: those that compare them with the state machines, and the promises on one kind of
/// connection.
const PACKAGES: [&str; 2] = ["--package=tollgate-wire", "--package=tollgate-redis"];
const JUDGES: &str = "package(tollgate-wire) | test(multiplexed_on_system)";
/// How many of the tests that noticed the last mutants of a script are tried first.
const FIRST: usize = 4;

/// Tries the mutants that are wanted.
pub(crate) fn run(
    root: &Path,
    copy: &Copy,
    wanted: &dyn Fn(&str) -> bool,
    results: &mut Results,
) -> Outcome {
    let mut all = all(&copy.tree)?;
    let names = all.iter().flat_map(|(_, mutants)| mutants);
    let names: BTreeSet<&str> = names.map(|mutant| mutant.name.as_str()).collect();
    let equivalents = equivalents::read(root, &names)?;
    let is_tried = |mutant: &Mutant| wanted(&mutant.name) && !equivalents.contains(&mutant.name);
    all.retain(|(_, mutants)| mutants.iter().any(is_tried));
    if all.is_empty() {
        return Ok(());
    }
    let programs = Programs::build(copy)?;
    if let ending @ (Ending::Failed(_) | Ending::Broken(_)) = programs.test(copy, JUDGES, &[])? {
        return Err(format!("without a mutant: {ending:?}").into());
    }
    for (text, mutants) in &all {
        let mutants: Vec<&Mutant> = mutants.iter().filter(|mutant| is_tried(mutant)).collect();
        programs.try_script(copy, text, &mutants, results)?;
    }
    Ok(())
}

/// Returns the text of each script of the project `tree`, and its mutants.
pub(crate) fn all(tree: &Path) -> Outcome<Vec<(String, Vec<Mutant>)>> {
    let crates = tree.join("crates");
    let mut scripts = Vec::new();
    find(&crates, &mut scripts)?;
    scripts.sort();
    let mut all = Vec::new();
    for path in scripts {
        let name = path.strip_prefix(&crates)?;
        let text = fs::read_to_string(&path)?;
        let mutants = lua::mutants(&name.display().to_string(), &text);
        all.push((text, mutants));
    }
    Ok(all)
}

/// Adds the Lua files below `folder`.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            found.push(path);
        }
    }
    Ok(())
}

/// Copies of the test programs.
struct Programs {
    /// Each with its bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// The file that says to nextest where they are.
    metadata: String,
}

impl Programs {
    fn build(copy: &Copy) -> Outcome<Self> {
        let list = ["list", "--list-type=binaries-only", "--message-format=json"];
        let output = copy.nextest(&[&list[..], &PACKAGES].concat())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let mut text = String::from_utf8(output.stdout)?;
        let paths = text.split("\"binary-path\":\"").skip(1);
        let paths = paths.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        let mut files = Vec::new();
        for path in paths.collect::<BTreeSet<_>>() {
            let bytes = fs::read(&path)?;
            let copied = copy
                .folder
                .join(Path::new(&path).file_name().unwrap_or_default());
            fs::copy(&path, &copied)?;
            text = text.replace(&path, &copied.display().to_string());
            files.push((copied, bytes));
        }
        let metadata = copy.folder.join("programs.json");
        fs::write(&metadata, text)?;
        Ok(Self {
            files,
            metadata: metadata.display().to_string(),
        })
    }

    /// Runs those tests that a filter of nextest selects.
    fn test(&self, copy: &Copy, filter: &str, options: &[&str]) -> Outcome<Ending> {
        let selected = ["--binaries-metadata", &self.metadata, "-E", filter];
        copy.test(&[&selected, options].concat())
    }

    fn try_script(
        &self,
        copy: &Copy,
        text: &str,
        mutants: &[&Mutant],
        results: &mut Results,
    ) -> Outcome {
        let places = self.places(text);
        let write = |text: &str| -> Outcome {
            for (path, at) in &places {
                let program = OpenOptions::new().write(true).open(path)?;
                program.write_all_at(text.as_bytes(), *at)?;
            }
            Ok(())
        };
        let failing = |text: &str| -> Outcome<Vec<String>> {
            write(text)?;
            match self.test(copy, JUDGES, &["--no-fail-fast", "--retries=0"])? {
                Ending::Passed => Ok(Vec::new()),
                Ending::Failed(tests) => Ok(tests),
                Ending::Broken(error) => Err(error.into()),
            }
        };
        // The tests that run the script fail if it is nonsense. Others fail after any change of its text.
        let mut judges = failing(&lua::nonsense(text))?;
        let snapshots = failing(&lua::harmless(text))?;
        judges.retain(|test| !snapshots.contains(test));
        let mut killers: Vec<String> = Vec::new();
        for mutant in mutants {
            let Some(changed) = lua::fitted(&mutant.text, text.len()) else {
                results.skipped(&mutant.name, "it is too long to replace the script");
                continue;
            };
            write(&changed)?;
            let mut ending = Ending::Passed;
            // Without judges, nothing notices the mutant.
            for tests in [&killers, &judges] {
                if matches!(ending, Ending::Passed) && !tests.is_empty() {
                    ending = self.test(copy, &filter(tests), &[])?;
                }
            }
            match ending {
                Ending::Passed => results.alive(mutant.name.clone()),
                Ending::Failed(tests) => {
                    results.killed(&mutant.name, &tests.join(", "));
                    killers.retain(|killer| !tests.contains(killer));
                    killers.splice(0..0, tests);
                    killers.truncate(FIRST);
                }
                Ending::Broken(error) => return Err(error.into()),
            }
        }
        write(text)
    }

    /// Returns where the programs contain `text`.
    fn places(&self, text: &str) -> Vec<(&Path, u64)> {
        let text = text.as_bytes();
        let mut places = Vec::new();
        for (path, bytes) in &self.files {
            let mut at = 0;
            while let Some(next) = bytes[at..].iter().position(|&byte| byte == text[0]) {
                at += next;
                if bytes[at..].starts_with(text) {
                    places.push((&**path, u64::try_from(at).unwrap_or(u64::MAX)));
                }
                at += 1;
            }
        }
        places
    }
}

/// Returns the filter of nextest that selects these tests.
fn filter(tests: &[String]) -> String {
    let each: Vec<String> = tests.iter().map(|test| format!("test(={test})")).collect();
    each.join(" | ")
}
