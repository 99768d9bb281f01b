//! The limits that each promise is checked on: one family per algorithm.

use tollgate_core::{Algorithm, Limit};

/// Token buckets: full and small bursts, and rates whose interval is not a whole number of
/// microseconds.
#[must_use]
pub fn gcra() -> Vec<Limit> {
    family(&[
        "gcra:5/1s",
        "gcra:4/1s,burst=1",
        "gcra:7/1300ms,burst=3",
        "gcra:7/3us,burst=20",
        "gcra:1000000/1d,burst=10",
    ])
}

/// Fixed windows: aligned and anchored, with and without counting denied calls.
#[must_use]
pub fn fixed_window() -> Vec<Limit> {
    family(&[
        "fixed-window:5/1m",
        "fixed-window:5/1m,anchored",
        "fixed-window:3/1s,count-denied",
        "fixed-window:4/7ms,anchored,count-denied",
        "fixed-window:2/3us",
        "fixed-window:1000/1h,anchored",
    ])
}

/// Days, weeks, months and years of time zones: whole and half hours from UTC, with and without clocks
/// that change; some begin at an hour that clocks skip and repeat, or on another day.
#[must_use]
pub fn calendar_window() -> Vec<Limit> {
    family(&[
        "fixed-window:5/day@Europe/Berlin",
        "fixed-window:3/week@Australia/Lord_Howe,start=sunday",
        "fixed-window:1000/month@Asia/Kolkata,day=31,at=04:00",
        "fixed-window:4/year@America/New_York,month=4,day=6",
        "fixed-window:2/day@Europe/Berlin,at=02:30",
    ])
}

/// Sliding buckets: from one bucket to the maximum, with bucket counts that do and do not divide
/// the window.
#[must_use]
pub fn sliding_buckets() -> Vec<Limit> {
    family(&[
        "sliding-buckets:5/1s,buckets=1",
        "sliding-buckets:20/1h,buckets=12",
        "sliding-buckets:7/1300ms,buckets=127",
        "sliding-buckets:3/10us,buckets=3",
    ])
}

/// Sliding counters: small ones, odd ones, and one so large that its window is counted in coarser
/// steps.
#[must_use]
pub fn sliding_counter() -> Vec<Limit> {
    family(&[
        "sliding-counter:5/1m",
        "sliding-counter:1/1s",
        "sliding-counter:7/1300ms",
        "sliding-counter:3/10us",
        "sliding-counter:1000000/1d",
    ])
}

/// Sliding logs: with and without counting denied calls, from one entry to many.
#[must_use]
pub fn sliding_log() -> Vec<Limit> {
    family(&[
        "sliding-log:5/1m",
        "sliding-log:1/1s",
        "sliding-log:3/1s,count-denied",
        "sliding-log:100/1300ms",
        "sliding-log:3/10us",
    ])
}

/// One or two limits of each algorithm, to decide together.
#[must_use]
pub fn composite() -> Vec<Limit> {
    family(&[
        "gcra:5/1s,burst=3",
        "fixed-window:20/1m",
        "sliding-log:4/1s",
        "sliding-counter:10/2s",
        "sliding-buckets:8/1s,buckets=4",
        "fixed-window:6/1s,anchored,count-denied",
        "sliding-log:9/3s,count-denied",
        "fixed-window:40/day@Europe/Berlin",
    ])
}

/// Limits that delay calls, alone and together: some space single calls, some admit a burst first,
/// and some have starts that are not whole microseconds apart.
#[must_use]
pub fn reservation() -> Vec<Limit> {
    family(&[
        "gcra:4/1s,burst=1",
        "gcra:5/1s",
        "gcra:7/1300ms,burst=3",
        "gcra:7/3us,burst=20",
    ])
}

/// Blocks that last a fixed time or longer when repeated, and limits that count beside them.
#[must_use]
pub fn block() -> Vec<Limit> {
    family(&[
        "block:1s",
        "block:700ms,doublings=2",
        "block:3s,shadow",
        "gcra:5/1s,burst=3",
        "sliding-log:4/1s",
        "sliding-log:6/1s,count-denied",
    ])
}

/// Limits in shadow, beside some that deny.
#[must_use]
pub fn shadow() -> Vec<Limit> {
    family(&[
        "gcra:5/1s,burst=3",
        "sliding-log:4/1s",
        "gcra:3/1s,burst=2,shadow",
        "sliding-log:3/2s,shadow",
        // In one window with the epoch.
        "fixed-window:5/36500d,shadow",
        "sliding-counter:4/2s,shadow",
        "sliding-buckets:6/1s,buckets=3,shadow",
        "fixed-window:3/1s,anchored,count-denied,shadow",
        "sliding-log:4/3s,count-denied,shadow",
        "fixed-window:30/year@UTC,shadow",
    ])
}

/// Limits of calls that have ids: one of each algorithm, and two that can delay calls.
#[must_use]
pub fn id() -> Vec<Limit> {
    family(&[
        "gcra:5/1s",
        "gcra:4/1s,burst=1",
        "fixed-window:6/1s",
        "sliding-log:4/1s",
        "sliding-counter:10/2s",
        "sliding-buckets:8/1s,buckets=4",
    ])
}

/// Windows of the calendar in the time zone, and from the day, of each call.
#[must_use]
pub fn zone() -> Vec<Limit> {
    family(&[
        "fixed-window:5/day@local",
        "fixed-window:3/week@local",
        "fixed-window:1000/month@local,day=local",
        "fixed-window:4/year@local",
    ])
}

/// One limit of each algorithm, for promises that do not depend on it.
#[must_use]
pub fn store() -> Vec<Limit> {
    family(&[
        "gcra:5/1s",
        "fixed-window:5/1m",
        "sliding-log:5/1m",
        "sliding-counter:5/1m",
        "sliding-buckets:5/1m,buckets=4",
        "fixed-window:5/month@Europe/Berlin",
    ])
}

fn family(algorithms: &[&str]) -> Vec<Limit> {
    let limits = algorithms
        .iter()
        .enumerate()
        .map(|(index, text)| format!("conformance-{index}={text}").parse().unwrap());
    limits.collect()
}

/// Returns `limit` with another quota, and a bucket with another burst, if that is valid.
pub(crate) fn resized(limit: &Limit, amount: u64, window_us: u64, burst: u64) -> Limit {
    let algorithm = limit.algorithm();
    let resized = with_quota(algorithm, amount, window_us, burst).unwrap_or(*algorithm);
    Limit::new(limit.name(), resized).unwrap()
}

/// Returns `algorithm` with another quota, and a bucket with another burst, if that is valid. A unit of
/// the calendar keeps its length.
///
/// It changes the text, which has the options of every algorithm.
pub(crate) fn with_quota(
    algorithm: &Algorithm,
    amount: u64,
    window_us: u64,
    burst: u64,
) -> Option<Algorithm> {
    let text = algorithm.to_string();
    let (name, rest) = text.split_once(':')?;
    let (quota, options) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
    let (_, window) = quota.split_once('/')?;
    let window = if window.contains('@') {
        window.to_owned()
    } else {
        format!("{window_us}us")
    };
    let options = match algorithm {
        Algorithm::Gcra(_) => format!(",burst={burst}"),
        _ => options.to_owned(),
    };
    format!("{name}:{amount}/{window}{options}").parse().ok()
}
