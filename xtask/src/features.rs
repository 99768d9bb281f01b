//! `cargo xtask ci features`: compiles each feature of each library alone.

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::{Files, features};

/// Compiles each library without features, and with each of its features alone. In a build of the
/// workspace, one feature may enable what another one forgets.
pub(crate) fn run(shell: &Shell) -> Outcome {
    let files = Files::read(shell)?;
    let mut findings = Vec::new();
    for name in files.libraries() {
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
