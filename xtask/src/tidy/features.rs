//! Checks that the README of every published crate lists the crate's features, and no others.

use std::collections::BTreeSet;

use crate::project::{Files, features};

/// Returns the features that a README omits or invents.
pub(super) fn findings(files: &Files) -> Vec<String> {
    let mut findings = Vec::new();
    for name in files.published() {
        let manifest = files.text(&format!("crates/{name}/Cargo.toml"));
        let manifest = manifest.unwrap_or_default();
        let path = format!("crates/{name}/README.md");
        let listed = listed(files.text(&path).unwrap_or_default());
        // Private features have names that begin with `__`.
        let features = features(manifest).filter(|feature| !feature.starts_with("__"));
        let features: BTreeSet<&str> = features.collect();
        let missing = features.difference(&listed).map(|feature| {
            format!("{path} omits the feature {feature}: add it to the table headed `feature`")
        });
        findings.extend(missing);
        let extra = listed.difference(&features);
        findings.extend(
            extra.map(|feature| {
                format!("{path} lists the feature {feature}, which the crate lacks")
            }),
        );
    }
    findings
}

/// Returns the features in `readme`: the code in the first column of a table headed `feature`.
fn listed(readme: &str) -> BTreeSet<&str> {
    let mut listed = BTreeSet::new();
    let mut is_table = false;
    for line in readme.lines() {
        let row = line.strip_prefix('|').and_then(|row| row.split('|').next());
        let first = row.map(str::trim);
        is_table = first == Some("feature") || is_table && first.is_some();
        if is_table {
            listed.extend(first.unwrap_or_default().split('`').skip(1).step_by(2));
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "[features]\ndefault = [\"tls\"]\ntls = []\nserde = []\n__own = []\n\n[lints]\n";

    fn found(readme: &str) -> Vec<String> {
        findings(&Files::of(&[
            ("crates/a/Cargo.toml", MANIFEST),
            ("crates/a/README.md", readme),
            (
                "crates/b/Cargo.toml",
                "publish = false\n[features]\nx = []\n",
            ),
        ]))
    }

    #[test]
    fn omitted_and_invented_features_are_found() {
        let table =
            "# A\n\n| feature | adds |\n|---|---|\n| `serde`, `tls` | both `x` |\n\n| `y` | z |\n";
        assert_eq!(found(table), [""; 0]);
        assert_eq!(
            found(&table.replace("`serde`", "`gzip`")),
            [
                "crates/a/README.md omits the feature serde: add it to the table headed `feature`",
                "crates/a/README.md lists the feature gzip, which the crate lacks"
            ]
        );
        assert_eq!(found(&table.replace("feature", "option")).len(), 2);
    }
}
