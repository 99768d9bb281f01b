//! A job that every process of a fleet starts and one runs: whoever holds the lease.
//!
//! The lease renews itself while the job runs, and ends by itself if the process dies.
//!
//! ```sh
//! cargo run -p tollgate-redis --example job -- redis://127.0.0.1:6379
//! ```

#![allow(clippy::print_stdout, reason = "it tells what it sees")]

use std::env;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_redis::RedisStore;
use tollgate_redis::lease::ConcurrencyLimiter;
use tollgate_tokio::LeaseGuard;

type Error = Box<dyn std::error::Error + Send + Sync>;

const JOB: &str = "nightly-report";
/// How long the job stands still after a crash; it is short here, so that the example is.
const TTL: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(&env::args().nth(1).ok_or("give the URL of a server")?).await
}

/// Runs the job on the server at `url`.
pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let mut fleet = JoinSet::new();
    for process in 1..=3 {
        let jobs = connect(url).await?;
        fleet.spawn(async move { try_once(process, &jobs).await });
    }
    let mut ran = 0;
    while let Some(process) = fleet.join_next().await {
        ran += u32::from(process??);
    }
    assert_eq!(ran, 1);

    // A process acquires the lease without a guard, and dies.
    let jobs = connect(url).await?;
    let dead = jobs.acquire(JOB, "process-4").await?.permit()?;
    let died = Instant::now();
    let guard = LeaseGuard::acquire(&jobs, JOB).wait_up_to(5 * TTL).await?;
    println!("{:?} after a crash, another one takes over", died.elapsed());
    assert!(guard.token() > dead.token());
    guard.release().await?;
    Ok(())
}

async fn connect(url: &str) -> Result<ConcurrencyLimiter<RedisStore>, Error> {
    let store = RedisStore::connect(url).await?;
    Ok(ConcurrencyLimiter::new(store, "jobs", 1, TTL)?)
}

/// Runs the job, unless another process does. Returns whether it ran here.
async fn try_once(process: u32, jobs: &ConcurrencyLimiter<RedisStore>) -> Result<bool, Error> {
    let guard = match LeaseGuard::acquire(jobs, JOB).await? {
        Ok(guard) => guard,
        Err(refusal) => {
            println!("process {process} leaves it to another: {refusal}");
            return Ok(false);
        }
    };
    println!(
        "process {process} runs the job, with token {}",
        guard.token()
    );
    // If the lease is lost, the work is dropped, and this is an error.
    let rows = guard.protect(report(guard.token())).await?;
    println!("process {process} wrote {rows} rows");
    guard.release().await?;
    Ok(true)
}

/// Works for longer than the lease lives without a renewal.
///
/// A real job sends the token along with each write, so that the storage can refuse one from a
/// process that was stopped meanwhile.
async fn report(_token: u64) -> u32 {
    sleep(2 * TTL).await;
    1_000
}
