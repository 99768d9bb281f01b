//! Makes decisions of one kind, whose instructions `cargo xtask instructions` counts.
//!
//! `decide gcra-denied 1000` makes a thousand; without arguments, the program prints all kinds.

use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_memory::{Decision, Limit, ManualClock, MemoryStore, RateLimiter, Store};

const KEY: &str = "user-1234";
/// Begins long after 1970, as real clocks do.
const START_US: u64 = 1_780_000_000_000_000;
const FOUR: [&str; 4] = [
    "second=gcra:1000000/1s",
    "minute=gcra:60000000/1m",
    "hour=gcra:3600000000/1h",
    "day=gcra:86400000000/1d",
];

const MONTH: &str = "one=fixed-window:1000000000/month@Europe/Berlin";
const BUCKETS: &str = "one=sliding-buckets:1000000/1m,buckets=10";

/// Of limits that decide together, the last one denies.
const FOUR_DENYING: [&str; 4] = [FOUR[0], FOUR[1], FOUR[2], "day=gcra:1/1d"];

/// Each kind of check, and its limits: all checks are allowed or all are denied, as the name says.
const CHECKS: [(&str, &[&str]); 16] = [
    ("gcra-allowed", &["one=gcra:1000000/1s"]),
    ("gcra-denied", &["one=gcra:1/1d"]),
    ("two-gcra-allowed", FOUR.split_at(2).0),
    ("two-gcra-denied", FOUR_DENYING.split_at(2).1),
    ("four-gcra-allowed", &FOUR),
    ("four-gcra-denied", &FOUR_DENYING),
    ("fixed-window-allowed", &["one=fixed-window:1000000/1m"]),
    ("fixed-window-denied", &["one=fixed-window:1/1d,anchored"]),
    ("calendar-window-allowed", &[MONTH]),
    ("calendar-window-denied", &["one=fixed-window:1/year@UTC"]),
    (
        "sliding-counter-allowed",
        &["one=sliding-counter:1000000/1m"],
    ),
    ("sliding-counter-denied", &["one=sliding-counter:1/1d"]),
    ("sliding-buckets-allowed", &[BUCKETS]),
    (
        "sliding-buckets-denied",
        &["one=sliding-buckets:1/1d,buckets=10"],
    ),
    ("sliding-log-allowed", &["one=sliding-log:100/1ms"]),
    ("sliding-log-denied", &["one=sliding-log:1/1d"]),
];
const OTHERS: [&str; 6] = [
    "gcra-awaited",
    "gcra-is-allowed",
    "gcra-permit",
    "gcra-remaining",
    "peek",
    "reserve",
];

/// Makes a decision, some time after the one before.
type Decide = Box<dyn Fn()>;
type Made = Result<Decide, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(kind), Some(calls)) = (arguments.next(), arguments.next()) else {
        for name in CHECKS.map(|(name, _)| name).into_iter().chain(OTHERS) {
            writeln!(io::stdout(), "{name}")?;
        }
        return Ok(());
    };
    let decide = decide(&kind)?;
    for _ in 0..calls.parse()? {
        decide();
    }
    Ok(())
}

fn decide(kind: &str) -> Made {
    if let Some((name, limits)) = CHECKS.iter().find(|(name, _)| *name == kind) {
        return check(limits, name.ends_with("-allowed"));
    }
    match kind {
        "gcra-awaited" => awaited(),
        "gcra-is-allowed" => written(is_allowed),
        "gcra-permit" => written(permit),
        "gcra-remaining" => written(remaining),
        "peek" => peek(),
        "reserve" => reserve(),
        _ => Err(format!("there is no kind {kind:?}").into()),
    }
}

fn limiter(limits: &[&str]) -> Result<(RateLimiter<MemoryStore>, ManualClock), Box<dyn Error>> {
    limiter_on(limits, |store| store)
}

