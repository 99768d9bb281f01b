//! The changes in `semantic/`: each breaks one crate in a way that changing a single token does not.
//!
//! A file there is about one crate. A line with a path names the source that the lines after it change; a line of
//! text begins a change and says what it breaks; lines with `-` are replaced by those with `+` after them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::copy::{Copy, Ending};
use crate::{Outcome, Results};

const FOLDER: &str = "xtask/mutants/semantic";

/// One change.
struct Patch {
    /// The crate that it breaks.
    room: String,
    /// What is broken.
    name: String,
    edits: Vec<Edit>,
}

/// Whole lines of a source, and those that replace them.
#[derive(Debug, Eq, PartialEq)]
struct Edit {
    path: String,
    old: String,
    new: String,
}

/// Tries the changes that are wanted.
pub(crate) fn run(
    root: &Path,
    copy: &Copy,
    wanted: &dyn Fn(&str) -> bool,
    results: &mut Results,
) -> Outcome {
    let mut untouched = BTreeSet::new();
    for Patch { room, name, edits } in patches(root)? {
        let change = format!("semantic/{room}: {name}");
        if !wanted(&change) {
            continue;
        }
        let Some(texts) = changed(&copy.tree, &edits)? else {
            results.skipped(&change, "the lines that it changes are no longer there");
            continue;
        };
        let tests = tests(&room);
        // Otherwise, a test that fails anyway would count as one that notices something.
        if !untouched.contains(&room) {
            match copy.test(&tests)? {
                Ending::Passed => untouched.insert(room.clone()),
                ending => return Err(format!("without a change: {ending:?}").into()),
            };
        }
        for (path, text) in texts {
            fs::write(copy.tree.join(path), text)?;
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

/// Returns all changes in order.
fn patches(root: &Path) -> Outcome<Vec<Patch>> {
    let mut patches = Vec::new();
    for file in fs::read_dir(root.join(FOLDER))? {
        let path = file?.path();
        let room = path.file_stem().unwrap_or_default().display().to_string();
        patches.extend(parse(&room, &fs::read_to_string(&path)?));
    }
    patches.sort_by(|one, other| one.room.cmp(&other.room));
    Ok(patches)
}

/// Returns the changes of a file in `semantic/`.
fn parse(room: &str, text: &str) -> Vec<Patch> {
    let mut patches: Vec<Patch> = Vec::new();
    let mut path = "";
    for line in text.lines() {
        if line.ends_with(".rs") && !line.contains(' ') {
            path = line;
            continue;
        }
        let Some(code) = line.strip_prefix(['-', '+']) else {
            patches.push(Patch {
                room: room.to_owned(),
                name: line.to_owned(),
                edits: Vec::new(),
            });
            continue;
        };
        let Some(Patch { edits, .. }) = patches.last_mut() else {
            continue;
        };
        let is_old = line.starts_with('-');
        let goes_on = |edit: &Edit| edit.path == path && (!is_old || edit.new.is_empty());
        if !edits.last().is_some_and(goes_on) {
            edits.push(Edit {
                path: path.to_owned(),
                old: String::new(),
                new: String::new(),
            });
        }
        if let Some(edit) = edits.last_mut() {
            let text = if is_old { &mut edit.old } else { &mut edit.new };
            *text += &format!("{code}\n");
        }
    }
    patches
}

/// Returns the sources after `edits`, with their paths; `None` unless each finds its lines, and only once.
fn changed<'e>(tree: &Path, edits: &'e [Edit]) -> Outcome<Option<Vec<(&'e str, String)>>> {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for Edit { path, old, new } in edits {
        let Ok(source) = fs::read_to_string(tree.join(path)) else {
            return Ok(None);
        };
        // A line begins after the end of another one.
        let before = texts.iter().position(|(of, _)| of == path);
        let before = before.map(|index| texts.swap_remove(index).1);
        let source = format!("\n{}", before.unwrap_or(source));
        let old = format!("\n{old}");
        if source.matches(&old).count() != 1 {
            return Ok(None);
        }
        let text = source.replacen(&old, &format!("\n{new}"), 1);
        texts.push((path, text[1..].to_owned()));
    }
    Ok(Some(texts))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_finds_its_lines_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let all = patches(&root).unwrap();
        let stale = all.iter().filter(|Patch { edits, .. }| {
            let texts = changed(&root, edits).unwrap();
            texts.is_none_or(|texts| texts.is_empty())
        });
        let stale: Vec<&str> = stale.map(|Patch { name, .. }| &**name).collect();
        assert!(stale.is_empty(), "{stale:#?}");
    }
}
