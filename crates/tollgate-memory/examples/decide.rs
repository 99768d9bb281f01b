//! Makes decisions of one kind, whose instructions `cargo xtask instructions` counts.
//!
//! `decide gcra-denied 1000` makes a thousand; without arguments, the program prints all kinds.

use std::cell::Cell;
use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::Duration;

use tollgate_memory::{Decision, Limit, ManualClock, MemoryStore, RateLimiter};

const KEY: &str = "user-1234";
/// Begins long after 1970, as real clocks do.
const START_US: u64 = 1_780_000_000_000_000;
const FOUR: [&str; 4] = [
    "second=gcra:1000000/1s",
    "minute=gcra:60000000/1m",
    "hour=gcra:3600000000/1h",
    "day=gcra:86400000000/1d",
];

/// Makes a decision, some time after the one before.
type Decide = Box<dyn Fn()>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(kind), Some(calls)) = (arguments.next(), arguments.next()) else {
        for (name, _) in kinds()? {
            writeln!(io::stdout(), "{name}")?;
        }
        return Ok(());
    };
    let found = kinds()?.into_iter().find(|(name, _)| *name == kind);
    let (_, decide) = found.ok_or_else(|| format!("there is no kind {kind:?}"))?;
    for _ in 0..calls.parse()? {
        decide();
    }
    Ok(())
}

/// Returns a limiter, and its clock.
fn limiter(limits: &[&str]) -> Result<(RateLimiter<MemoryStore>, ManualClock), Box<dyn Error>> {
    let clock = ManualClock::new();
    clock.advance(Duration::from_micros(START_US));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limits = limits.iter().map(|limit| limit.parse());
    let limits = limits.collect::<Result<Vec<Limit>, _>>()?;
    Ok((RateLimiter::new(store, limits)?, clock))
}

/// Returns what makes decisions under `limits`, all allowed or all denied, for keys that are known.
///
/// Several limits get many keys, because it depends on a key in which order its states are locked.
fn check(limits: &[&str], cost: u64, is_allowed: bool) -> Result<Decide, Box<dyn Error>> {
    let (limiter, clock) = limiter(limits)?;
    let last = if limits.len() == 1 { 1_001 } else { 1_064 };
    let keys: Vec<_> = (1_000..last).map(|user| format!("user-{user}")).collect();
    for key in &keys {
        assert!(limiter.check(key).cost(cost).run()?.is_allowed());
    }
    let next = Cell::new(0);
    Ok(Box::new(move || {
        clock.advance(Duration::from_micros(10));
        let key = &keys[next.replace((next.get() + 1) % keys.len())];
        let decision = limiter.check(key).cost(cost).run();
        let decision = black_box(&decision).as_ref();
        assert!(decision.is_ok_and(|decision| decision.is_allowed() == is_allowed));
    }))
}

fn kinds() -> Result<Vec<(&'static str, Decide)>, Box<dyn Error>> {
    let (peeked, _) = limiter(&["one=gcra:100/1s"])?;
    let (reserved, clock) = limiter(&["one=gcra:1000000/1s,burst=1"])?;
    Ok(vec![
        ("gcra-allowed", check(&FOUR[..1], 1, true)?),
        ("gcra-denied", check(&["one=gcra:1/1d"], 1, false)?),
        ("two-gcra-allowed", check(&FOUR[..2], 1, true)?),
        ("four-gcra-allowed", check(&FOUR, 1, true)?),
        (
            "fixed-window-allowed",
            check(&["one=fixed-window:1000000/1m"], 1, true)?,
        ),
        (
            "fixed-window-denied",
            check(&["one=fixed-window:1/1d,anchored"], 1, false)?,
        ),
        (
            "sliding-counter-allowed",
            check(&["one=sliding-counter:1000000/1m"], 1, true)?,
        ),
        (
            "sliding-counter-denied",
            check(&["one=sliding-counter:1/1d"], 1, false)?,
        ),
        (
            "sliding-buckets-allowed",
            check(&["one=sliding-buckets:1000000/1m,buckets=10"], 1, true)?,
        ),
        (
            "sliding-buckets-denied",
            check(&["one=sliding-buckets:1/1d,buckets=10"], 1, false)?,
        ),
        (
            "sliding-log-allowed",
            check(&["one=sliding-log:100/1ms"], 1, true)?,
        ),
        (
            "sliding-log-denied",
            check(&["one=sliding-log:1/1d"], 1, false)?,
        ),
        (
            "peek",
            Box::new(move || {
                let decision = peeked.peek(KEY).run();
                let decision = black_box(&decision).as_ref();
                assert!(decision.is_ok_and(Decision::is_allowed));
            }),
        ),
        (
            "reserve",
            Box::new(move || {
                clock.advance(Duration::from_nanos(500));
                let decision = reserved.reserve(KEY).within(Duration::from_secs(60)).run();
                let decision = black_box(&decision).as_ref();
                assert!(decision.is_ok_and(Decision::is_allowed));
            }),
        ),
    ])
}
