//! Checks that every package inherits the lints of its workspace, that the workspace of the peers has the same
//! lints and profiles, and that the crates depend on each other by exactly one version.

use crate::project::{Files, PEERS};

/// Where the lints and profiles begin, with which the manifest of a workspace ends.
const SHARED: &str = "[workspace.lints.rust]";
/// What a package says that inherits the lints.
const INHERITS: &str = "\n[lints]\nworkspace = true\n";

/// Returns the packages that do not inherit the lints, whether the peers have others than the main workspace, and
/// the crates that others may use in another version.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let manifests = files
        .ending("toml")
        .filter(|(path, _)| path.ends_with("/Cargo.toml"));
    let lax = manifests.filter(|(_, text)| !text.contains(INHERITS));
    let lax = lax.map(|(path, _)| format!("{path} lacks `[lints] workspace = true`"));
    let mut findings: Vec<String> = lax.collect();
    let shared = |path: &str| {
        let text = files.text(path)?;
        text.find(SHARED).map(|start| &text[start..])
    };
    if shared("Cargo.toml") != shared(&format!("{PEERS}/Cargo.toml")) {
        findings.push(format!(
            "{PEERS}/Cargo.toml does not end as Cargo.toml does, from {SHARED} on"
        ));
    }
    findings.extend(files.unpinned());
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_and_profiles_are_shared() {
        let shared = format!("{SHARED}\nmissing_docs = \"warn\"\n");
        let found = |package: &str, peers: &str| {
            let files = [
                ("Cargo.toml", &*shared),
                ("crates/a/Cargo.toml", package),
                ("benches/peers/Cargo.toml", peers),
            ];
            findings(&Files::of(&files)).len()
        };
        let peers = format!("[package]\n{INHERITS}\n{shared}");
        assert_eq!(found(INHERITS, &peers), 0);
        assert_eq!(found("[package]\nworkspace = true\n", &peers), 1);
        assert_eq!(found(INHERITS, &peers.replace("warn", "allow")), 1);
        assert_eq!(found(INHERITS, INHERITS), 1);
    }
}
