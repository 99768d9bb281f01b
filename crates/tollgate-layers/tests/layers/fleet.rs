//! Processes that prefetch on one server, and are killed and stopped meanwhile.

use std::fs::{File, create_dir, read_to_string, write};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Limit, RateLimiter, Store};
use tollgate_fred::FredStore;
use tollgate_layers::Prefetch;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server, rounds};

use example::{Admitted, most_within};

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/prefetch.rs"]
mod example;

/// Set in the processes: the client, the server, the key, how many processes there are, which one this is,
/// until when it calls, and the file for the calls that were admitted.
const VARIABLE: &str = "TOLLGATE_FLEET";
const L: Duration = Duration::from_millis(200);
const FLEETS: [u32; 3] = [1, 2, 8];
const SPAN: Duration = Duration::from_millis(1_500);

const AMOUNT: u32 = 100;
const WINDOW: Duration = Duration::from_millis(500);
/// Each kind has a key of its own; the limits of a kind decide together.
const KINDS: [&[&str]; 8] = [
    &["log=sliding-log:100/500ms"],
    &["buckets=sliding-buckets:100/500ms,buckets=10"],
    &["gcra=gcra:100/500ms,burst=100"],
    &["fixed=fixed-window:100/500ms"],
    &["anchored=fixed-window:100/500ms,anchored"],
    &["counter=sliding-counter:100/500ms"],
    // So many that some are in hand when the day ends, and none is left when the processes do.
    &["day=fixed-window:400/day@Fleet"],
    // At first the one binds, and then the other.
    &[
        "two-log=sliding-log:220/1s",
        "two-gcra=gcra:100/500ms,burst=100",
    ],
];
/// How long before a day of the zone `Fleet` ends the processes start, at least and at most.
const EVENING: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1_000)];
/// How many calls there are for each that the limit allows.
const DEMAND: u32 = 4;

#[tokio::test]
async fn the_example_runs() {
    example::run(2, 50, L, L).await.unwrap();
}

#[test]
fn killed_and_stopped_processes_stay_within_every_limit_through_redis() {
    stay_within_every_limit("redis");
}

#[test]
fn killed_and_stopped_processes_stay_within_every_limit_through_fred() {
    stay_within_every_limit("fred");
}

/// A process of the fleet, killed when the test ends in whatever way.
struct Process {
    child: Child,
    stopped_until: Option<Instant>,
}

impl Process {
    fn start(told: &str, zones: &Path) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["fleet::process", "--exact", "--ignored"])
            .env(VARIABLE, told)
            .env("TZDIR", zones)
            .stdout(Stdio::null())
            .spawn();
        Self {
            child: child.unwrap(),
            stopped_until: None,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn stop(&mut self, time: Duration) {
        self.signal(Signal::STOP);
        self.stopped_until = Some(Instant::now() + time);
    }

    fn go_on(&mut self) {
        self.signal(Signal::CONT);
        self.stopped_until = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stdout, reason = "the table is for whoever runs this")]
fn stay_within_every_limit(client: &str) {
    let server = Server::start(Flavor::System);
    let mut admitted = [[0; KINDS.len()]; FLEETS.len()];
    for round in 0..rounds(8) {
        for (processes, admitted) in FLEETS.into_iter().zip(&mut admitted) {
            let key = format!("{round}-{processes}");
            let (files, midnight) = run(client, &server, &key, processes);
            for (kind, limits) in KINDS.iter().enumerate() {
                let calls: Vec<_> = files.iter().flat_map(|file| read(file, kind)).collect();
                let count = calls.len();
                admitted[kind] += count;
                for limit in *limits {
                    let found = most(limit, &calls, midnight);
                    println!("{client}, {processes} processes, {limit}: {count} calls, {found:?}");
                    for (window, most, bound) in found {
                        assert!(
                            most <= bound,
                            "{most} of {bound} in {window:?} of {limit}, {processes} processes"
                        );
                    }
                }
            }
        }
    }
    for (processes, admitted) in FLEETS.into_iter().zip(admitted) {
        // A process alone may be stopped for most of a round.
        let least = if processes == 1 { 30 } else { 120 };
        let least = least * usize::try_from(rounds(8)).unwrap();
        let enough = admitted.iter().all(|count| *count >= least);
        assert!(enough, "{admitted:?} of {KINDS:?}, {processes} processes");
    }
}

