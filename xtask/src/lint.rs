//! `cargo xtask lint`: runs all checks that do not execute the code.

use xshell::{Shell, cmd};

use crate::outcome::{Outcome, Record};
use crate::project::{Files, PEERS, WORKSPACES};
use crate::{layers, names, servers, tidy};

/// Runs every step even if one fails, so that one run finds all problems.
pub(crate) fn run(shell: &Shell) -> Outcome {
    let mut failed = Vec::new();
    let mut step = |name: &str, outcome: Outcome| match outcome {
        Ok(()) => println!("lint: {name}: ok"),
        Err(error) => {
            println!("lint: {name}: {error}");
            failed.push(name.to_owned());
        }
    };
    for folder in WORKSPACES {
        step(&format!("format, {folder}"), format(shell, folder));
    }
    step("clippy, workspace", clippy_workspace(shell));
    let files = Files::read(shell)?;
    for name in files.libraries() {
        step(&format!("clippy, {name}"), clippy_alone(shell, name));
    }
    step("clippy, the program in memory alone", clippy_demo(shell));
    step("documentation", documentation(shell));
    step("names", names::run(shell, &Record::default()));
    step("layers", layers::run(shell));
    step("tidy", tidy::run(shell));
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("failed: {}", failed.join("; ")).into())
}

fn format(shell: &Shell, folder: &str) -> Outcome {
    Ok(cmd!(
        shell,
        "cargo fmt --manifest-path {folder}/Cargo.toml --all -- --check"
    )
    .run()?)
}

fn clippy_workspace(shell: &Shell) -> Outcome {
    Ok(cmd!(
        shell,
        "cargo clippy --workspace --all-targets --keep-going -- -D warnings"
    )
    .run()?)
}

/// Lints the peers, in the target folder of the main workspace, so that both share dependencies.
/// That would make `lint` a fifth longer, so only `cargo xtask ci peers` does it.
pub(crate) fn clippy_peers(shell: &Shell) -> Outcome {
    let target = servers::target(shell);
    Ok(cmd!(
        shell,
        "cargo clippy --manifest-path {PEERS}/Cargo.toml --target-dir {target} --locked --all-targets -- -D warnings"
    )
    .run()?)
}

/// Lints one library alone. In a build of the workspace, another crate may enable a feature that
/// this library's manifest forgets. `cargo xtask ci features` compiles it with each feature.
fn clippy_alone(shell: &Shell, name: &str) -> Outcome {
    Ok(cmd!(shell, "cargo clippy --package {name} --lib -- -D warnings").run()?)
}

/// Lints the build of `cargo demo`.
fn clippy_demo(shell: &Shell) -> Outcome {
    Ok(cmd!(
        shell,
        "cargo clippy --package tollgate-cli --no-default-features -- -D warnings"
    )
    .run()?)
}

fn documentation(shell: &Shell) -> Outcome {
    Ok(cmd!(
        shell,
        "cargo doc --workspace --no-deps --document-private-items --keep-going"
    )
    .env("RUSTDOCFLAGS", "-D warnings")
    .run()?)
}
