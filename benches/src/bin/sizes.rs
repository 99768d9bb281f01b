//! Prints how many bytes a key takes, by algorithm and by the number of calls that it remembers.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use tokio::runtime::Builder;
use tollgate_benches::Problem;
use tollgate_benches::saved::Saved;
use tollgate_core::{Algorithm, Limit, RateLimiter, Store, Timestamp};
use tollgate_memory::MemoryStore;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};

/// How many keys share the table's empty places, in memory.
const KEYS: usize = 512;
const CALLS: [u64; 5] = [1, 10, 100, 1_000, 10_000];
const LIMITS: [&str; 6] = [
    "gcra:1000000/1h",
    "fixed-window:1000000/1h",
    "sliding-counter:1000000/1h",
    "sliding-buckets:1000000/1h,buckets=10",
    "sliding-buckets:1000000/1h,buckets=60",
    "sliding-log:100000/1h",
];

/// Prints how many bytes a key takes, in memory and on a server.
#[derive(Debug, Parser)]
struct Arguments {
    /// Writes the numbers to this file, too.
    #[arg(long)]
    csv: Option<PathBuf>,
}

fn main() -> Result<(), Problem> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all(&Arguments::parse()))
}

async fn all(arguments: &Arguments) -> Result<(), Problem> {
    let mut out = io::stdout();
    let columns = ["store", "limit", "calls", "bytes"];
    let mut saved = Saved::to(arguments.csv.as_deref(), &columns)?;
    writeln!(out, "| store | limit | calls | bytes of a key |")?;
    writeln!(out, "|---|---|---:|---:|")?;
    let server = Server::start(Flavor::System);
    let store = Arc::new(RedisStore::connect(server.url()).await?);
    for text in LIMITS {
        let limit = Limit::new("size", text.parse::<Algorithm>()?)?;
        for calls in CALLS {
            let memory = in_memory(&limit, calls)?;
            let on_server = on_server(&server, &store, &limit, calls).await?;
            for (store, bytes) in [("memory", memory), ("redis", on_server)] {
                writeln!(out, "| {store} | {text} | {calls} | {bytes} |")?;
                saved.row([store, text, &calls.to_string(), &bytes.to_string()])?;
            }
        }
    }
    Ok(())
}

/// Returns the instants of so many calls, spread over an hour.
fn instants(calls: u64) -> impl Iterator<Item = Timestamp> {
    let first = 1_780_000_000_000_000;
    (0..calls).filter_map(move |call| {
        let after = call * 3_600_000_000 / calls;
        Timestamp::from_micros(first + after).ok()
    })
}

/// Returns a key's share of a store in memory in which every key was called so often.
fn in_memory(limit: &Limit, calls: u64) -> Result<usize, Problem> {
    let limiter = RateLimiter::new(MemoryStore::new(), [limit.clone()])?;
    let keys: Vec<_> = (0..KEYS).map(|key| format!("user-{key}")).collect();
    for instant in instants(calls) {
        for key in &keys {
            let _ = limiter.check(key).at(instant).run()?;
        }
    }
    Ok(limiter.store().bytes() / KEYS)
}

/// Returns what a server says that a key takes that was called so often.
async fn on_server(
    server: &Server,
    store: &Arc<impl Store>,
    limit: &Limit,
    calls: u64,
) -> Result<usize, Problem> {
    let limiter = RateLimiter::new(Arc::clone(store), [limit.clone()])?;
    server.command(&["FLUSHALL"]);
    for instant in instants(calls) {
        let _ = limiter.check("user-100").at(instant).await?;
    }
    let key = server.command(&["RANDOMKEY"]);
    let key = key.text().ok_or("the server has no key")?;
    let usage = server.command(&["MEMORY", "USAGE", key, "SAMPLES", "0"]);
    let bytes = usage.integer();
    let bytes = bytes.ok_or("the server does not say what a key takes")?;
    Ok(usize::try_from(bytes)?)
}
