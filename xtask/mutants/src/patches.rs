//! The patches in `semantic/`: each breaks one crate in a way that changing a single token does not.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::copy::{Copy, Ending};
use crate::{Outcome, Results};

const FOLDER: &str = "xtask/mutants/semantic";

/// Tries the patches that are wanted.
pub(crate) fn run(
    root: &Path,
    copy: &Copy,
    wanted: &dyn Fn(&str) -> bool,
    results: &mut Results,
) -> Outcome {
    let mut untouched = BTreeSet::new();
    for (room, path, change) in patches(root)? {
        if !wanted(&change) {
            continue;
        }
        if copy.apply(&path).is_err() {
            results.skipped(&change, "the lines that it changes are no longer there");
            continue;
        }
        let tests = tests(&room);
        // Otherwise, a test that fails anyway would count as one that notices something.
        if !untouched.contains(&room) {
            copy.restore()?;
            match copy.test(&tests)? {
                Ending::Passed => untouched.insert(room.clone()),
                ending => return Err(format!("without a patch: {ending:?}").into()),
            };
            copy.apply(&path)?;
        }
        match copy.test(&tests)? {
            Ending::Passed => results.alive(change),
            Ending::Failed(tests) => results.killed(&change, &tests.join(", ")),
            Ending::Broken(_) => results.skipped(&change, "it does not compile"),
        }
        copy.restore()?;
    }
    Ok(())
}

/// Returns the patches in order: the crate that each breaks, its path, and its name with its first line, which
/// says what is broken.
fn patches(root: &Path) -> Outcome<Vec<(String, PathBuf, String)>> {
    let mut patches = Vec::new();
    for folder in fs::read_dir(root.join(FOLDER))? {
        let folder = folder?;
        let room = folder.file_name().display().to_string();
        for file in fs::read_dir(folder.path())? {
            let path = file?.path();
            let text = fs::read_to_string(&path)?;
            let broken = text.lines().next().unwrap_or_default();
            let broken = broken.trim_start_matches("# ");
            let name = path.strip_prefix(root)?.display();
            patches.push((room.clone(), path.clone(), format!("{name}: {broken}")));
        }
    }
    patches.sort();
    Ok(patches)
}

/// Returns the arguments that select the tests that judge a crate.
fn tests(room: &str) -> Vec<&str> {
    match room {
        "core" => vec!["--package=tollgate-core", "--package=tollgate-memory"],
        "cli" => vec!["--package=tollgate-cli"],
        "http" => vec!["--package=tollgate-http", "--all-features"],
        "memory" => vec!["--package=tollgate-memory"],
        "mock" => vec!["--package=tollgate-mock"],
        "tokio" => vec!["--package=tollgate-tokio"],
        _ => vec!["--workspace"],
    }
}
