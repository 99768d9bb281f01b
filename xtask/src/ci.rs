//! `cargo xtask ci`: runs all checks that must pass before a change lands.

use std::time::Instant;

use xshell::{Cmd, Shell, cmd};

use crate::project::WORKSPACES;
use crate::{Outcome, bench, instructions, lint, mutants, test};

/// How many mutants are tried; all of them take hours.
const MUTANTS: usize = 30;

/// Runs the steps until one fails, and prints how long each took.
pub(crate) fn run(shell: &Shell) -> Outcome {
    step("fetch", || {
        in_each_workspace(|folder| {
            cmd!(
                shell,
                "cargo fetch --locked --manifest-path {folder}/Cargo.toml"
            )
        })
    })?;
    step("lint", || lint::run(shell))?;
    step("peers", || lint::clippy_peers(shell))?;
    step("beside peers", || test::beside_peers(shell))?;
    step("oldest compiler", || oldest_compiler(shell))?;
    step("dependencies", || dependencies(shell))?;
    // Only checks that the benchmarks run, each once; not how fast they are.
    step("benchmarks", || {
        bench::run(shell, &bench::Arguments::once())
    })?;
    step("tests", || test::run(shell, &test::Arguments::everything()))?;
    step("turns of threads", || turns_of_threads(shell))?;
    step("instructions", || {
        instructions::run(shell, &instructions::Arguments::compare())
    })?;
    step("mutants", || {
        mutants::run(shell, &mutants::Arguments::some(MUTANTS))
    })
}

fn step(name: &str, run: impl FnOnce() -> Outcome) -> Outcome {
    println!("== {name}");
    let started = Instant::now();
    let outcome = run();
    println!("== {name} took {} s", started.elapsed().as_secs());
    outcome.map_err(|error| format!("{name}: {error}").into())
}

/// Runs a command for the folder of each workspace.
fn in_each_workspace<'s>(command: impl Fn(&str) -> Cmd<'s>) -> Outcome {
    for folder in WORKSPACES {
        command(folder).run()?;
    }
    Ok(())
}

/// Compiles the libraries and the program with the oldest supported compiler.
fn oldest_compiler(shell: &Shell) -> Outcome {
    let manifest = shell.read_file("Cargo.toml")?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "));
    let version = version.ok_or("Cargo.toml names no rust-version")?;
    let version = version.trim_matches('"');
    let toolchain = format!("+{version}");
    let is_there = cmd!(shell, "cargo {toolchain} --version")
        .quiet()
        .ignore_stderr();
    if is_there.read().is_err() {
        let installed = cmd!(
            shell,
            "rustup toolchain install {version} --profile minimal --no-self-update"
        );
        if let Err(error) = installed.run() {
            // Even without that compiler, clippy rejects newer features of the standard library.
            println!(
                "Rust {version} cannot be had here, and nothing was compiled with it: {error}"
            );
            return Ok(());
        }
    }
    Ok(cmd!(
        shell,
        "cargo {toolchain} check --locked --workspace --exclude xtask --exclude xtask-mutants --exclude tollgate-benches --lib --bins"
    )
    .run()?)
}

/// Tries the orders in which threads may take turns, where layers share something.
fn turns_of_threads(shell: &Shell) -> Outcome {
    let command = cmd!(
        shell,
        "cargo test --locked --package tollgate-layers --lib shuttle"
    );
    Ok(command.env("RUSTFLAGS", "--cfg shuttle").run()?)
}

/// Checks licences, sources and banned dependencies, if `cargo-deny` is installed.
fn dependencies(shell: &Shell) -> Outcome {
    let version = cmd!(shell, "cargo deny --version").quiet().ignore_stderr();
    if version.read().is_err() {
        println!(
            "cargo-deny is not installed, and licences were not checked: `cargo install cargo-deny --locked`"
        );
        return Ok(());
    }
    in_each_workspace(|folder| {
        cmd!(
            shell,
            "cargo deny --manifest-path {folder}/Cargo.toml --offline check bans licenses sources"
        )
    })
}
