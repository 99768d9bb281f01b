//! Measures units ahead on a server, beside calls that each ask it.
//!
//! Of times, it prints medians. Server calls are counted by the server, with those that give units back.

#![expect(clippy::print_stdout, reason = "it prints tables")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tollgate_core::{RateLimiter, Store};
use tollgate_layers::{AllowAll, DenyCache, Prefetch, usual};
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::{Flavor, Server};

use crate::processor;
use crate::run::{Problem, Subject, median};

const L: Duration = Duration::from_millis(200);
const TIMES: [Duration; 3] = [Duration::from_millis(50), L, Duration::from_secs(1)];
/// A limit that no loop exhausts.
const WIDE: &str = "wide=gcra:1000000000/1s";
const NARROW: &str = "narrow=fixed-window:1/1h";
/// The row of calls that are denied.
const DENIED: &str = "`DenyCache`, denied";
/// How many decisions a call makes: a single one is too short.
const TOGETHER: u32 = 32;

/// Measures units ahead on a server that it starts.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Selects one table: `hot`, `counts` or `silent`.
    table: Option<String>,
    /// How often everything that is timed is measured; with 1, it only checks that everything works.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
}

/// Measures, and prints the tables.
pub(crate) async fn run(arguments: &Arguments) -> Result<(), Problem> {
    let server = Server::start(Flavor::System);
    println!("{}", processor::pin(server.pid()));
    let is_chosen = |table| arguments.table.as_deref().is_none_or(|of| of == table);
    let rounds = arguments.rounds.max(1);
    if is_chosen("counts") {
        let span = Duration::from_secs(5) / if rounds == 1 { 100 } else { 1 };
        counts(&server, span).await?;
    }
    if is_chosen("silent") {
        silent(&server, rounds).await?;
    }
    if is_chosen("hot") {
        hot(&server, rounds).await?;
    }
    Ok(())
}

/// Returns options of stores: batches would hide what single calls take.
fn redis(batches: bool) -> RedisStoreBuilder {
    RedisStore::builder()
        .deadline(Duration::from_secs(10))
        .batches(batches)
}

/// Measures one key that is called all the time.
async fn hot(server: &Server, rounds: usize) -> Result<(), Problem> {
    let single = async || redis(false).connect(server.url()).await;
    let stores: [(_, Arc<dyn Store>); 5] = [
        ("each call asks", Arc::new(single().await?)),
        (
            "batches",
            Arc::new(redis(true).connect(server.url()).await?),
        ),
        ("`Prefetch`", Arc::new(Prefetch::new(single().await?, L))),
        (
            "`usual` with `Prefetch`",
            Arc::new(usual(single().await?, AllowAll).prefetch(L)),
        ),
        (DENIED, Arc::new(DenyCache::new(single().await?))),
    ];
    let mut ways = Vec::new();
    for (name, store) in stores {
        let is_denied = name == DENIED;
        let limiter = RateLimiter::new(store, [if is_denied { NARROW } else { WIDE }])?;
        // The only call of an hour.
        limiter.check("hot").await?.permit()?;
        let subject = Subject::new(move |_| {
            let limiter = limiter.clone();
            async move {
                for _ in 0..TOGETHER {
                    if limiter.check("hot").await?.is_denied() != is_denied {
                        return Err("a call ends otherwise than the others".into());
                    }
                }
                Ok(true)
            }
        });
        ways.extend([1, 64].map(|in_flight| (name, in_flight, subject.clone(), Vec::new())));
    }
    for _ in 0..rounds {
        for (_, in_flight, subject, samples) in &mut ways {
            let span = Duration::from_millis(40);
            subject.run(*in_flight, span / 4).await?;
            samples.push(subject.measure(*in_flight, span, server, TOGETHER).await?);
        }
    }
    println!(
        "\n| a hot key | in flight | decision, ns | processor, ns | server's, ns |\n|---|---:|---:|---:|---:|"
    );
    for (name, in_flight, _, samples) in ways {
        let [decision, own, servers] = [
            median(samples.iter().map(|sample| sample.elapsed * 1e3)),
            median(samples.iter().map(|sample| sample.client * 1e3)),
            median(samples.iter().map(|sample| sample.server * 1e3)),
        ];
        println!("| {name} | {in_flight} | {decision:.0} | {own:.0} | {servers:.0} |");
    }
    Ok(())
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("user:{key}")).collect()
}

