//! Shared parts of the benchmarks: keys, subjects and measurement.

pub mod admitted;
mod cores;
pub mod prefetch;
mod processor;
pub mod ratios;
pub mod servers;

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use governor::{DefaultKeyedRateLimiter, Quota as GovernorQuota, RateLimiter as Governor};
use tollgate_core::{
    Algorithm, Decision, FixedWindow, Gcra, Limit, LimitError, Quota, RateLimiter, SlidingBuckets,
    SlidingCounter, SlidingLog, Store,
};
use tollgate_memory::MemoryStore;

/// Returns the exit status of a program, and prints what ended it, if something did.
#[must_use]
pub fn ended(outcome: Result<(), Problem>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(io::stderr(), "error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the middle one of `values`; of two, the greater.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// An error that ends a benchmark.
pub type Problem = Box<dyn Error + Send + Sync>;

/// Whether the calls of a benchmark are all admitted or all denied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a call has no third outcome")]
pub enum Outcome {
    /// All admitted: a quota that no loop exhausts.
    Allowed,
    /// All denied: a quota that every key exhausts before the measurement.
    Denied,
}

/// A rate limiter that decides a call for a key.
pub trait Subject: Sync {
    /// Decides a call, and returns whether it is allowed once the whole answer is in memory.
    #[expect(
        clippy::ptr_arg,
        reason = "governor looks a String up by reference to one"
    )]
    fn check(&self, key: &String) -> bool;
}

impl Subject for RateLimiter<MemoryStore> {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let decision = self.check(key).run();
        black_box(&decision)
            .as_ref()
            .is_ok_and(Decision::is_allowed)
    }
}

/// A function that asks a limiter whether a call is allowed.
type Ask = fn(&RateLimiter<MemoryStore>, &String) -> Result<bool, Problem>;

/// Asks as programs do: in a function that moves the decision by `?`.
struct Written {
    limiter: RateLimiter<MemoryStore>,
    ask: Ask,
}

impl Subject for Written {
    #[inline]
    fn check(&self, key: &String) -> bool {
        matches!((self.ask)(&self.limiter, key), Ok(true))
    }
}

/// The ways to ask, by name.
const WAYS: [(&str, Ask); 3] = [
    ("gcra-is-allowed", |limiter, key| {
        Ok(limiter.check(key).run()?.is_allowed())
    }),
    ("gcra-remaining", |limiter, key| {
        let decision = limiter.check(key).run()?;
        Ok(decision.is_allowed() && black_box(decision.remaining()) > 0)
    }),
    ("gcra-permit", |limiter, key| {
        limiter.check(key).run()?.permit()?;
        Ok(true)
    }),
];

/// Awaits calls of a store behind a pointer, as programs do that choose their store at run time.
struct Awaits(RateLimiter<Arc<dyn Store>>);

impl Subject for Awaits {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let call = pin!(self.0.check(key).into_future());
        // In memory, a call ends at its first poll.
        let Poll::Ready(decision) = call.poll(&mut Context::from_waker(Waker::noop())) else {
            return false;
        };
        black_box(&decision)
            .as_ref()
            .is_ok_and(Decision::is_allowed)
    }
}

/// Reserves starts, most of them delayed.
struct Reserves {
    limiter: RateLimiter<MemoryStore>,
    within: Duration,
}

impl Subject for Reserves {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let decision = self.limiter.reserve(key).within(self.within).run();
        black_box(&decision)
            .as_ref()
            .is_ok_and(Decision::is_allowed)
    }
}

impl Subject for DefaultKeyedRateLimiter<String> {
    #[inline]
    fn check(&self, key: &String) -> bool {
        let decision = self.check_key(key);
        black_box(&decision).is_ok()
    }
}

/// A rate limiter of others on a server.
#[async_trait]
pub trait Peer: Send + Sync {
    /// Decides a call, and returns whether it is allowed.
    ///
    /// # Errors
    ///
    /// If the limiter fails.
    async fn check(&self, key: &str) -> Result<bool, Problem>;
}

