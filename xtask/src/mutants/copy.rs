//! The copy of the project that mutants are put into, and its tests.

use std::error::Error;
use std::io::Read;
use std::path::PathBuf;
use std::process::Command;

use xshell::{Shell, cmd};

use super::Mutant;
use crate::Outcome;
use crate::project::Files;

/// Where the copy and what is built of it are.
const FOLDER: &str = "target/mutants";
/// Where tests of the copy keep the histories that failed; no later mutant is to profit from them.
const KEPT_FAILURES: [&str; 3] = [
    "crates/tollgate-fred/tests/conformance.regressions",
    "crates/tollgate-memory/tests/conformance.regressions",
    "crates/tollgate-redis/tests/conformance.regressions",
];
/// The promises that a script is held to: those that compare every answer with the machine's.
const EXACT: [&str; 2] = ["agrees_with_the_machine", "a_changed_limit_applies_at_once"];

/// A copy of the project, to be broken in place of it.
pub(super) struct Copy<'a> {
    shell: &'a Shell,
    files: &'a Files,
    root: PathBuf,
}

impl<'a> Copy<'a> {
    pub(super) fn of(shell: &'a Shell, files: &'a Files) -> Result<Self, Box<dyn Error>> {
        let root = shell.current_dir().join(FOLDER).join("tree");
        // A file that was deleted since the last run would still be built.
        shell.remove_path(&root)?;
        for (path, text) in files.iter() {
            shell.write_file(root.join(path), text)?;
        }
        Ok(Self { shell, files, root })
    }

    /// Returns the first test that fails with `mutant`, and takes it out again.
    pub(super) fn first_failure_with(
        &self,
        mutant: &Mutant,
    ) -> Result<Option<String>, Box<dyn Error>> {
        let text = self.files.text(mutant.file).unwrap_or_default();
        let broken = text.replacen(mutant.before, mutant.after, 1);
        self.shell.write_file(self.root.join(mutant.file), broken)?;
        let failure = match mutant.twin() {
            Some(algorithm) => self.failure_on_servers(algorithm),
            None => self.first_failure(),
        };
        self.restore()?;
        failure.map_err(|error| format!("{}: {error}", mutant.wrong).into())
    }

    /// Undoes a mutant and what tests wrote; files that are as they were are not built again.
    fn restore(&self) -> Outcome {
        for (path, text) in self.files.iter() {
            let path = self.root.join(path);
            if self.shell.read_file(&path)? != text {
                self.shell.write_file(&path, text)?;
            }
        }
        for folder in KEPT_FAILURES {
            let committed = |path: &str| path.starts_with(folder);
            if !self.files.iter().any(|(path, _)| committed(path)) {
                self.shell.remove_path(self.root.join(folder))?;
                continue;
            }
            for kept in self.shell.read_dir(self.root.join(folder))? {
                let path = kept
                    .strip_prefix(&self.root)?
                    .to_string_lossy()
                    .into_owned();
                if self.files.text(&path).is_none() {
                    self.shell.remove_path(kept)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the first test that fails: of core if there is one, or else of the memory store.
    pub(super) fn first_failure(&self) -> Result<Option<String>, Box<dyn Error>> {
        let _inside = self.shell.push_dir(&self.root);
        let core = cmd!(
            self.shell,
            "cargo test --locked --package tollgate-core --lib --tests"
        );
        let memory = cmd!(
            self.shell,
            "cargo test --locked --package tollgate-memory --test bounded --test conformance --test threads"
        );
        for tests in [core, memory] {
            if let Some(test) = self.failure_of(tests)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    /// Returns the test that fails through both clients, where the memory store's still passes.
    fn failure_on_servers(&self, algorithm: &str) -> Result<Option<String>, Box<dyn Error>> {
        let _inside = self.shell.push_dir(&self.root);
        let of = |package: &str, module: &str| {
            let promises =
                EXACT.map(|promise| format!("{module}conformance::{algorithm}::{promise}"));
            let tests = cmd!(
                self.shell,
                "cargo test --locked --package {package} --test conformance -- {promises...}"
            );
            self.failure_of(tests)
        };
        if let Some(test) = of("tollgate-memory", "")? {
            return Err(format!("{test} fails in memory too").into());
        }
        let redis = of("tollgate-redis", "multiplexed_on_system::")?;
        let fred = of("tollgate-fred", "client_on_system::")?;
        Ok(redis
            .zip(fred)
            .map(|(redis, fred)| format!("{redis}`, `{fred}")))
    }

    /// Runs `tests` in the copy, and returns the first that fails.
    fn failure_of(&self, tests: xshell::Cmd<'_>) -> Result<Option<String>, Box<dyn Error>> {
        // One seed, so that the same tests fail again.
        let tests = tests
            .env("CARGO_TARGET_DIR", self.root.with_file_name("build"))
            .env("CARGO_TERM_COLOR", "never")
            .env("PROPTEST_RNG_SEED", "1");
        let (printed, succeeded) = output(tests.into())?;
        match failure(&printed) {
            _ if succeeded => Ok(None),
            Some(test) => Ok(Some(test)),
            None => Err(format!("not every test was run:\n{printed}").into()),
        }
    }
}

/// Returns all that `command` prints, in order, and whether it succeeded.
fn output(mut command: Command) -> Result<(String, bool), Box<dyn Error>> {
    let (mut reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // It holds the writing ends, without which reading would never end.
    drop(command);
    let mut printed = Vec::new();
    reader.read_to_end(&mut printed)?;
    let succeeded = child.wait()?.success();
    Ok((String::from_utf8_lossy(&printed).into_owned(), succeeded))
}

/// Returns the failed test that is first by name, so that it is the same in every run.
fn failure(printed: &str) -> Option<String> {
    let test = printed
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
        .min()?;
    if test.contains("::") {
        return Some(test.to_owned());
    }
    // A test that is in no module is told from others by its file, the last that was run.
    let (file, _) = printed
        .lines()
        .rev()
        .find_map(|line| line.trim_start().strip_prefix("Running tests/"))?
        .split_once(".rs")?;
    Some(format!("{file}::{test}"))
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn the_failure_is_that_of_a_test() {
        let printed = "     Running tests/bounds.rs (a/b)\ntest b ... FAILED\ntest c ... ok\n";
        assert_eq!(failure(printed).as_deref(), Some("bounds::b"));
        let printed = "test b::f ... FAILED\ntest c ... ok\ntest a::d ... FAILED\n";
        assert_eq!(failure(printed).as_deref(), Some("a::d"));
        assert_eq!(failure("test c ... ok\nerror: could not compile\n"), None);
    }
}
