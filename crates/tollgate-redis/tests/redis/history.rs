//! Decisions of many concurrent processes form one history, which the pure machines reproduce.

use std::cmp::Reverse;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::{Check, Request, State, Verdicts};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, RateLimiter, SlidingBuckets, SlidingCounter,
    SlidingLog, Timestamp,
};
use tollgate_redis::RedisStoreBuilder;
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

/// Set in the child processes of this test: the server, when to stop, where to write, and whether
/// calls are sent in batches only.
const VARIABLE: &str = "TOLLGATE_HISTORY";
const PROCESSES: usize = 8;
/// How many callers of one limit there are in each process.
const CALLERS: usize = 2;
/// How long calls go on, by the server's clock.
const SPAN: Duration = Duration::from_secs(4);
/// How long a caller waits after a denial, so that others get their turn on two cores.
const PAUSE: Duration = Duration::from_millis(2);
const KEY: &str = "key";
const BATCHES: &str = "in batches";

const AMOUNT: u64 = 200;
const WINDOW: Duration = Duration::from_millis(500);
const BURST: u64 = 50;

/// A limit, and how many units any half-open span of the window's length may hold.
fn limits() -> [(Limit, u64); 6] {
    let quota = Quota::new(AMOUNT, WINDOW).unwrap();
    let limit = |name: &str, algorithm: Algorithm| Limit::new(name, algorithm).unwrap();
    let gcra = Gcra::with_burst(quota, BURST).unwrap();
    let buckets = SlidingBuckets::new(quota, 10).unwrap();
    let log = SlidingLog::new(quota).unwrap();
    let counter = SlidingCounter::new(quota).unwrap();
    [
        (limit("log", log.into()), AMOUNT),
        (limit("buckets", buckets.into()), AMOUNT),
        (limit("gcra", gcra.into()), BURST + AMOUNT - 1),
        (
            limit("aligned", FixedWindow::aligned(quota).into()),
            2 * AMOUNT,
        ),
        (
            limit("anchored", FixedWindow::anchored(quota).into()),
            2 * AMOUNT - 1,
        ),
        (limit("counter", counter.into()), 2 * AMOUNT - 1),
    ]
}

/// A decision as its caller received it. Sorting decisions at one instant gives a possible order.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Received {
    at: u64,
    is_denied: bool,
    remaining: Reverse<u64>,
}

impl Received {
    fn of(decision: &Verdicts) -> Self {
        Self {
            at: decision.as_slice()[0].decided_at().as_micros(),
            is_denied: decision.is_denied(),
            remaining: Reverse(decision.remaining()),
        }
    }
}

#[test]
fn processes_see_one_history() {
    see_one_history("as they come");
}

#[test]
fn processes_that_send_batches_see_one_history() {
    see_one_history(BATCHES);
}

/// Runs the processes, which send their calls in this way.
#[expect(clippy::print_stdout, reason = "the table is for whoever runs this")]
fn see_one_history(way: &str) {
    let server = Server::start(Flavor::System);
    let end = time(&server) + u64::try_from(SPAN.as_micros()).unwrap();
    let program = env::current_exe().unwrap();
    let files: Vec<_> = (0..PROCESSES)
        .map(|process| server.folder().join(format!("history-{process}")))
        .collect();
    let processes: Vec<Child> = files
        .iter()
        .map(|file| {
            Command::new(&program)
                .args(["history::process", "--exact", "--ignored", "--nocapture"])
                .env(
                    VARIABLE,
                    format!("{} {end} {} {way}", server.address(), file.display()),
                )
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    // Wait for all processes before failing, because a failure stops the server for the others.
    let ended = processes.into_iter().map(|mut process| process.wait());
    let succeeded: Vec<bool> = ended.map(|status| status.unwrap().success()).collect();
    assert_eq!(succeeded, [true; PROCESSES]);

    let mut histories = [const { Vec::new() }; 6];
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            let numbers = line.split(' ').map(|word| word.parse().unwrap());
            let numbers: Vec<u64> = numbers.collect();
            let [limit, at, denied, remaining] = numbers[..] else {
                panic!("{line:?} is no decision");
            };
            histories[usize::try_from(limit).unwrap()].push(Received {
                at,
                is_denied: denied == 1,
                remaining: Reverse(remaining),
            });
        }
    }
    for ((limit, bound), mut history) in limits().into_iter().zip(histories) {
        history.sort_unstable();
        let allowed = history.iter().filter(|told| !told.is_denied);
        let instants: Vec<u64> = allowed.map(|told| told.at).collect();
        let most = most_in_a_window(&instants);
        println!(
            "| {} | {} | {} | {most} / {bound} |",
            limit.algorithm(),
            history.len(),
            instants.len()
        );
        assert!(most <= bound, "{most} in a window of {}", limit.name());
        // Enough calls came at once: half of what the limit allows. That none was denied too often,
        // the machine shows below.
        let span = history[history.len() - 1].at - history[0].at;
        let window = u64::try_from(WINDOW.as_micros()).unwrap();
        let least = AMOUNT * (span / window) / 2;
        let admitted = u64::try_from(instants.len()).unwrap();
        assert!(admitted >= least, "{admitted} admitted by {}", limit.name());
        repeats(&limit, &history);
    }
}

