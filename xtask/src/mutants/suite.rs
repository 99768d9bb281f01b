//! The tests of the copy: how long each takes, and which mutants it reaches.

use std::collections::{BTreeSet, HashSet};
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::copy::Binary;

/// How much longer than without a mutant a test may take, beside ten times as long.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether a test has ended.
const PAUSE: Duration = Duration::from_millis(1);
/// Parts of the names of tests on servers that are not the system's; what they test of the code is
/// the same there.
const OTHER_SERVERS: [&str; 2] = ["redis_6_2", "valkey_9_1"];

/// One test, which is run by itself.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) binary: Binary,
    pub(super) name: String,
    pub(super) cost: Duration,
    /// The mutants and scripts that it reaches.
    pub(super) reaches: HashSet<u64>,
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Binary {
            package, target, ..
        } = &self.binary;
        write!(f, "{package} {target} {}", self.name)
    }
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    Passed,
    Failed,
    TimedOut,
}

/// One of several that run tests at the same time, each on servers of its own.
#[derive(Debug)]
pub(super) struct Worker {
    folder: std::path::PathBuf,
}

impl Worker {
    /// Returns the worker of this number, which leaves what it must in `folder`.
    pub(super) fn new(folder: &Path, number: usize) -> std::io::Result<Self> {
        let folder = folder.join(format!("worker-{number}"));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder })
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
            // Where shared servers are looked for: a mutant may leave one hanging.
            .env("CARGO_TARGET_DIR", &self.folder)
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let limit = PATIENCE + 10 * test.cost;
        match wait(command.spawn()?, limit)? {
            Some(status) if status.success() => Ok(Ending::Passed),
            Some(_) => Ok(Ending::Failed),
            None => {
                self.end_shared_servers();
                Ok(Ending::TimedOut)
            }
        }
    }

    /// Ends the servers that tests of this worker share: one that hangs would go on as long as
    /// there are users.
    fn end_shared_servers(&self) {
        let shared = std::fs::read_dir(self.folder.join("testkit/shared"));
        for place in shared.into_iter().flatten().flatten() {
            let path = place.path().join("state");
            let state = std::fs::read_to_string(&path).unwrap_or_default();
            let _ = std::fs::remove_file(path);
            for pid in state.lines().filter_map(|line| line.split(' ').nth(1)) {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
        }
    }
}

/// Waits for a process to end, and ends it after `limit`.
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

/// Returns the tests in `binaries` that are run.
pub(super) fn list(binaries: &[Binary]) -> Result<Vec<Test>, Box<dyn Error>> {
    let mut tests = Vec::new();
    for binary in binaries {
        let output = Command::new(&binary.path)
            .args(["--list", "--format", "terse"])
            .current_dir(&binary.folder)
            .output()?;
        for line in String::from_utf8(output.stdout)?.lines() {
            let Some(name) = line.strip_suffix(": test") else {
                continue;
            };
            if OTHER_SERVERS.iter().any(|server| name.contains(server)) {
                continue;
            }
            tests.push(Test {
                binary: binary.clone(),
                name: name.to_owned(),
                cost: Duration::ZERO,
                reaches: HashSet::new(),
            });
        }
    }
    Ok(tests)
}

/// Runs every test without a mutant, to learn what it reaches and how long it takes.
///
/// Returns the tests that pass, cheapest first, and those that do not.
pub(super) fn measure(
    tests: Vec<Test>,
    workers: &[Worker],
) -> Result<(Vec<Test>, Vec<Test>), Box<dyn Error>> {
    let queue = Mutex::new(tests.into_iter());
    let done = Mutex::new((Vec::new(), Vec::new()));
    each(workers, |worker| {
        loop {
            let Some(mut test) = lock(&queue).next() else {
                return Ok(());
            };
            let passed = measure_one(&mut test, worker).map_err(|error| error.to_string())?;
            let mut done = lock(&done);
            if passed {
                done.0.push(test);
            } else {
                done.1.push(test);
            }
        }
    })?;
    let (mut passed, failed) = done.into_inner().unwrap_or_default();
    passed.sort_by_key(|test| test.cost);
    Ok((passed, failed))
}

fn measure_one(test: &mut Test, worker: &Worker) -> Result<bool, Box<dyn Error>> {
    // As long as it takes; what hangs without a mutant is to be seen.
    test.cost = Duration::from_secs(60);
    let file = worker.folder.join("reached");
    let _ = std::fs::remove_file(&file);
    let path = file.to_string_lossy().into_owned();
    worker.run(test, &[("TOLLGATE_MUTANT_REACH", path)])?;
    let reached = std::fs::read_to_string(&file).unwrap_or_default();
    test.reaches = reached.lines().filter_map(|line| line.parse().ok()).collect();
    let started = Instant::now();
    let ending = worker.run(test, &[])?;
    test.cost = started.elapsed();
    Ok(ending == Ending::Passed)
}

/// Has each of the workers do `work`, at the same time.
pub(super) fn each(
    workers: &[Worker],
    work: impl Fn(&Worker) -> Result<(), String> + Sync,
) -> Result<(), Box<dyn Error>> {
    std::thread::scope(|scope| {
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Returns the packages whose tests judge the mutants of a file.
pub(super) fn packages(package: &str, is_wire: bool, is_script: bool) -> BTreeSet<&'static str> {
    let packages: &[&str] = match package {
        _ if is_script => &["tollgate-core", "tollgate-redis"],
        "tollgate-core" if is_wire => &["tollgate-core", "tollgate-redis", "tollgate-fred"],
        "tollgate-core" => &["tollgate-core", "tollgate-memory", "tollgate-mock"],
        "tollgate-memory" => &["tollgate-memory", "tollgate-mock"],
        "tollgate-mock" => &["tollgate-mock"],
        "tollgate-redis" => &["tollgate-redis"],
        "tollgate-fred" => &["tollgate-fred"],
        _ => &[],
    };
    packages.iter().copied().collect()
}
