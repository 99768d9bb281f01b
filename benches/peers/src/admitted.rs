//! Counts what rate limiters admit in real time, next to the most that each should.
//!
//! Each gets the same calls for one key: threads that call as fast as they can, from late in a second
//! on, after a pause. A call is certainly within a window if it began and ended in it, so a count
//! above the bound is a fault of the limiter, not of the measurement.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use governor::{DefaultKeyedRateLimiter, Quota as GovernorQuota, RateLimiter as Governor};
use tokio::runtime::{Handle, Runtime};
use tollgate_memory::{MemoryStore, RateLimiter};
use tollgate_testkit::{Flavor, Server};

use crate::{Named, Peer, Problem, Subject, memory, server};

/// How many calls a second the quota allows.
const AMOUNT: u16 = 100;
const WINDOW: Duration = Duration::from_secs(1);
/// By how much the clocks of a limiter and of this program may differ in a window, with rounding.
const SLACK: Duration = Duration::from_micros(50);
/// When in a second the calls begin, and for how long they go on.
const LATE: Duration = Duration::from_millis(900);
const SPAN: Duration = Duration::from_millis(1_600);
const THREADS: [usize; 2] = [1, 4];

/// Rate limiters, each with the most calls that it should admit within a second.
pub(crate) type Bounded<S = dyn Subject> = Vec<(Named<S>, u64)>;

/// When an admitted call began and ended.
type Call = (Instant, Instant);

/// The algorithms of this library, each with the most calls that it should admit within a second.
const ALGORITHMS: [(&str, &str, u64); 6] = [
    ("GCRA", "limit=gcra:100/1s", 199),
    ("fixed window", "limit=fixed-window:100/1s", 200),
    ("anchored window", "limit=fixed-window:100/1s,anchored", 199),
    ("sliding counter", "limit=sliding-counter:100/1s", 199),
    (
        "sliding buckets",
        "limit=sliding-buckets:100/1s,buckets=10",
        100,
    ),
    ("sliding log", "limit=sliding-log:100/1s", 100),
];

/// Counts what the limiters of this library admit, and those of others in memory and on a server, and prints a table.
///
/// # Errors
///
/// If a limiter or the server fails.
pub fn print() -> Result<(), Problem> {
    let mut out = io::stdout();
    writeln!(
        out,
        "| limiter | should be at most | 1 thread | {} threads |",
        THREADS[1]
    )?;
    writeln!(out, "|---|---:|---:|---:|")?;
    let in_memory = [bounded()?, memory::bounded(AMOUNT)?];
    let mut all: Vec<(String, Box<dyn Subject>, u64)> = in_memory
        .into_iter()
        .flatten()
        .map(|((name, limiter), bound)| (name.to_owned(), limiter, bound))
        .collect();
    let redis = Server::start(Flavor::System);
    let runtime = Runtime::new()?;
    let failed = Arc::new(OnceLock::new());
    let url = redis.url();
    for ((name, peer), bound) in runtime.block_on(server::bounded(&url, AMOUNT))? {
        let awaited = Awaited {
            peer,
            runtime: runtime.handle().clone(),
            failed: Arc::clone(&failed),
        };
        all.push((format!("{name} on Redis"), Box::new(awaited), bound));
    }
    let key = |threads| format!("{threads}-threads");
    // If the first call for a key begins its windows, they begin with a second.
    thread::sleep(until(Duration::ZERO));
    for (_, limiter, _) in &all {
        for threads in THREADS {
            limiter.check(&key(threads));
        }
    }
    // The limiters recover from that call.
    thread::sleep(WINDOW + WINDOW);
    for (name, limiter, bound) in &all {
        let mut row = format!("| {name} | {bound} |");
        for threads in THREADS {
            let calls = admitted(&**limiter, &key(threads), threads);
            let found = most_within(&calls, WINDOW - SLACK);
            row += &if u64::try_from(found)? > *bound {
                format!(" **{found}** |")
            } else {
                format!(" {found} |")
            };
        }
        writeln!(out, "{row}")?;
        if let Some(problem) = failed.get() {
            return Err(format!("{name}: {problem}").into());
        }
    }
    Ok(())
}

/// Returns the limiters of this library, one for each algorithm, and governor.
fn bounded() -> Result<Bounded, Problem> {
    let mut limiters: Bounded = Vec::new();
    for (name, limit, bound) in ALGORITHMS {
        let limiter = RateLimiter::new(MemoryStore::new(), [limit])?;
        limiters.push(((name, Box::new(limiter)), bound));
    }
    let amount = NonZeroU32::new(AMOUNT.into()).unwrap_or(NonZeroU32::MIN);
    let governor: DefaultKeyedRateLimiter<String> =
        Governor::keyed(GovernorQuota::per_second(amount));
    limiters.push((("governor", Box::new(governor)), 2 * u64::from(AMOUNT)));
    Ok(limiters)
}

/// A limiter on a server, for which a thread waits.
struct Awaited {
    peer: Box<dyn Peer>,
    runtime: Handle,
    /// The first problem.
    failed: Arc<OnceLock<Problem>>,
}

impl Subject for Awaited {
    fn check(&self, key: &String) -> bool {
        let decision = self.runtime.block_on(self.peer.check(key));
        decision.unwrap_or_else(|problem| {
            let _ = self.failed.set(problem);
            false
        })
    }
}

/// Returns the time until the system's clock is so far into a second.
fn until(then: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = Duration::from_nanos(now.unwrap_or_default().subsec_nanos().into());
    then.checked_sub(now)
        .unwrap_or_else(|| (then + WINDOW).saturating_sub(now))
}

/// Calls from `threads` at once, late in a second, and returns the admitted calls.
fn admitted(limiter: &dyn Subject, key: &str, threads: usize) -> Vec<Call> {
    let key = key.to_owned();
    thread::sleep(until(LATE));
    let end = Instant::now() + SPAN;
    let call = || {
        let mut calls = Vec::new();
        loop {
            let begun = Instant::now();
            if begun > end {
                return calls;
            }
            if limiter.check(&key) {
                calls.push((begun, Instant::now()));
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(call)).collect();
        let calls = threads.into_iter().map(thread::ScopedJoinHandle::join);
        calls.filter_map(Result::ok).flatten().collect()
    })
}

/// Returns the most calls that began and ended within one window.
fn most_within(calls: &[Call], window: Duration) -> usize {
    let mut ends: Vec<_> = calls.iter().map(|(_, ended)| *ended).collect();
    let mut begins: Vec<_> = calls.iter().map(|(begun, _)| *begun).collect();
    ends.sort_unstable();
    begins.sort_unstable();
    let within = begins.iter().enumerate().map(|(index, first)| {
        // All that ended before the window does, but for those that began before it.
        let ended = ends.partition_point(|ended| *ended - *first < window);
        ended.saturating_sub(index)
    });
    within.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_only_if_they_are_wholly_within_a_window() {
        let base = Instant::now();
        let call = |from, to| {
            let at = |ms| base + Duration::from_millis(ms);
            (at(from), at(to))
        };
        let most = |calls: &[Call]| most_within(calls, Duration::from_millis(10));
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[call(0, 1), call(5, 6), call(8, 9)]), 3);
        assert_eq!(most(&[call(0, 1), call(5, 6), call(9, 10)]), 2);
        assert_eq!(
            most(&[call(0, 1), call(11, 12), call(15, 16), call(20, 20)]),
            3
        );
    }
}
