//! Checks that every package inherits the lints of the workspace.

use crate::project::Files;

/// Returns the packages that do not inherit the lints.
pub(super) fn findings(files: &Files) -> Vec<String> {
    files
        .iter()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .filter(|(_, text)| !inherits_lints(text))
        .map(|(path, _)| format!("{path} lacks `[lints] workspace = true`"))
        .collect()
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest.lines().map(str::trim);
    lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_with_lints_of_its_own_is_found() {
        let good = (
            "crates/a/Cargo.toml",
            "[package]\n\n[lints]\nworkspace = true\n",
        );
        let none = ("crates/b/Cargo.toml", "[package]\nworkspace = true\n");
        let own = (
            "xtask/Cargo.toml",
            "[lints]\nrust.missing_docs = \"allow\"\n",
        );
        // The root manifest declares the lints.
        let root = ("Cargo.toml", "[workspace]\n");
        assert_eq!(findings(&Files::of(&[good, root])), [""; 0]);
        assert_eq!(findings(&Files::of(&[good, none, own, root])).len(), 2);
    }
}
