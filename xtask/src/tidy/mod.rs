//! `cargo xtask tidy`: checks what the compiler does not, and prints how many lines each room has.

mod facts;
mod heads;
mod links;

use std::collections::BTreeMap;

use xshell::Shell;

use crate::outcome::{Outcome, report};
use crate::project::Files;

pub(crate) fn run(shell: &Shell) -> Outcome {
    let files = Files::read(shell)?;
    for (room, lines) in rooms(&files) {
        println!("{lines:>7} {room}");
    }
    report("tidy", &findings(&files))
}

fn findings(files: &Files) -> Vec<String> {
    [heads::findings, facts::findings, links::findings]
        .into_iter()
        .flat_map(|check| check(files))
        .collect()
}

/// Returns the number of lines in each room, without lock files: two folders deep, or three in `crates`.
fn rooms(files: &Files) -> BTreeMap<String, usize> {
    let mut rooms = BTreeMap::new();
    for (path, text) in files
        .iter()
        .filter(|(path, _)| !path.ends_with("Cargo.lock"))
    {
        let depth = if path.starts_with("crates/") { 3 } else { 2 };
        let mut folders: Vec<&str> = path.split('/').collect();
        folders.pop();
        folders.truncate(depth);
        *rooms.entry(folders.join("/")).or_default() += text.lines().count();
    }
    rooms.insert("all".to_owned(), rooms.values().sum());
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;

    #[test]
    fn the_project_is_tidy() {
        let files = Files::read(&project::shell().unwrap()).unwrap();
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn lines_are_counted_by_room() {
        let files = Files::of(&[
            ("Cargo.lock", "a\nb\n"),
            ("README.md", "a\n"),
            ("crates/a/src/b/c.rs", "a\nb\n"),
            ("crates/a/src/lib.rs", "a\n"),
            ("xtask/src/lib.rs", "a\n"),
        ]);
        let expected = [("", 1), ("all", 5), ("crates/a/src", 3), ("xtask/src", 1)];
        assert_eq!(
            rooms(&files),
            expected
                .map(|(room, lines)| (room.to_owned(), lines))
                .into()
        );
    }
}
