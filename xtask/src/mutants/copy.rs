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
const KEPT_FAILURES: &str = "crates/tollgate-memory/tests/conformance.regressions";

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
        let failure = self.first_failure();
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
        if self
            .files
            .iter()
            .all(|(path, _)| !path.starts_with(KEPT_FAILURES))
        {
            self.shell.remove_path(self.root.join(KEPT_FAILURES))?;
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
            // One seed, so that the same tests fail again.
            let tests = tests
                .env("CARGO_TARGET_DIR", self.root.with_file_name("build"))
                .env("CARGO_TERM_COLOR", "never")
                .env("PROPTEST_RNG_SEED", "1");
            let (printed, succeeded) = output(tests.into())?;
            match failure(&printed) {
                _ if succeeded => {}
                Some(test) => return Ok(Some(test)),
                None => return Err(format!("not every test was run:\n{printed}").into()),
            }
        }
        Ok(None)
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