/// Returns the most instants in any half-open span of the window's length.
fn most_in_a_window(instants: &[u64]) -> u64 {
    let window = u64::try_from(WINDOW.as_micros()).unwrap();
    let mut first = 0;
    let mut most = 0;
    for (index, at) in instants.iter().enumerate() {
        while at - instants[first] >= window {
            first += 1;
        }
        most = most.max(index - first + 1);
    }
    u64::try_from(most).unwrap()
}

/// Checks that the machine, given the calls in order, makes the same decisions.
fn repeats(limit: &Limit, history: &[Received]) {
    let mut state = State::default();
    for (index, &told) in history.iter().enumerate() {
        let now = Timestamp::from_micros(told.at).unwrap();
        let request = Request::consume(Check::new(limit, KEY, 1));
        let decision = request.decide_on(&mut state, now);
        let told_before = &history[index.saturating_sub(5)..index];
        assert_eq!(
            Received::of(&decision),
            told,
            "{} at {index}, after {told_before:?}",
            limit.name()
        );
    }
}

/// A child process of the test.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a process of another test's"]
async fn process() {
    let Ok(told) = env::var(VARIABLE) else { return };
    let words: Vec<&str> = told.splitn(4, ' ').collect();
    let [address, end, file, way] = words[..] else {
        panic!("{told:?} is not what the test says");
    };
    let end: u64 = end.parse().unwrap();
    let options = Options::default().with_deadline(Duration::from_secs(10));
    let options = match way {
        BATCHES => options.with_batches_only(),
        _ => options,
    };
    let store = RedisStoreBuilder::from(options)
        .connect(format!("redis://{address}"))
        .await;
    let store = Arc::new(store.unwrap());
    let mut callers = JoinSet::new();
    for (index, (limit, _)) in limits().into_iter().enumerate() {
        let limiter = Arc::new(RateLimiter::new(Arc::clone(&store), [limit]).unwrap());
        for _ in 0..CALLERS {
            let limiter = Arc::clone(&limiter);
            callers.spawn(async move {
                let mut lines = String::new();
                loop {
                    let told = Received::of(&limiter.check(KEY).await.unwrap().into_verdicts());
                    let (denied, left) = (u64::from(told.is_denied), told.remaining.0);
                    writeln!(lines, "{index} {} {denied} {left}", told.at).unwrap();
                    if told.at >= end {
                        return lines;
                    }
                    if told.is_denied {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            });
        }
    }
    fs::write(file, callers.join_all().await.concat()).unwrap();
}

/// Returns the server's time.
fn time(server: &Server) -> u64 {
    let reply = server.command(&["TIME"]);
    let number = |index: usize| -> u64 {
        let text = reply.items()[index].text();
        text.unwrap().parse().unwrap()
    };
    number(0) * 1_000_000 + number(1)
}
