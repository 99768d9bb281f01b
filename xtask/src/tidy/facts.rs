//! Checks facts that documents repeat: the oldest compiler, and which crates there are.

use crate::project::Files;

/// The document that says which compiler is needed.
const README: &str = "README.md";
/// The document that lists all crates; the README lists those that are published.
const CRATES: &str = "docs/architecture.md";

/// Returns what the documents say that is not so, or leave out.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    let text = |path: &str| files.text(path).unwrap_or_default();
    let oldest = format!(
        "Rust {} or later",
        files.rust_version().unwrap_or("unknown")
    );
    if !text(README).contains(&oldest) {
        findings.push(format!(
            "{README} does not say `{oldest}`, as Cargo.toml does"
        ));
    }
    for (path, crates) in [
        (README, files.published()),
        (CRATES, files.folders_in("crates/")),
    ] {
        let missing = crates.into_iter().filter(|name| !text(path).contains(name));
        findings.extend(missing.map(|name| format!("{path} does not name {name}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_and_a_compiler_that_are_not_named_are_found() {
        let found = |readme: &str| {
            let files = [
                ("Cargo.toml", "rust-version = \"1.99\"\n"),
                ("crates/tollgate-x/Cargo.toml", ""),
                (CRATES, "`tollgate-x`"),
                (README, readme),
            ];
            findings(&Files::of(&files)).len()
        };
        assert_eq!(found("`tollgate-x` needs Rust 1.99 or later."), 0);
        assert_eq!(found("`tollgate-x` needs Rust 1.98 or later."), 1);
        assert_eq!(found(""), 2);
    }
}
