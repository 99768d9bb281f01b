//! Checks that no visible files or folders are added to the top level.

use std::collections::BTreeSet;

use crate::project::Files;

const TOP_LEVEL: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "benches",
    "crates",
    "docs",
    "xtask",
];

/// Returns what is at the top level but not listed, or listed but missing.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let found: BTreeSet<&str> = files
        .iter()
        .filter_map(|(path, _)| path.split('/').next())
        .filter(|name| !name.starts_with('.'))
        .collect();
    let expected = BTreeSet::from(TOP_LEVEL);
    let extra = found
        .difference(&expected)
        .map(|name| format!("{name} does not belong at the top level"));
    let missing = expected
        .difference(&found)
        .map(|name| format!("{name} is missing at the top level"));
    extra.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Files {
        let files: Vec<_> = paths.iter().map(|path| (*path, "")).collect();
        Files::of(&files)
    }

    const GOOD: [&str; 11] = [
        ".ci/run",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "benches/Cargo.toml",
        "crates/a/Cargo.toml",
        "docs/architecture.md",
        "xtask/Cargo.toml",
    ];

    #[test]
    fn extra_and_missing_entries_are_found() {
        assert_eq!(findings(&files(&GOOD)), [""; 0]);
        assert_eq!(findings(&files(&GOOD[..10])).len(), 1);
        let mut more = GOOD.to_vec();
        more.push("scripts/build.sh");
        assert_eq!(
            findings(&files(&more)),
            ["scripts does not belong at the top level"]
        );
    }
}
