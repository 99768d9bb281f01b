//! `Worker`: runs tests in parallel with other workers, on servers of its own.

use std::error::Error;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use super::suite::Test;

/// How much longer a test may take with a mutant, in addition to ten times its usual duration.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two checks whether a test has ended.
const PAUSE: Duration = Duration::from_millis(1);
/// A failing test that takes longer than this may have left its server hanging.
const LIVELY: Duration = Duration::from_secs(2);
/// The longest time that a test may take without a mutant.
const LONGEST: Duration = Duration::from_secs(60);

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    Passed,
    Failed,
    TimedOut,
}

/// Runs tests in parallel with other workers, on servers of its own.
#[derive(Debug)]
pub(super) struct Worker {
    folder: PathBuf,
}

impl Worker {
    /// Returns the worker with this number, which keeps its files in `folder`.
    pub(super) fn new(folder: &Path, number: usize) -> std::io::Result<Self> {
        let own = folder.join(format!("worker-{number}"));
        fs::create_dir_all(&own)?;
        // Tests look for the fetched servers in this folder, too.
        let (fetched, link) = (folder.with_file_name("servers"), own.join("servers"));
        if fetched.exists() && !link.exists() {
            symlink(fetched, link)?;
        }
        Ok(Self { folder: own })
    }

    /// Runs `test` without a mutant, to measure what it reaches and how long it takes.
    ///
    /// Returns whether it passes.
    pub(super) fn measure(&self, test: &mut Test) -> Result<bool, Box<dyn Error>> {
        test.cost = LONGEST;
        let file = self.folder.join("reached");
        let _ = fs::remove_file(&file);
        let path = file.to_string_lossy().into_owned();
        let started = Instant::now();
        let recorded = self.run(test, &[("TOLLGATE_MUTANT_REACH", path)])?;
        let reached = fs::read_to_string(&file).unwrap_or_default();
        let ids = reached.lines().filter_map(|line| line.parse().ok());
        test.reaches = ids.collect();
        // A test that counts allocations fails while its reach is recorded.
        let ending = match recorded {
            Ending::Passed => Ending::Passed,
            _ => self.run(test, &[])?,
        };
        test.cost = started.elapsed();
        Ok(ending == Ending::Passed)
    }

    /// Runs `test` with `variables` in its environment.
    pub(super) fn run(
        &self,
        test: &Test,
        variables: &[(&str, String)],
    ) -> Result<Ending, Box<dyn Error>> {
        let mut command = Command::new(&test.binary.path);
        command
            .args(["--exact", &test.name])
            .current_dir(&test.binary.folder)
            .env("CARGO_MANIFEST_DIR", &test.binary.folder)
            // Gives this worker its own shared servers, because a mutant may hang them.
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let started = Instant::now();
        let status = wait(command.spawn()?, PATIENCE + 10 * test.cost)?;
        let ending = match status {
            Some(status) if status.success() => return Ok(Ending::Passed),
            Some(_) => Ending::Failed,
            None => Ending::TimedOut,
        };
        // A script that never ends would block the server for later tests.
        if started.elapsed() > LIVELY {
            self.end_shared_servers();
        }
        Ok(ending)
    }

    /// Kills the shared servers of this worker; a hung one would otherwise run as long as it has
    /// users.
    fn end_shared_servers(&self) {
        let shared = fs::read_dir(self.folder.join("testkit/shared"));
        for place in shared.into_iter().flatten().flatten() {
            let path = place.path().join("state");
            let state = fs::read_to_string(&path).unwrap_or_default();
            let _ = fs::remove_file(path);
            for pid in state.lines().filter_map(|line| line.split(' ').nth(1)) {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
        }
    }
}

/// Waits for a process to end, and kills it after `limit`.
fn wait(mut child: Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        sleep(PAUSE);
    }
}

/// Runs `work` on all workers in parallel.
pub(super) fn each(
    workers: &[Worker],
    work: impl Fn(&Worker) -> Result<(), String> + Sync,
) -> Result<(), Box<dyn Error>> {
    scope(|scope| {
        let threads: Vec<_> = workers
            .iter()
            .map(|worker| scope.spawn(|| work(worker)))
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        for end in ends.collect::<Vec<_>>() {
            end.map_err(|_| "a worker panicked")??;
        }
        Ok(())
    })
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