/// A rate limiter with its name.
pub type Named<S = dyn Subject> = (&'static str, Box<S>);

/// Returns all subjects with their names, `governor` first.
fn subjects(outcome: Outcome) -> Result<Vec<Named>, Problem> {
    let quota = match outcome {
        Outcome::Allowed => Quota::per_second(1_000_000_000),
        Outcome::Denied => Quota::per_day(1),
    };
    // A log holds at most 100,000 units, which is more than any loop consumes in a millisecond.
    let log_quota = match outcome {
        Outcome::Allowed => Quota::new(100_000, Duration::from_millis(1))?,
        Outcome::Denied => quota,
    };
    let billion = NonZeroU32::new(1_000_000_000).unwrap_or(NonZeroU32::MAX);
    let governor_quota = match outcome {
        Outcome::Allowed => GovernorQuota::per_second(billion),
        Outcome::Denied => GovernorQuota::per_hour(NonZeroU32::MIN),
    };
    let governor: DefaultKeyedRateLimiter<String> = Governor::keyed(governor_quota);
    let mut subjects: Vec<Named> = vec![("governor", Box::new(governor))];
    for (name, algorithm) in algorithms(quota, log_quota)? {
        let store = MemoryStore::builder().max_keys(2_000_000).build();
        let limiter = RateLimiter::new(store, [Limit::new(name, algorithm)?])?;
        subjects.push((name, Box::new(limiter)));
    }
    let gcra = Gcra::new(quota)?;
    for (name, ask) in WAYS {
        let store = MemoryStore::builder().max_keys(2_000_000).build();
        let limiter = RateLimiter::new(store, [Limit::new(name, gcra)?])?;
        subjects.push((name, Box::new(Written { limiter, ask })));
    }
    // Of limits that decide together, the last one denies.
    let wide = Gcra::new(Quota::per_second(1_000_000_000))?;
    for (name, algorithms) in [
        ("two-gcra", &[wide, gcra][..]),
        ("four-gcra", &[wide, wide, wide, gcra]),
    ] {
        let limits = (0..).zip(algorithms);
        let limits = limits.map(|(index, gcra)| Limit::new(&format!("{name}-{index}"), *gcra));
        let limits: Vec<_> = limits.collect::<Result<_, _>>()?;
        let store = MemoryStore::builder().max_keys(8_000_000).build();
        subjects.push((name, Box::new(RateLimiter::new(store, limits)?)));
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::builder().max_keys(2_000_000).build());
    let limiter = RateLimiter::new(store, [Limit::new("awaited", gcra)?])?;
    subjects.push(("gcra-awaited", Box::new(Awaits(limiter))));
    let (quota, within) = match outcome {
        // Calls come faster than one a second for each of a million keys.
        Outcome::Allowed => (Quota::per_second(1), Duration::MAX),
        Outcome::Denied => (quota, Duration::ZERO),
    };
    let store = MemoryStore::builder().max_keys(2_000_000).build();
    let limiter = RateLimiter::new(store, [Limit::new("reserve", Gcra::with_burst(quota, 1)?)?])?;
    subjects.push(("gcra-reserve", Box::new(Reserves { limiter, within })));
    Ok(subjects)
}

/// Returns every algorithm with its name; the log has a quota of its own.
fn algorithms(
    quota: Quota,
    log_quota: Quota,
) -> Result<[(&'static str, Algorithm); 6], LimitError> {
    Ok([
        ("gcra", Gcra::new(quota)?.into()),
        ("fixed-window-aligned", FixedWindow::aligned(quota).into()),
        ("fixed-window-anchored", FixedWindow::anchored(quota).into()),
        ("sliding-counter", SlidingCounter::new(quota)?.into()),
        ("sliding-buckets-10", SlidingBuckets::new(quota, 10)?.into()),
        ("sliding-log", SlidingLog::new(log_quota)?.into()),
    ])
}

/// Returns `count` keys in an order that caches cannot predict.
#[must_use]
pub fn keys(count: usize) -> Vec<String> {
    let mut keys: Vec<String> = (0..count).map(|n| format!("user:{n}")).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for i in (1..count).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let most = u64::try_from(i).unwrap_or(u64::MAX);
        let j = usize::try_from(random % most.saturating_add(1)).unwrap_or(0);
        keys.swap(i, j);
    }
    keys
}

/// Calls every subject twice for every key, so that every key is stored and a quota of one is
/// exhausted.
fn warm_up(subjects: &[Named], keys: &[String]) {
    for (_, subject) in subjects {
        for key in keys.iter().chain(keys) {
            subject.check(key);
        }
    }
}

/// Returns how long `threads` take to make `calls` each, starting at different `keys`.
///
/// Each measurement continues where the last one ended, so that a benchmark of a million keys uses
/// all of them even if its measurements are short.
fn time(subject: &dyn Subject, keys: &[String], threads: usize, calls: u64) -> Duration {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let first = NEXT.fetch_add(usize::try_from(calls).unwrap_or(0), Ordering::Relaxed);
    let run = |thread: usize| {
        let mut next = (first + keys.len() / threads * thread) % keys.len();
        let mut allowed = 0_u64;
        for _ in 0..calls {
            allowed += u64::from(subject.check(&keys[next]));
            next += 1;
            if next == keys.len() {
                next = 0;
            }
        }
        allowed
    };
    let start = Instant::now();
    if threads == 1 {
        black_box(run(0));
    } else {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || black_box(run(thread)));
            }
        });
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_median_is_a_value_of_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([1.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }
}
