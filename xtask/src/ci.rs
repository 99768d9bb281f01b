//! `cargo xtask ci`: runs all checks that must pass, after `cargo xtask test`, before a change lands.

use std::fmt::Write;
use std::time::Instant;

use clap::{Args, ValueEnum};
use xshell::{Cmd, Shell, cmd};

use crate::outcome::{Outcome, Record};
use crate::project::{Files, WORKSPACES, tools};
use crate::{bench, features, fuzz, instructions, lint, readme, release, servers, test};

/// Their features that use a dependency which is built for nothing else.
const FEATURES: &str = "tollgate-core/chrono,tollgate-http/axum,tollgate-http/outbound,tollgate-http/tonic,\
                        tollgate-layers/limits,tollgate-layers/metrics,tollgate-layers/tracing";

/// Which steps to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The steps to run, in this order; without any, those that `.ci/run` has time for: all but `peers`,
    /// `beside-peers`, `features`, `release`, `fuzz` and `minimal-versions`.
    steps: Vec<Step>,
}

/// A step. Each runs in a job of `.github/workflows/ci.yml`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Step {
    /// Downloads the dependencies.
    Fetch,
    /// Checks formatting, lints, documentation, dependencies between crates, and tidiness.
    Lint,
    /// Lints the workspace `benches/peers`.
    Peers,
    /// Runs the tests of `benches/peers`.
    BesidePeers,
    /// Compiles with the oldest supported compiler.
    OldestCompiler,
    /// Compiles each feature of each library alone.
    Features,
    /// Builds each program of README.md with the dependencies that are above it.
    Readme,
    /// Builds each published crate from its package; all changes must be committed.
    Release,
    /// Checks licences, sources and banned dependencies.
    Dependencies,
    /// Runs what `cargo xtask test` leaves out: every server, and more random trials.
    Tests,
    /// Runs every benchmark once.
    Benchmarks,
    /// Tries the orders in which threads may take turns.
    TurnsOfThreads,
    /// Runs every fuzz target briefly.
    Fuzz,
    /// Compares instruction counts with the recorded ones.
    Instructions,
    /// Compiles with the oldest dependencies that the manifests permit.
    MinimalVersions,
}

impl Step {
    /// Runs the step, and adds how long it took to `report`.
    fn run(self, shell: &Shell, report: &mut String) -> Outcome {
        let value = self.to_possible_value().ok_or("a step without a name")?;
        let name = value.get_name();
        println!("== {name}");
        let started = Instant::now();
        let outcome = self.check(shell);
        let seconds = started.elapsed().as_secs();
        let end = if outcome.is_ok() {
            "took"
        } else {
            "failed after"
        };
        let line = format!("== {name} {end} {seconds} s");
        println!("{line}");
        writeln!(report, "{line}")?;
        outcome.map_err(|error| format!("{name}: {error}").into())
    }

    /// Returns whether the step builds more than `.ci/run` has time for, and finds only what few
    /// changes break. The workflow runs it.
    fn is_rare(self) -> bool {
        match self {
            // A workspace that no user builds.
            Self::Peers | Self::BesidePeers => true,
            // `lint` compiles the features that differ most.
            Self::Features | Self::MinimalVersions | Self::Release => true,
            // `tests` gives all targets their seeds, and hundreds of changed ones; seconds more find little.
            Self::Fuzz => true,
            Self::Fetch
            | Self::Lint
            | Self::OldestCompiler
            | Self::Dependencies
            | Self::Readme
            | Self::Tests
            | Self::Benchmarks
            | Self::TurnsOfThreads
            | Self::Instructions => false,
        }
    }

    fn check(self, shell: &Shell) -> Outcome {
        match self {
            Self::Fetch => fetch(shell),
            Self::Lint => lint::run(shell),
            Self::Peers => lint::clippy_peers(shell),
            Self::BesidePeers => test::beside_peers(shell),
            Self::OldestCompiler => oldest_compiler(shell),
            Self::Features => features::run(shell),
            Self::Readme => readme::run(shell),
            Self::Release => release::run(shell, &release::Arguments::dry_run()),
            Self::Dependencies => dependencies(shell),
            // Only checks that the benchmarks run, each once; not how fast they are.
            Self::Benchmarks => bench::run(shell, &bench::Arguments::once()),
            Self::Tests => test::run(shell, &test::Arguments::rest()),
            Self::TurnsOfThreads => turns_of_threads(shell),
            Self::Fuzz => fuzz::run(shell, &fuzz::Arguments::briefly()),
            Self::Instructions => instructions::run(shell, &Record::default()),
            Self::MinimalVersions => minimal_versions(shell),
        }
    }
}

/// Runs the steps until one fails, and prints at the end how long each of them took.
pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    let chosen = if arguments.steps.is_empty() {
        let mut usual = Step::value_variants().to_vec();
        usual.retain(|step| !step.is_rare());
        usual
    } else {
        arguments.steps.clone()
    };
    let mut report = String::new();
    let outcome = chosen
        .iter()
        .try_for_each(|step| step.run(shell, &mut report));
    print!("{report}");
    outcome
}

fn fetch(shell: &Shell) -> Outcome {
    in_each_workspace(|folder| {
        cmd!(
            shell,
            "cargo fetch --locked --manifest-path {folder}/Cargo.toml"
        )
    })
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
    let packages = for_users();
    Ok(cmd!(
        shell,
        "cargo {toolchain} check --locked {packages...} --features={FEATURES}"
    )
    .run()?)
}

/// Returns the arguments for the packages that users build, for which old compilers and old dependencies must do.
fn for_users() -> Vec<&'static str> {
    let mut arguments = vec!["--workspace", "--lib", "--bins"];
    arguments.extend(tools("--exclude"));
    arguments
}

/// Compiles the libraries and the program with the oldest dependencies that their manifests permit:
/// in a copy of the project, because that needs another lock file.
fn minimal_versions(shell: &Shell) -> Outcome {
    let target = servers::target(shell);
    let copy = target.join("minimal-versions");
    shell.remove_path(&copy)?;
    for (path, text) in Files::read(shell)?.iter() {
        shell.write_file(copy.join(path), text)?;
    }
    let manifest = copy.join("Cargo.toml");
    // The option is not stable; the variable permits it, and only for this command.
    cmd!(
        shell,
        "cargo update --manifest-path {manifest} -Zdirect-minimal-versions"
    )
    .env("RUSTC_BOOTSTRAP", "1")
    .run()?;
    let packages = for_users();
    Ok(cmd!(
        shell,
        "cargo check --locked --manifest-path {manifest} --target-dir {target} {packages...} --features={FEATURES}"
    )
    .run()?)
}

/// Tries the orders in which threads may take turns, where layers share something.
fn turns_of_threads(shell: &Shell) -> Outcome {
    Ok(cmd!(
        shell,
        "cargo test --locked --package tollgate-layers --lib --features=__shuttle shuttle"
    )
    .run()?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project;

    #[test]
    fn each_step_is_a_job() {
        let files = Files::read(&project::shell().unwrap()).unwrap();
        let workflow = files.text(".github/workflows/ci.yml").unwrap();
        let commands = workflow
            .lines()
            .filter_map(|line| line.split_once("cargo xtask ci ").map(|(_, steps)| steps));
        let jobs: Vec<&str> = commands.flat_map(str::split_whitespace).collect();
        for step in Step::value_variants() {
            let value = step.to_possible_value().unwrap();
            assert!(jobs.contains(&value.get_name()), "{step:?}");
        }
        for job in jobs {
            assert!(Step::from_str(job, false).is_ok(), "{job}");
        }
    }
}
