//! `cargo xtask ci features`: compiles each feature of each library alone.

use xshell::{Shell, cmd};

use crate::project::Files;
use crate::{Outcome, lint, report};

/// Compiles each library without features, and with each of its features alone. In a build of the
/// workspace, one feature may enable what another one forgets.
pub(crate) fn run(shell: &Shell) -> Outcome {
    let files = Files::read(shell)?;
    let mut findings = Vec::new();
    for name in lint::libraries(&files) {
        let manifest = files.text(&format!("crates/{name}/Cargo.toml"));
        let features = features(manifest.unwrap_or_default());
        for feature in [""].into_iter().chain(features) {
            let check = cmd!(
                shell,
                "cargo check --locked --package {name} --lib --no-default-features --features={feature}"
            );
            if check.run().is_err() {
                findings.push(format!("{name} does not compile with `{feature}` alone"));
            }
        }
    }
    report("features", &findings)
}

/// Returns the names of the features in `manifest`.
pub(crate) fn features(manifest: &str) -> impl Iterator<Item = &str> {
    manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with('#') && *name != "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"a\"\n\n[features]\ndefault = [\"tls\"]\n# As in a = b.\n\
                        tls = []\nlong = [\n    \"dep:b\",\n]\n\n[dependencies]\nb = \"1\"\n";
        assert_eq!(features(manifest).collect::<Vec<_>>(), ["tls", "long"]);
        assert_eq!(features("[package]\n").count(), 0);
    }
}