/// Returns the most calls in any window of some lengths, each with its bound.
fn most(limit: &str, calls: &[Admitted], midnight: Duration) -> Vec<(Duration, usize, usize)> {
    if limit.ends_with("/day@Fleet") {
        let day = Duration::from_secs(24 * 3_600);
        return vec![most_in_period(day, midnight, calls, 400)];
    }
    let limit: Limit = limit.parse().unwrap();
    let quota = limit.algorithm().quota();
    let (amount, window) = (usize::try_from(quota.amount()).unwrap(), quota.window());
    // In parts of the window, in percent.
    let within = |percents: &[u32], bound: &dyn Fn(usize) -> usize| {
        let each = percents.iter().map(|&percent| {
            let span = window * percent / 100;
            let bound = bound(amount * percent as usize / 100);
            (span, most_within(calls, span), bound)
        });
        each.collect()
    };
    match limit.algorithm() {
        Algorithm::FixedWindow(of) if of.is_anchored() => {
            within(&[100, 200], &|refilled| amount + refilled - 1)
        }
        Algorithm::FixedWindow(_) => {
            vec![most_in_period(window, Duration::ZERO, calls, amount)]
        }
        Algorithm::Gcra(of) => {
            let burst = usize::try_from(of.burst()).unwrap();
            within(&[1, 5, 20, 100, 200], &|refilled| burst + refilled - 1)
        }
        Algorithm::SlidingCounter(_) => within(&[1, 5, 20, 100], &|refilled| {
            (amount + refilled).min(2 * amount - 1)
        }),
        _ => within(&[100], &|amount| amount),
    }
}

/// Returns the most calls in any of the periods that follow each other, one of which begins at `start`, with their
/// length and their bound.
fn most_in_period(
    length: Duration,
    start: Duration,
    calls: &[Admitted],
    bound: usize,
) -> (Duration, usize, usize) {
    let number = |at: Duration| (at + length - start).as_micros() / length.as_micros();
    let within = calls.iter().filter(|call| number(call.0) == number(call.1));
    let mut numbers: Vec<_> = within.map(|call| number(call.0)).collect();
    numbers.sort_unstable();
    let each = numbers.chunk_by(|one, next| one == next).map(<[_]>::len);
    (length, each.max().unwrap_or_default(), bound)
}

/// Runs a fleet while it is troubled, and returns the files that it has written, and when its day ended.
fn run(client: &str, server: &Server, key: &str, processes: u32) -> (Vec<PathBuf>, Duration) {
    let midnight = Duration::from_secs((since_epoch() + EVENING[0]).as_secs() + 1);
    let zones = server.folder().join(format!("zones-{key}"));
    create_zone(&zones, midnight);
    thread::sleep(midnight.saturating_sub(since_epoch() + EVENING[1]));
    let end = since_epoch() + SPAN;
    let mut files = Vec::new();
    let mut start = |process: usize| {
        let file = server.folder().join(format!("calls-{key}-{}", files.len()));
        let (address, end, path) = (server.address(), end.as_micros(), file.display());
        files.push(file.clone());
        let told = format!("{client} {address} {key} {processes} {process} {end} {path}");
        Process::start(&told, &zones)
    };
    let mut fleet: Vec<_> = (0..processes as usize).map(&mut start).collect();
    let random = RandomState::new();
    let mut tick = 0_u64;
    while since_epoch() < end {
        thread::sleep(Duration::from_millis(10));
        tick += 1;
        for (index, process) in fleet.iter_mut().enumerate() {
            if let Some(until) = process.stopped_until {
                if until <= Instant::now() {
                    process.go_on();
                }
                continue;
            }
            // In a second, a process is stopped once, and every second one is killed.
            let drawn = random.hash_one((tick, index));
            match drawn % 200 {
                0 => *process = start(index),
                1 | 2 => process.stop(Duration::from_millis(100 + drawn / 200 % 900)),
                _ => {}
            }
        }
    }
    for process in &mut fleet {
        process.go_on();
        assert!(process.child.wait().unwrap().success());
    }
    (files, midnight)
}

