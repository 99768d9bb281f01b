//! Several processes that wait for one key on a server.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_core::RateLimiter;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};
use tollgate_tokio::WaitUpTo;

use crate::counting::Counting;
use crate::{Problem, per};

const PROCESSES: usize = 8;
/// How many calls of each process wait at a time.
const WAITING: usize = 4;
/// How long the processes may take to start.
const START: Duration = Duration::from_secs(1);
/// Longer than any call waits.
const LONGEST: Duration = Duration::from_secs(600);

pub(crate) fn heading(span: Duration) -> String {
    format!(
        "{PROCESSES} processes wait for one key on a server for {span:?}, {WAITING} calls each at a time:\n\n\
         | limits | admitted of what the limits allow | store calls per call | Jain's index | least and most of a process |\n\
         | --- | ---: | ---: | ---: | ---: |"
    )
}

/// Lets the processes wait, and returns the row of the table.
pub(crate) fn measure(limits: &[&str], span: Duration) -> Result<String, Problem> {
    let server = Server::start(Flavor::System);
    let begin = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + START;
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe()?);
            for limit in limits {
                command.args(["--limit", limit]);
            }
            command
                .args(["--server", &server.url()])
                .args(["--begin", &begin.as_millis().to_string()])
                .args(["--span", &span.as_millis().to_string()])
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    let mut admitted = Vec::new();
    let mut calls = 0;
    for [own_admitted, own_calls] in tollgate_benches::printed(children)? {
        admitted.push(own_admitted);
        calls += own_calls;
    }
    let all: u64 = admitted.iter().sum();
    let start = SystemTime::UNIX_EPOCH + begin;
    let most = crate::one::soonest(limits, start, |_, now| now < span)?.len();
    Ok(format!(
        "| `{}` | {:.3} | {:.3} | {:.3} | {} and {} |",
        limits.join("`, `"),
        per(all, u64::try_from(most)?),
        per(calls, all),
        jain(&admitted),
        admitted.iter().min().unwrap_or(&0),
        admitted.iter().max().unwrap_or(&0),
    ))
}

/// Returns Jain's fairness index: 1 if all shares are equal, 1 / n if one takes all.
pub(crate) fn jain(shares: &[u64]) -> f64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    per(
        sum * sum,
        u64::try_from(shares.len()).unwrap_or(1) * squares,
    )
}

/// Waits as one of several processes from `begin` on, in milliseconds since the epoch, and prints
/// how many calls were admitted, and how many store calls that took.
pub(crate) async fn one_of_them(
    url: &str,
    limits: &[String],
    begin: u64,
    span: Duration,
) -> Result<(), Problem> {
    let store = Arc::new(Counting::new(RedisStore::connect(url).await?));
    let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().map(String::as_str))?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    sleep(Duration::from_millis(begin).saturating_sub(now)).await;
    let end = Instant::now() + span;
    let admitted = Arc::new(AtomicU64::new(0));
    let mut waiting = JoinSet::new();
    for _ in 0..WAITING {
        let limiter = limiter.clone();
        let admitted = Arc::clone(&admitted);
        waiting.spawn(async move {
            loop {
                let call = limiter.check("alice").wait_up_to(LONGEST);
                match timeout_at(end, call.into_future()).await {
                    Ok(call) => call?,
                    Err(_) => return Ok::<_, Problem>(()),
                };
                admitted.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while let Some(call) = waiting.join_next().await {
        call??;
    }
    crate::say(&format!(
        "{} {}",
        admitted.load(Ordering::Relaxed),
        store.calls()
    ))
}