/// Calls for each of `keys` once in every `pause` for as long as `span`, and returns how many calls there were.
async fn call(
    limiter: RateLimiter<impl Store + 'static>,
    keys: &[String],
    pause: Duration,
    span: Duration,
) -> Result<u32, Problem> {
    let (mut callers, start) = (JoinSet::new(), Instant::now());
    for key in keys {
        let (limiter, key) = (limiter.clone(), key.clone());
        callers.spawn(async move {
            let (mut calls, mut pauses) = (0, interval(pause));
            while start.elapsed() < span {
                let _ = pauses.tick().await;
                limiter.check(&key).await?.permit()?;
                calls += 1;
            }
            Ok::<u32, Problem>(calls)
        });
    }
    callers.join_all().await.into_iter().sum()
}

/// Counts the server's calls for keys whose quotas are not exhausted.
async fn counts(server: &Server, span: Duration) -> Result<(), Problem> {
    println!(
        "\n| calls | limit | L | batches | decisions | server calls | decisions for each |\n|---|---|---:|---|---:|---:|---:|"
    );
    // A thousand calls a second by each of ten callers, or a hundred for each of many keys.
    let one = ("10,000/s of a key", vec!["hot".to_owned(); 10], 1);
    let few = ("100/s of 300 keys", keys(300), 10);
    let many = ("100/s of 1,000 keys", keys(1_000), 10);
    let mut rows = Vec::new();
    for limit in [
        "gcra:15000/1s",
        "sliding-log:15000/1s",
        "sliding-log:12000/1s",
        "sliding-log:11000/1s",
        "sliding-buckets:15000/1s,buckets=10",
        "fixed-window:15000/1s",
    ] {
        rows.extend(TIMES.map(|within| (&one, limit, within, false)));
    }
    for calls in [&few, &many] {
        rows.extend(TIMES.map(|within| (calls, "sliding-log:3000/20s", within, false)));
    }
    rows.push((&many, "sliding-log:3000/20s", L, true));
    for (row, ((name, keys, pause), limit, within, batches)) in rows.into_iter().enumerate() {
        let store = Prefetch::new(redis(batches).connect(server.url()).await?, within);
        let limiter = RateLimiter::new(store, [format!("row{row}={limit}")])?;
        let _ = server.command(&["CONFIG", "RESETSTAT"]);
        let calls = call(limiter, keys, Duration::from_millis(*pause), span).await?;
        let asked = scripts(server);
        println!(
            "| {name} | `{limit}` | {within:?} | {batches} | {calls} | {asked} | {:.1} |",
            f64::from(calls) / f64::from(asked),
        );
    }
    Ok(())
}

const AMOUNT: u32 = 3_000;
/// How often a process calls before it goes silent with units in hand.
const BURST: u32 = 50;

/// Measures what a process that goes silent has in hand, and for how long others miss it.
async fn silent(server: &Server, rounds: usize) -> Result<(), Problem> {
    let most = |of: Vec<f64>| of.into_iter().fold(0.0, f64::max);
    println!("\n| L | units in a silent hand | until they are there again, ms |\n|---|---:|---:|");
    for within in TIMES {
        let limit = [format!("{}=sliding-log:{AMOUNT}/10s", within.as_millis())];
        let all = RateLimiter::new(RedisStore::connect(server.url()).await?, limit.clone())?;
        let (mut units, mut times) = (Vec::new(), Vec::new());
        for key in keys(rounds.div_ceil(3)) {
            let redis = RedisStore::connect(server.url()).await?;
            let limiter = RateLimiter::new(Prefetch::new(redis, within), limit.clone())?;
            for _ in 0..BURST {
                let _ = limiter.check(&key).await?;
            }
            let silent = Instant::now();
            let full = u64::from(AMOUNT - BURST);
            let left = all.peek(&key).await?.remaining();
            units.push(f64::from(u32::try_from(full - left)?));
            while all.peek(&key).await?.remaining() < full && silent.elapsed() < within * 10 {
                sleep(Duration::from_millis(1)).await;
            }
            times.push(silent.elapsed().as_secs_f64() * 1e3);
        }
        println!("| {within:?} | {:.0} | {:.0} |", most(units), most(times));
    }
    Ok(())
}

/// Returns how many scripts the server ran.
fn scripts(server: &Server) -> u32 {
    let stats = server.command(&["INFO", "commandstats"]);
    let text = stats.text().unwrap_or_default();
    let calls = text.split("cmdstat_evalsha:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.unwrap_or_default()
}
