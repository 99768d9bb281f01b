//! The usual layers around a real server that goes and comes back.

use std::iter;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tollgate_core::store::Source;
use tollgate_core::{ErrorKind, RateLimiter, Store, Timestamp};
use tollgate_layers::{Share, usual};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server, rounds};

use crate::support::most_within;

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/outage.rs"]
mod example;

#[tokio::test]
async fn the_example_runs() {
    example::run(Duration::from_millis(200)).await.unwrap();
}

/// What is done to the server.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Killed,
    Stopped,
    Slow,
    EveryThird,
}

impl Trouble {
    const ALL: [(Self, &str); 4] = [
        (Self::Killed, "kill -9, nothing on disk"),
        (Self::Stopped, "SIGSTOP"),
        (Self::Slow, "answers take 200 ms"),
        (Self::EveryThird, "two of three calls fail"),
    ];
}

const PROCESSES: u32 = 4;
const PHASE: Duration = Duration::from_secs(2);
const AMOUNT: usize = 200;
const LIMIT: &str = "api=sliding-log:200/1s";
const WINDOW: Duration = Duration::from_secs(1);

/// Before, during or after the trouble, or at the end.
type Phase = AtomicU8;
const BEFORE: u8 = 0;
const DURING: u8 = 1;
const AFTER: u8 = 2;
const OVER: u8 = 3;

/// What callers saw: how long their calls took, by phase, and when calls for the busy key were allowed.
#[derive(Default)]
struct Seen {
    took: [Vec<Duration>; 3],
    allowed: Vec<Allowed>,
}

/// A call for the busy key that was allowed.
struct Allowed {
    phase: u8,
    by: Source,
    at: Timestamp,
}

/// Returns the faults of a process's calls to its server.
fn faults(trouble: Trouble, phase: Arc<Phase>) -> impl Iterator<Item = Fault> + Send {
    let mut calls = 0_u32;
    iter::from_fn(move || {
        calls += 1;
        let is_during = phase.load(Ordering::Relaxed) == DURING;
        Some(match trouble {
            Trouble::Slow if is_during => Fault::Delay(Duration::from_millis(200)),
            Trouble::EveryThird if is_during && !calls.is_multiple_of(3) => {
                Fault::Fail(ErrorKind::Unavailable)
            }
            _ => Fault::None,
        })
    })
}

/// Calls for `key` until it is over: every millisecond for the busy key, and within the limit for any
/// other.
async fn call(
    limiter: RateLimiter<impl Store>,
    key: u64,
    phase: Arc<Phase>,
    seen: Arc<Mutex<Seen>>,
) {
    loop {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            return;
        }
        let begun = Instant::now();
        let decision = limiter.check(key).await.unwrap();
        let took = begun.elapsed();
        let by = decision.source();
        let receipt = decision.into_receipt();
        let at = receipt.map(|receipt| receipt.consumed()[0].at());
        {
            let mut seen = seen.lock().unwrap();
            if key == 0 {
                let phase = now;
                seen.allowed.extend(at.map(|at| Allowed { phase, by, at }));
            } else {
                seen.took[usize::from(now)].push(took);
            }
        }
        let pause = if key == 0 { 1 } else { 10 };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// Returns the most of these calls within the window.
fn most_of(allowed: &[Allowed], is_of: impl Fn(&Allowed) -> bool) -> usize {
    let of = allowed.iter().filter(|call| is_of(call));
    most_within(of.map(|call| call.at).collect(), WINDOW)
}

/// Writes the median and the 99th percentile in microseconds.
fn times(took: &mut [Duration]) -> String {
    took.sort_unstable();
    let at = |share: usize| took[took.len() * share / 100].as_micros();
    format!("{} / {}", at(50), at(99))
}

/// Prints the table of faults in the README of the layers:
/// `TOLLGATE_EVERY_SERVER=1 cargo test -p tollgate-layers --test layers every_trouble -- --nocapture`.
#[allow(clippy::print_stdout, reason = "it prints a table")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_trouble_stays_within_twice_the_limit_and_fails_no_call() {
    println!(
        "| trouble | before | during | after | most in a second / bound | least while it lasts |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (trouble, name) in Trouble::ALL.into_iter().take(rounds(4) as usize) {
        let server = Server::start(Flavor::System);
        let phase = Arc::new(Phase::new(BEFORE));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut callers = Vec::new();
        for process in 0..PROCESSES {
            let redis = RedisStore::connect(server.url()).await.unwrap();
            let faulty = FaultyStore::new(redis, faults(trouble, Arc::clone(&phase)));
            let local = Share::new(MemoryStore::new(), NonZeroU32::new(PROCESSES).unwrap());
            let limiter = RateLimiter::new(usual(faulty, local), [LIMIT]).unwrap();
            // Five clients within the limit, and three that call for a key of all processes: one of
            // them at a time waits for the server, to try it.
            let keys = (1..=5).map(|caller| u64::from(process) * 10 + caller);
            for key in keys.chain([0; 3]) {
                let (phase, seen) = (Arc::clone(&phase), Arc::clone(&seen));
                callers.push(tokio::spawn(call(limiter.clone(), key, phase, seen)));
            }
        }
        tokio::time::sleep(PHASE).await;
        phase.store(DURING, Ordering::Relaxed);
        match trouble {
            Trouble::Killed => server.kill(),
            Trouble::Stopped => server.pause(),
            Trouble::Slow | Trouble::EveryThird => {}
        }
        tokio::time::sleep(PHASE).await;
        match trouble {
            Trouble::Killed => server.restart(),
            Trouble::Stopped => server.resume(),
            Trouble::Slow | Trouble::EveryThird => {}
        }
        phase.store(AFTER, Ordering::Relaxed);
        tokio::time::sleep(PHASE).await;
        phase.store(OVER, Ordering::Relaxed);
        for caller in callers {
            caller.await.unwrap();
        }
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        let [before, during, after] = seen.took.each_mut().map(|took| times(took));
        let most = most_of(&seen.allowed, |_| true);
        let least = most_of(&seen.allowed, |call| call.phase == DURING);
        println!(
            "| {name} | {before} | {during} | {after} | {most} / {} | {least} of {AMOUNT} |",
            2 * AMOUNT
        );
        assert!(most <= 2 * AMOUNT, "{most} in a second with {trouble:?}");
        // On a busy machine, the fallback may decide a call that the server answers late.
        let by_server = |call: &Allowed| call.phase == BEFORE && call.by == Source::Store;
        assert_eq!(most_of(&seen.allowed, by_server), AMOUNT, "{trouble:?}");
        // Processes go on, each with its part, as far as a busy machine lets them.
        assert!(least >= AMOUNT / 2, "{least} while {trouble:?}");
    }
}
