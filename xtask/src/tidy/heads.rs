//! Checks that every Rust file begins with a sentence that says what it contains.

use crate::project::Files;

/// Returns the Rust files that do not begin with one.
///
/// A crate whose documentation is its README begins with the line that includes it.
pub(super) fn findings(files: &Files) -> Vec<String> {
    files
        .ending("rs")
        .filter(|(_, text)| {
            let says = text
                .strip_prefix("//!")
                .is_some_and(|rest| !rest.lines().next().unwrap_or_default().trim().is_empty());
            !says && !text.starts_with("#![doc = include_str!(")
        })
        .map(|(path, _)| format!("{path} does not begin with a sentence after `//!`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rust_files_need_a_head() {
        let good = Files::of(&[
            ("a.rs", "//! What it is.\n"),
            ("b.rs", "#![doc = include_str!(\"../README.md\")]\n"),
            ("c.md", "# Title\n"),
        ]);
        assert_eq!(findings(&good), [""; 0]);
        let bad = Files::of(&[
            ("a.rs", "use std::fmt;\n//! Too late.\n"),
            ("b.rs", "//!\n"),
            ("c.rs", ""),
        ]);
        assert_eq!(findings(&bad).len(), 3);
    }
}
