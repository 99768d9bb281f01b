//! `cargo xtask mutants --semantic`: breaks the project by the patches in this folder, one at a time,
//! and checks that a test fails.
//!
//! They are changes that no operator makes: a step that is forgotten, a value that is out of date, a
//! wake-up that is lost. Each is built by itself, so a patch takes longer than a mutant does.

mod patch;

use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use xshell::Shell;

use self::patch::Patch;
use super::copy::{Binary, Copy};
use super::mutant::Mutant;
use super::report::Fate;
use super::suite::{self, Test};
use super::worker::{Ending, Worker, each, lock};
use xtask::Outcome;
use xtask::project::Files;

/// Tries the patches whose name or sentence contains one of `filters`; all, if there are none.
pub(super) fn run(shell: &Shell, filters: &[String]) -> Outcome {
    let files = Files::read(shell)?;
    let mut patches = Patch::all(&files)?;
    patches.retain(|Patch { name, broken, .. }| {
        let is_named = |filter: &String| name.contains(filter) || broken.contains(filter);
        filters.is_empty() || filters.iter().any(is_named)
    });
    if patches.is_empty() {
        return Err("there is no such patch".into());
    }
    // Before anything is built, which takes long.
    for patch in &patches {
        patch.apply(&files)?;
    }
    // Patches that the same tests judge come one after another.
    patches.sort_by_key(|patch| (patch.mutant().packages(), patch.is_for_servers()));
    let mut fates = Vec::new();
    for patches in patches.chunk_by(|a, b| {
        let [a, b] = [a, b].map(|patch| (patch.mutant().packages(), patch.is_for_servers()));
        a == b
    }) {
        let found = try_together(shell, &files, patches)?;
        fates.extend(patches.iter().zip(found));
    }
    finish(&fates)
}

/// Tries patches that the same tests judge.
fn try_together(
    shell: &Shell,
    files: &Files,
    patches: &[Patch],
) -> Result<Vec<Fate>, Box<dyn Error>> {
    let candidate = patches[0].mutant();
    let mut original = Copy::plain(shell, files);
    let binaries = original.build(candidate.packages())?;
    let count = std::thread::available_parallelism()?.get();
    let workers = (0..count).map(|number| Worker::new(original.folder(), number));
    let workers = workers.collect::<Result<Vec<_>, _>>()?;
    let wanted = |binary: &Binary, name: &str| candidate.may_be_judged_by(binary, name);
    let known = original.folder().join("measured-semantic");
    let suite = suite::measure(&binaries, &wanted, &workers, &known)?;
    for test in &suite.failing {
        println!("mutants: fails without any patch, and is not used: {test}");
    }
    let mut fates = Vec::new();
    for patch in patches {
        let changed = patch.apply(files)?;
        // The programs have the same paths as before.
        let built = Copy::plain(shell, &changed).build(candidate.packages());
        built.map_err(|error| format!("{}: {error}", patch.name))?;
        let fate = fate(&suite.tests, &workers)?;
        println!("{}: {fate}", patch.name);
        fates.push(fate);
    }
    Ok(fates)
}

/// Runs the tests until one fails, the fastest first.
///
/// It must fail twice in a row: a test that fails now and then says nothing about the patch.
fn fate(tests: &[Test], workers: &[Worker]) -> Result<Fate, Box<dyn Error>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Fate::Alive);
    each(workers, |worker| {
        while *lock(&found) == Fate::Alive
            && let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let run = || worker.run(test, &[]).map_err(|error| error.to_string());
            let fate = match (run()?, test.to_string()) {
                (Ending::Passed, _) => continue,
                (Ending::TimedOut, name) => Fate::TimedOut(name),
                (Ending::Failed, _) if run()? == Ending::Passed => continue,
                (Ending::Failed, name) => Fate::Killed(name),
            };
            *lock(&found) = fate;
        }
        Ok(())
    })?;
    Ok(found.into_inner().unwrap_or(Fate::Alive))
}

/// Prints the results, and fails if a patch lives.
fn finish(fates: &[(&Patch, Fate)]) -> Outcome {
    println!("\n| patch | what is broken | result |\n|---|---|---|");
    for (Patch { name, broken, .. }, fate) in fates {
        println!("| {name} | {broken} | {fate} |");
    }
    let alive = fates.iter().filter(|(_, fate)| *fate == Fate::Alive);
    match alive.count() {
        0 => Ok(()),
        count => Err(format!("{count} patches live: no test notices them").into()),
    }
}

impl Patch {
    /// Returns the patch as a mutant, which the same tests judge.
    fn mutant(&self) -> Mutant {
        Mutant {
            id: 0,
            file: self.file().to_owned(),
            line: 1,
            place: self.name.clone(),
            before: self.broken.clone(),
            after: String::new(),
            nth: 0,
            text: None,
        }
    }
}

#[cfg(test)]
mod tests;
