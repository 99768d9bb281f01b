//! Checks that every file of Rust or Lua begins with a sentence that says what it contains.

use crate::project::Files;

/// Returns the files that do not begin with one.
///
/// A crate whose documentation is its README begins with the line that includes it.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let kinds = [("rs", "//!"), ("lua", "--")];
    let all = kinds.into_iter().flat_map(|(kind, mark)| {
        let files = files.ending(kind);
        let silent = files.filter(move |(_, text)| {
            let says = text
                .strip_prefix(mark)
                .is_some_and(|rest| !rest.lines().next().unwrap_or_default().trim().is_empty());
            !says && !text.starts_with("#![doc = include_str!(")
        });
        silent.map(move |(path, _)| format!("{path} does not begin with a sentence after `{mark}`"))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_code_need_a_head() {
        let good = Files::of(&[
            ("a.rs", "//! What it is.\n"),
            ("b.rs", "#![doc = include_str!(\"../README.md\")]\n"),
            ("c.md", "# Title\n"),
            ("d.lua", "-- What it is.\n"),
        ]);
        assert_eq!(findings(&good), [""; 0]);
        let bad = Files::of(&[
            ("a.rs", "use std::fmt;\n//! Too late.\n"),
            ("b.rs", "//!\n"),
            ("c.rs", ""),
            ("d.lua", "local a = 1\n-- Too late.\n"),
        ]);
        assert_eq!(findings(&bad).len(), 4);
    }
}
