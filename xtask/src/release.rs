//! `cargo xtask release`: checks that the crates can be published, which a person then does.

use clap::Args;
use xshell::{Shell, cmd};

use crate::outcome::{Outcome, report};
use crate::project::Files;

/// What every package has, besides what is in `src/` and `examples/`.
const FILES: [&str; 7] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];
/// The folders of sources, and the kinds of files in them.
const FOLDERS: [&str; 2] = ["src/", "examples/"];
const SOURCES: [&str; 5] = ["css", "html", "lua", "md", "rs"];
/// What stands where a person fills in an address. No such domain can exist.
const PLACEHOLDER: &str = "tollgate.invalid";

/// What to do.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Packages every published crate, builds each from its package alone, checks what is in it, and
    /// prints the commands that publish; publishes nothing. All changes must be committed.
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    /// Returns the arguments that only check.
    pub(crate) fn dry_run() -> Self {
        Self { dry_run: true }
    }
}

pub(crate) fn run(shell: &Shell, arguments: &Arguments) -> Outcome {
    if arguments.dry_run {
        return check(shell, &Files::read(shell)?);
    }
    Err("a person publishes the crates: `cargo xtask release --dry-run` checks them, and prints the commands".into())
}

/// Packages and checks the published crates, and prints what is left to do.
fn check(shell: &Shell, files: &Files) -> Outcome {
    let crates = files.published();
    let packages: Vec<&str> = crates.iter().flat_map(|name| ["--package", name]).collect();
    let package = |options: &[&str]| {
        let packages = &packages;
        cmd!(shell, "cargo package --locked {packages...} {options...}")
    };
    // Cargo packages each crate after those that it depends on.
    let packaged = package(&["--no-verify"]).ignore_status().output()?;
    let printed = String::from_utf8(packaged.stderr)?;
    if !packaged.status.success() {
        return Err(format!("cargo cannot package the crates:\n{printed}").into());
    }
    let order = order(&printed);
    let mut findings = files.unpinned();
    if order.len() != crates.len() {
        findings.push(format!("cargo packaged {order:?} instead of {crates:?}"));
    }
    for name in &order {
        let listed = cmd!(shell, "cargo package --list --package {name}").read()?;
        let wrong = stray_and_missing(listed.lines()).into_iter();
        findings.extend(wrong.map(|text| format!("{name}: {text}")));
    }
    report("packages", &findings)?;
    // Cargo builds each package where it unpacks it, with the other packages as its dependencies.
    package(&[]).run()?;
    package(&["--all-features"]).run()?;
    semver(shell)?;
    print!("{}", left(files, &order));
    Ok(())
}

/// Returns the names of the crates in the order in which cargo's output says that they were packaged.
fn order(output: &str) -> Vec<&str> {
    output
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Packaging "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Returns which of these paths in a package do not belong there, and which are not there.
fn stray_and_missing<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut missing = FILES.to_vec();
    let mut findings = Vec::new();
    for path in paths {
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        let in_folder = FOLDERS.iter().any(|folder| path.starts_with(folder));
        let is_source = in_folder && SOURCES.contains(&extension);
        let before = missing.len();
        missing.retain(|file| *file != path);
        if missing.len() == before && !is_source {
            findings.push(format!("{path} does not belong into the package"));
        }
    }
    findings.extend(missing.iter().map(|file| format!("{file} is missing")));
    findings
}

/// Compares the public interfaces with those of the last release, if there is one.
fn semver(shell: &Shell) -> Outcome {
    let tags = cmd!(shell, "git tag --list v* --sort=-version:refname").quiet();
    let tags = tags.read()?;
    let Some(last) = tags.lines().next() else {
        println!("semver: not checked, because no tag `v*` marks a release to compare with");
        return Ok(());
    };
    let version = cmd!(shell, "cargo semver-checks --version")
        .quiet()
        .ignore_stdout()
        .ignore_stderr();
    version.run().map_err(|_| {
        format!("cannot compare with {last}: `cargo install cargo-semver-checks --locked` first")
    })?;
    Ok(cmd!(
        shell,
        "cargo semver-checks --workspace --baseline-rev {last}"
    )
    .run()?)
}

/// Returns what a person does to publish the crates, in this order.
fn left(files: &Files, order: &[&str]) -> String {
    let version = files.version().unwrap_or_default();
    let mut steps = Vec::new();
    let address = files.repository().unwrap_or_default();
    if address.contains(PLACEHOLDER) {
        steps.push(format!(
            "Create the public repository, and write its address URL: git grep -l {address} | xargs sed -i 's|{address}|URL|g'"
        ));
    }
    for (path, text) in files.ending("md") {
        let mail = format!("@{PLACEHOLDER}");
        if text.contains(&mail) {
            steps.push(format!("Replace the address at {PLACEHOLDER} in {path}"));
        }
    }
    steps.push("Write the date into docs/changelog.md".to_owned());
    steps.push("Commit, and wait until every job of the workflow passes".to_owned());
    steps.push(format!("git tag v{version} && git push origin v{version}"));
    steps.push("cargo login".to_owned());
    steps.extend(
        order
            .iter()
            .map(|name| format!("cargo publish --package {name}")),
    );
    steps.push("Name the released version in README.md, instead of a checkout".to_owned());
    let numbered = steps.iter().enumerate();
    let numbered = numbered.map(|(index, step)| format!("{:>3}. {step}\n", index + 1));
    let numbered: String = numbered.collect();
    format!(
        "Left for a person, in this order (crates.io takes five new crates at once, then one in ten minutes):\n{numbered}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::MANIFEST;

    #[test]
    fn the_order_is_read_from_the_output_of_cargo() {
        let output =
            "   Packaging b v0.1.0 (/b)\n    Packaged 9 files\n   Packaging a v0.1.0 (/a)\n";
        assert_eq!(order(output), ["b", "a"]);
    }

    #[test]
    fn stray_and_missing_files_are_found() {
        let good = || {
            FILES
                .into_iter()
                .chain(["src/lib.rs", "src/a/b.lua", "examples/c.rs"])
        };
        assert_eq!(stray_and_missing(good()), [""; 0]);
        assert_eq!(stray_and_missing(good().skip(1)).len(), 1);
        for stray in ["tests/a.rs", "src/notes.txt", "src/a", "clippy.toml"] {
            assert_eq!(stray_and_missing(good().chain([stray])).len(), 1, "{stray}");
        }
    }

    #[test]
    fn placeholders_are_left_to_replace() {
        let left = |address: &str, mail: &str| {
            let manifest = format!("version = \"1.2.3\"\nrepository = \"{address}\"\n");
            let files = Files::of(&[(MANIFEST, &*manifest), ("S.md", mail)]);
            left(&files, &["a", "b"])
        };
        let done = left("https://example.org/a/b", "security@example.org");
        assert!(done.contains("git tag v1.2.3"), "{done}");
        let said = "--package a\n  6. cargo publish --package b";
        assert!(done.contains(said), "{done}");
        let text = format!("https://{PLACEHOLDER}/a");
        let undone = left(&text, &format!("security@{PLACEHOLDER}"));
        assert_eq!(undone.lines().count(), done.lines().count() + 2, "{undone}");
    }
}
