//! `Suite`: the tests of the copy, with their durations and the mutants they reach.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};

use super::copy::Binary;
use super::worker::{Worker, each, lock};

/// One test, which runs in a process of its own.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) binary: Binary,
    pub(super) name: String,
    pub(super) cost: Duration,
    /// The mutants and scripts that it executes.
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

/// Lists the tests in `binary`.
fn list(binary: &Binary) -> Result<Vec<Test>, Box<dyn Error>> {
    let output = Command::new(&binary.path)
        .args(["--list", "--format", "terse"])
        .current_dir(&binary.folder)
        .output()?;
    let lines = String::from_utf8(output.stdout)?;
    let names = lines.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names
        .map(|name| Test {
            binary: binary.clone(),
            name: name.to_owned(),
            cost: Duration::ZERO,
            reaches: HashSet::new(),
        })
        .collect())
}

/// The tests that pass without a mutant, fastest first, and the names of those that fail.
#[derive(Debug)]
pub(super) struct Suite {
    pub(super) tests: Vec<Test>,
    pub(super) failing: Vec<String>,
}

/// Runs the `wanted` tests in `binaries` without a mutant, to measure what each reaches and how
/// long it takes.
///
/// Measurements of unchanged binaries are read from the file `known`.
pub(super) fn measure(
    binaries: &[Binary],
    wanted: &dyn Fn(&Binary, &str) -> bool,
    workers: &[Worker],
    known: &Path,
) -> Result<Suite, Box<dyn Error>> {
    let text = fs::read_to_string(known).unwrap_or_default();
    let mut cache: HashMap<String, Value> = serde_json::from_str(&text).unwrap_or_default();
    let (mut tests, mut failing) = (Vec::new(), Vec::new());
    for binary in binaries {
        let key = stamp(binary)?;
        let mut found = cache
            .remove(&key)
            .map_or_else(Vec::new, |of| recall(&of, binary));
        let mut new = list(binary)?;
        new.retain(|test| {
            let is_known = found.iter().any(|known: &Test| known.name == test.name);
            wanted(binary, &test.name) && !is_known
        });
        if !new.is_empty() {
            println!("mutants: measures {} {}", binary.package, binary.target);
            let (passed, failed) = measure_all(new, workers)?;
            failing.extend(failed.iter().map(ToString::to_string));
            found.extend(passed);
        }
        // Discard the measurements of earlier builds.
        let path = binary.path.display().to_string();
        cache.retain(|key, _| !key.starts_with(&path));
        cache.insert(key, found.iter().map(remembered).collect());
        fs::write(known, serde_json::to_string(&cache)?)?;
        found.retain(|test| wanted(binary, &test.name));
        tests.extend(found);
    }
    tests.sort_by_key(|test| test.cost);
    Ok(Suite { tests, failing })
}

fn measure_all(
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
            let passed = worker
                .measure(&mut test)
                .map_err(|error| error.to_string())?;
            let mut done = lock(&done);
            if passed {
                done.0.push(test);
            } else {
                done.1.push(test);
            }
        }
    })?;
    Ok(done.into_inner().unwrap_or_default())
}

/// Returns a text that identifies this build of the binary.
fn stamp(binary: &Binary) -> Result<String, Box<dyn Error>> {
    let built = fs::metadata(&binary.path)?.modified()?;
    let built = built.duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(format!("{} {built}", binary.path.display()))
}

fn remembered(test: &Test) -> Value {
    let cost = u64::try_from(test.cost.as_micros()).unwrap_or(u64::MAX);
    json!({ "name": test.name, "cost": cost, "reaches": test.reaches })
}

fn recall(found: &Value, binary: &Binary) -> Vec<Test> {
    let tests = found.as_array().into_iter().flatten();
    tests
        .filter_map(|test| {
            let reaches = test["reaches"].as_array()?;
            Some(Test {
                binary: binary.clone(),
                name: test["name"].as_str()?.to_owned(),
                cost: Duration::from_micros(test["cost"].as_u64()?),
                reaches: reaches.iter().filter_map(Value::as_u64).collect(),
            })
        })
        .collect()
}
