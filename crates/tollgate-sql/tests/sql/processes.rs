//! Several processes count by the same row, and end at any moment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_testkit::Postgres;

use super::{Database, limiter};

const LIMIT: &str = "limit=fixed-window:1000000/1h";
/// The environment variable with the address of the database, for the processes that call.
const URL: &str = "TOLLGATE_TEST_URL";
/// The environment variable that says for how many seconds they call.
const SECONDS: &str = "TOLLGATE_TEST_SECONDS";

/// What the processes have written.
#[derive(Debug, Default)]
struct Written {
    begun: AtomicU64,
    allowed: AtomicU64,
}

#[expect(clippy::print_stdout, reason = "another process reads it")]
fn say(word: &str) {
    println!("{word}");
}

/// What a process of its own runs: it writes before each call, and after each that is allowed.
#[test]
fn calls_until_it_is_killed() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let limiter = limiter(&url, LIMIT).await;
        loop {
            say("begun");
            match limiter.check("key").await {
                Ok(decision) => assert!(decision.is_allowed()),
                Err(_) => continue,
            }
            say("allowed");
        }
    });
}

fn process(url: &str, written: &Arc<Written>) -> (Child, JoinHandle<()>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::calls_until_it_is_killed",
            "--nocapture",
        ])
        .env(URL, url)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (output, written) = (child.stdout.take().unwrap(), Arc::clone(written));
    let reader = spawn(move || {
        for line in BufReader::new(output).lines() {
            let counter = match line.unwrap().as_str() {
                "begun" => &written.begun,
                "allowed" => &written.allowed,
                _ => continue,
            };
            let _ = counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (child, reader)
}

fn counts_exactly<D: Database>() {
    let database = D::start();
    let url = database.url();
    let seconds = std::env::var(SECONDS)
        .ok()
        .and_then(|text| text.parse().ok());
    let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(8));
    let written = Arc::new(Written::default());
    let mut processes: Vec<_> = (0..8).map(|_| process(&url, &written)).collect();
    let mut readers = Vec::new();
    let mut end = |(mut child, reader): (Child, JoinHandle<()>)| {
        child.kill().unwrap();
        let _ = child.wait();
        readers.push(reader);
    };
    let mut round = 0_u64;
    while Instant::now() < deadline {
        sleep(Duration::from_millis(100 + round * 37 % 200));
        round += 1;
        end(processes.remove(usize::try_from(round * 5 % 8).unwrap()));
        processes.push(process(&url, &written));
    }
    processes.into_iter().for_each(&mut end);
    for reader in readers {
        reader.join().unwrap();
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let left = runtime.block_on(async {
        limiter(&url, LIMIT)
            .await
            .peek("key")
            .await
            .unwrap()
            .remaining()
    });
    let counted = 1_000_000 - left;
    let (allowed, begun) = (
        written.allowed.load(Ordering::SeqCst),
        written.begun.load(Ordering::SeqCst),
    );
    assert!(
        (allowed..=begun).contains(&counted),
        "{counted} {written:?}"
    );
    // At most one call of each process that ended.
    assert!(begun - allowed <= round + 8 + begun / 20, "{written:?}");
    assert!(allowed > 50, "{written:?}");
}

#[test]
fn processes_that_are_killed_count_exactly_in_postgres() {
    counts_exactly::<Postgres>();
}

#[test]
fn processes_that_are_killed_count_exactly_in_a_file() {
    counts_exactly::<TempDir>();
}