/// Returns a limiter on what is made of a store in memory, and its clock.
fn limiter_on<S: Store>(
    limits: &[&str],
    on: impl FnOnce(MemoryStore) -> S,
) -> Result<(RateLimiter<S>, ManualClock), Box<dyn Error>> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_micros(START_US));
    let store = on(MemoryStore::builder().clock(clock.clone()).build());
    let limits = limits.iter().map(|limit| limit.parse());
    let limits = limits.collect::<Result<Vec<Limit>, _>>()?;
    Ok((RateLimiter::new(store, limits)?, clock))
}

/// Returns what makes decisions under `limits`, all allowed or all denied, for keys that are known.
fn check(limits: &[&str], is_allowed: bool) -> Made {
    let (limiter, clock) = limiter(limits)?;
    // Several limits get many keys, because where states are in the table depends on the key.
    let last = if limits.len() == 1 { 1_001 } else { 1_064 };
    let keys: Vec<_> = (1_000..last).map(|user| format!("user-{user}")).collect();
    for key in &keys {
        assert!(limiter.check(key).run()?.is_allowed());
    }
    let next = Cell::new(0);
    Ok(Box::new(move || {
        clock.advance(Duration::from_micros(10));
        let key = &keys[next.replace((next.get() + 1) % keys.len())];
        let decision = limiter.check(key).run();
        let decision = black_box(&decision).as_ref();
        assert!(decision.is_ok_and(|decision| decision.is_allowed() == is_allowed));
    }))
}

/// A function that asks a limiter as programs do.
type Written = fn(&RateLimiter<MemoryStore>, &str) -> Result<bool, Box<dyn Error>>;

fn is_allowed(limiter: &RateLimiter<MemoryStore>, key: &str) -> Result<bool, Box<dyn Error>> {
    Ok(limiter.check(key).run()?.is_allowed())
}

fn permit(limiter: &RateLimiter<MemoryStore>, key: &str) -> Result<bool, Box<dyn Error>> {
    limiter.check(key).run()?.permit()?;
    Ok(true)
}

fn remaining(limiter: &RateLimiter<MemoryStore>, key: &str) -> Result<bool, Box<dyn Error>> {
    let decision = limiter.check(key).run()?;
    Ok(decision.is_allowed() && decision.remaining() > 0)
}

/// Returns what makes the same decisions as `gcra-allowed`, and moves them by `?`.
fn written(ask: Written) -> Made {
    let (limiter, clock) = limiter(&["one=gcra:1000000/1s"])?;
    assert!(limiter.check(KEY).run()?.is_allowed());
    Ok(Box::new(move || {
        clock.advance(Duration::from_micros(10));
        let is_allowed = black_box(ask)(&limiter, black_box(KEY));
        assert!(is_allowed.is_ok_and(|is_allowed| is_allowed));
    }))
}

/// Returns what makes the same decisions as `gcra-allowed`, through a store of any kind.
fn awaited() -> Made {
    let any = |store| -> Arc<dyn Store> { Arc::new(store) };
    let (limiter, clock) = limiter_on(&["one=gcra:1000000/1s"], any)?;
    let poll = move || {
        clock.advance(Duration::from_micros(10));
        let mut future = pin!(limiter.check(KEY).into_future());
        let decision = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let decision = black_box(&decision);
        assert!(matches!(decision, Poll::Ready(Ok(decision)) if decision.is_allowed()));
    };
    Ok(Box::new(poll))
}

fn peek() -> Made {
    let (limiter, _) = limiter(&["one=gcra:100/1s"])?;
    assert!(limiter.check(KEY).run()?.is_allowed());
    Ok(Box::new(move || {
        let decision = limiter.peek(KEY).run();
        let decision = black_box(&decision).as_ref();
        assert!(decision.is_ok_and(Decision::is_allowed));
    }))
}

fn reserve() -> Made {
    let (limiter, clock) = limiter(&["one=gcra:1000000/1s,burst=1"])?;
    Ok(Box::new(move || {
        clock.advance(Duration::from_nanos(500));
        let decision = limiter.reserve(KEY).within(Duration::from_secs(60)).run();
        let decision = black_box(&decision).as_ref();
        assert!(decision.is_ok_and(Decision::is_allowed));
    }))
}
