//! Processes of unequal demand share one limit, first asking the server for each call, then for units ahead.
//!
//! It needs `redis-server`: `cargo run -p tollgate-layers --example prefetch`. `-- PROCESSES AMOUNT WINDOW
//! WITHIN` replaces how many there are, how many calls are allowed in a window, how long that is, and within
//! which time units are used, in milliseconds. It runs twice for four windows.

#![allow(clippy::print_stdout, reason = "it tells what it sees")]
#![allow(clippy::cast_precision_loss, reason = "parts are for people")]

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_layers::Prefetch;
use tollgate_redis::{RateLimiter, RedisStore, Store};
use tollgate_testkit::{Flavor, Server};

type Error = Box<dyn std::error::Error + Send + Sync>;
/// How many windows a run lasts.
const WINDOWS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut numbers = [4, 1_000, 2_000, 200];
    for (number, argument) in numbers.iter_mut().zip(env::args().skip(1)) {
        *number = argument.parse()?;
    }
    let [processes, amount, window, within] = numbers;
    let time = |ms: u32| Duration::from_millis(ms.into());
    run(processes, amount, time(window), time(within)).await
}

/// Runs `processes` that together call half as often again as `amount` in `window`, the limit.
pub(crate) async fn run(
    processes: u32,
    amount: u32,
    window: Duration,
    within: Duration,
) -> Result<(), Error> {
    let limit = format!("api=sliding-log:{amount}/{}ms", window.as_millis());
    println!("{processes} processes share {limit}; microseconds of a call");
    println!(
        "{:14}admitted/s  of quota  server calls   median     99 %  most in a window",
        ""
    );
    for is_ahead in [false, true] {
        let server = Server::start(Flavor::System);
        let (start, mut fleet) = (Instant::now(), JoinSet::new());
        for process in 1..=processes {
            // Each process has its own connection, and its own units in hand.
            let redis = RedisStore::connect(server.url()).await?;
            let store: Arc<dyn Store> = match is_ahead {
                true => Arc::new(Prefetch::new(redis, within)),
                false => Arc::new(redis),
            };
            let limiter = RateLimiter::new(store, [limit.clone()])?;
            // The second calls twice as often as the first, the third three times as often.
            let parts = f64::from(processes * (processes + 1)) / 2.0;
            let rate = 1.5 * f64::from(amount * process) / window.as_secs_f64() / parts;
            let pause = Duration::from_secs_f64(1.0 / rate);
            drop(fleet.spawn(call(limiter, pause, start, window * WINDOWS)));
        }
        let (mut admitted, mut times) = (Vec::new(), Vec::new());
        while let Some(process) = fleet.join_next().await {
            let (of_process, took) = process??;
            admitted.extend(of_process);
            times.extend(took);
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_micros();
        let used = used(&admitted, window);
        let most = most_within(&admitted, window);
        println!(
            "{:<12} {:>10.0} {:>7.1} % {:>13.3} {:>8} {:>8}  {most} of {amount}",
            if is_ahead {
                "units ahead"
            } else {
                "every call"
            },
            used / window.as_secs_f64(),
            100.0 * used / f64::from(amount),
            scripts(&server) as f64 / times.len() as f64,
            at(50),
            at(99),
        );
        assert!(most <= amount as usize, "more than the limit in a window");
    }
    Ok(())
}

/// When a call began, and when it was admitted.
type Admitted = (Duration, Duration);

/// Calls once in each `pause` for as long as `span`, and returns the admitted calls, and how long each took.
async fn call(
    limiter: RateLimiter<impl Store>,
    pause: Duration,
    start: Instant,
    span: Duration,
) -> Result<(Vec<Admitted>, Vec<Duration>), Error> {
    let (mut admitted, mut times) = (Vec::new(), Vec::new());
    let mut pauses = tokio::time::interval(pause);
    while start.elapsed() < span {
        let _ = pauses.tick().await;
        let before = start.elapsed();
        let decision = limiter.check("alice").await?;
        let after = start.elapsed();
        times.push(after - before);
        if decision.is_allowed() {
            admitted.push((before, after));
        }
    }
    Ok((admitted, times))
}

/// Returns the most calls that were certainly admitted within one `window`: they began and ended in it.
fn most_within(calls: &[Admitted], window: Duration) -> usize {
    let short = calls.iter().filter(|call| call.1 < call.0 + window);
    let (mut begun, mut ended): (Vec<_>, Vec<_>) = short.copied().unzip();
    begun.sort_unstable();
    ended.sort_unstable();
    // Calls that began before a window are shorter than it, and so end in it or earlier.
    let from = |&start: &Duration| {
        let earlier = begun.partition_point(|at| *at < start);
        ended.partition_point(|at| *at < start + window) - earlier
    };
    begun.iter().map(from).max().unwrap_or_default()
}

/// Returns how many calls were admitted per window: on average over all spans of the run that are a window
/// shorter than it, since most calls are admitted at the start of each window.
fn used(admitted: &[Admitted], window: Duration) -> f64 {
    let spans = admitted.iter().map(|call| {
        let at = call.1.div_duration_f64(window);
        at.min(f64::from(WINDOWS) - at).clamp(0.0, 1.0)
    });
    spans.sum::<f64>() / f64::from(WINDOWS - 1)
}

/// Returns how many scripts the server ran.
fn scripts(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]);
    let text = stats.text().unwrap_or_default();
    let calls = text.split("cmdstat_evalsha:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.unwrap_or_default()
}
