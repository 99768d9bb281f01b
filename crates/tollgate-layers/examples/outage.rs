//! A server that is stopped, killed and started again, and what callers see of it.
//!
//! It needs `redis-server`: `cargo run -p tollgate-layers --example outage`.

#![allow(clippy::print_stdout, reason = "it tells what it sees")]

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_layers::{Lazy, Share, usual};
use tollgate_memory::MemoryStore;
use tollgate_redis::{RateLimiter, RedisStore, Store};
use tollgate_testkit::{Flavor, Server};

const CALLERS: usize = 20;
type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    run(Duration::from_secs(2)).await
}

/// Stops, kills and starts a server, and looks at each state of it for as long as `phase`.
pub(crate) async fn run(phase: Duration) -> Result<(), Error> {
    let server = Server::start(Flavor::System);
    server.kill();

    // The service starts although its server is down.
    let url = server.url();
    let redis = Lazy::new(move || RedisStore::connect(url.clone()));
    let processes = NonZeroU32::new(4).ok_or("no processes")?;
    let store = usual(redis, Share::new(MemoryStore::new(), processes));
    let limiter = RateLimiter::new(store, ["api=gcra:1000/1s"])?;

    println!("{CALLERS} callers, each a call every millisecond; microseconds of a call");
    println!(
        "{:<28} {:>7} {:>7} {:>7}  decided by",
        "", "median", "99 %", "most"
    );
    seen("the server is down", &limiter, phase).await?;
    server.restart();
    seen("it starts", &limiter, phase).await?;
    seen("it is up", &limiter, phase).await?;
    server.pause();
    seen("it stops answering", &limiter, phase).await?;
    server.resume();
    seen("it answers again", &limiter, phase).await?;
    server.kill();
    seen("it is killed", &limiter, phase).await?;
    server.restart();
    seen("it starts again", &limiter, phase).await?;
    Ok(())
}

/// Calls for as long as `phase`, and prints what callers saw.
async fn seen<S: Store + 'static>(
    state: &str,
    limiter: &RateLimiter<S>,
    phase: Duration,
) -> Result<(), Error> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let limiter = limiter.clone();
        drop(callers.spawn(async move {
            let (mut times, mut sources) = (Vec::new(), BTreeMap::<_, u32>::new());
            while begun.elapsed() < phase {
                let asked = Instant::now();
                let decision = limiter.check(caller as u64).await?;
                times.push(asked.elapsed().as_micros());
                let source = format!("{:?}", decision.source());
                *sources.entry(source).or_default() += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, Error>((times, sources))
        }));
    }
    let (mut times, mut sources) = (Vec::new(), BTreeMap::<_, u32>::new());
    while let Some(caller) = callers.join_next().await {
        let (of_caller, by) = caller??;
        times.extend(of_caller);
        for (source, count) in by {
            *sources.entry(source).or_default() += count;
        }
    }
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let by: Vec<_> = sources
        .iter()
        .map(|(source, count)| format!("{source} {count}"))
        .collect();
    let (median, slow, most) = (at(50), at(99), at(100));
    println!(
        "{state:<28} {median:>7} {slow:>7} {most:>7}  {}",
        by.join(", ")
    );
    Ok(())
}