/// Creates a database of time zones with the zone `Fleet`, where `midnight` is one.
fn create_zone(folder: &Path, midnight: Duration) {
    let west = i32::try_from(midnight.as_secs() % (24 * 3_600)).unwrap();
    // The numbers of parts that are not there, of offsets, and of bytes of their names.
    let counts = [0, 0, 0, 0, 1, 4].map(u32::to_be_bytes);
    let header = [b"TZif", &[0; 16][..], counts.as_flattened()].concat();
    let offset = [&(-west).to_be_bytes()[..], &[0, 0], b"FLT\0"].concat();
    create_dir(folder).unwrap();
    write(folder.join("Fleet"), [header, offset].concat()).unwrap();
}

/// Returns the calls in `file` that the limits of this kind admitted.
fn read(file: &Path, kind: usize) -> Vec<Admitted> {
    let text = read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut numbers = line.split(' ').map(|word| word.parse::<u64>().unwrap());
        let is_of_kind = numbers.next()? == kind as u64;
        let instants = [numbers.next()?, numbers.next()?].map(Duration::from_micros);
        is_of_kind.then_some(instants.into())
    });
    lines.collect()
}

fn since_epoch() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap()
}

#[tokio::test]
#[ignore = "a process of another test's"]
async fn process() {
    let Ok(told) = env::var(VARIABLE) else { return };
    let (client, told) = told.split_once(' ').unwrap();
    let (address, told) = told.split_once(' ').unwrap();
    let url = format!("redis://{address}");
    // A process that is stopped while it connects may be too late.
    if client == "fred" {
        if let Ok(store) = FredStore::connect(&url).await {
            call(store, told).await;
        }
    } else if let Ok(store) = RedisStore::connect(url).await {
        call(store, told).await;
    }
}

/// Calls with units ahead; in every second process, others call without.
async fn call(store: impl Store + 'static, told: &str) {
    let words: Vec<&str> = told.split(' ').collect();
    let [key, processes, process, end, file] = words[..] else {
        panic!("{told:?} is not what the test says");
    };
    let processes: u32 = processes.parse().unwrap();
    let asks_directly = process.parse::<u32>().unwrap() % 2 == 1;
    let end = Duration::from_micros(end.parse().unwrap());
    let file = Arc::new(File::create(file).unwrap());
    let direct: Arc<dyn Store> = Arc::new(store);
    let ahead: Arc<dyn Store> = Arc::new(Prefetch::new(Arc::clone(&direct), L));
    let mut stores = vec![ahead];
    stores.extend(asks_directly.then_some(direct));
    // Ten calls at a time, on average, and then a pause.
    let pause = WINDOW * 10 * processes * u32::try_from(stores.len()).unwrap() / (AMOUNT * DEMAND);
    let mut callers = JoinSet::new();
    for (kind, limits) in KINDS.iter().enumerate() {
        for store in &stores {
            let limiter = RateLimiter::new(Arc::clone(store), limits.iter().copied()).unwrap();
            let (key, file) = (key.to_owned(), Arc::clone(&file));
            callers.spawn(async move {
                let random = RandomState::new();
                for turn in 0_u64.. {
                    let drawn = random.hash_one(turn);
                    for _ in 0..=drawn % 20 {
                        let before = since_epoch();
                        let is_allowed = limiter.check(&key).await.is_ok_and(|of| of.is_allowed());
                        let after = since_epoch();
                        if before >= end {
                            return;
                        }
                        if !is_allowed {
                            break;
                        }
                        let (before, after) = (before.as_micros(), after.as_micros());
                        // One write, so that a process that is killed has written all before.
                        let line = format!("{kind} {before} {after}\n");
                        (&*file).write_all(line.as_bytes()).unwrap();
                    }
                    tokio::time::sleep(pause * u32::try_from(drawn / 20 % 200).unwrap() / 100)
                        .await;
                }
            });
        }
    }
    while let Some(caller) = callers.join_next().await {
        caller.unwrap();
    }
}
