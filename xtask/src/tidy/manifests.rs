//! Checks that every package inherits the lints of its workspace, and that all workspaces have the
//! same lints and profiles.

use crate::project::Files;

/// Where the lints and profiles begin, with which the manifest of a workspace ends.
const SHARED: &str = "[workspace.lints.rust]";

/// Returns the packages that do not inherit the lints, and the workspaces with other lints or profiles
/// than the main one.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let main = files.text("Cargo.toml").unwrap_or_default();
    let shared = main.find(SHARED).map(|start| &main[start..]);
    let mut findings = Vec::new();
    let manifests = files.ending("toml");
    for (path, text) in manifests.filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        if !inherits_lints(text) {
            findings.push(format!("{path} lacks `[lints] workspace = true`"));
        }
        let is_workspace = text.lines().any(|line| line == "[workspace]");
        if is_workspace && !shared.is_some_and(|shared| text.ends_with(shared)) {
            findings.push(format!(
                "{path} does not end as Cargo.toml does, from {SHARED} on"
            ));
        }
    }
    findings
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

    #[test]
    fn a_workspace_with_other_lints_is_found() {
        let root = (
            "Cargo.toml",
            "[workspace]\n\n[workspace.lints.rust]\nmissing_docs = \"warn\"\n",
        );
        let inherits = "[lints]\nworkspace = true\n\n";
        let same = format!("{inherits}{}", root.1);
        let other = same.replace("warn", "allow");
        let found = |text: &str| findings(&Files::of(&[root, ("a/Cargo.toml", text)]));
        assert_eq!(found(&same), [""; 0]);
        assert_eq!(found(&other).len(), 1);
    }
}
