//! `Copy`: a copy of the project, whose test programs are broken and run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Outcome;

/// A copy of the project, whose test programs are broken and run. It is a worktree, so that only files that have
/// changed are written, and built again.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The folder of the worktree.
    pub(crate) tree: PathBuf,
    /// The folder with the worktree and what is built in it.
    pub(crate) folder: PathBuf,
}

/// How a run of tests ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Passed,
    /// These tests failed, or did not end.
    Failed(Vec<String>),
    /// No test ran, because of this error.
    Broken(String),
}

impl Copy {
    /// Copies what is committed of the project at `root` into `folder`.
    pub(crate) fn of(root: &Path, folder: &Path) -> Outcome<Self> {
        let tree = folder.join("tree");
        if !tree.join(".git").exists() {
            let path = tree.display().to_string();
            git(root, &["worktree", "add", "--force", "--detach", &path])?;
        }
        let commit = git(root, &["rev-parse", "HEAD"])?;
        git(
            &tree,
            &["checkout", "--quiet", "--force", "--detach", commit.trim()],
        )?;
        Ok(Self {
            tree,
            folder: folder.to_owned(),
        })
    }

    /// Returns the date of the commit that was copied.
    pub(crate) fn date(&self) -> Outcome<String> {
        let date = git(&self.tree, &["log", "-1", "--format=%cs"])?;
        Ok(date.trim().to_owned())
    }

    /// Runs cargo-nextest in the copy.
    pub(crate) fn nextest(&self, arguments: &[&str]) -> Outcome<Output> {
        let mut command = Command::new("cargo");
        command
            .arg("nextest")
            .args(arguments)
            .args([
                "--config-file",
                concat!(env!("CARGO_MANIFEST_DIR"), "/nextest.toml"),
            ])
            .current_dir(&self.tree)
            .env("CARGO_TARGET_DIR", self.folder.join("build"))
            .env("PROPTEST_MAX_SHRINK_ITERS", "0");
        Ok(command.output()?)
    }

    pub(crate) fn test(&self, arguments: &[&str]) -> Outcome<Ending> {
        let output = self.nextest(&[&["run", "--no-input-handler"], arguments].concat())?;
        let printed = String::from_utf8_lossy(&output.stderr);
        Ok(match output.status.code() {
            Some(0) => Ending::Passed,
            Some(100) => Ending::Failed(failed(&printed)),
            _ => Ending::Broken(printed.into_owned()),
        })
    }
}

/// Returns the names of the tests that are listed below the summary of a run: they failed.
fn failed(printed: &str) -> Vec<String> {
    let (_, listed) = printed.rsplit_once("Summary [").unwrap_or_default();
    let listed = listed.lines().skip(1);
    let names = listed.filter(|line| line.contains(" [") && !line.contains("FLAKY"));
    let names = names.filter_map(|line| line.split_whitespace().next_back());
    names.map(str::to_owned).collect()
}

/// Runs git in a folder, and returns what it prints.
fn git(folder: &Path, arguments: &[&str]) -> Outcome<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
