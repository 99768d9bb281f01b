//! Measures units ahead on a server, beside calls that each ask it.
//!
//! Of times, it prints medians. Server calls are counted by the server, with those that give units back, and
//! instructions by valgrind: times do not tell a difference of some percent.

#![expect(clippy::print_stdout, reason = "it prints tables")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, process};

use clap::Parser;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tollgate_core::{RateLimiter, Store};
use tollgate_fred::FredStoreBuilder;
use tollgate_layers::{AllowAll, Prefetch, usual};
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::{Flavor, Server};

use crate::cores::Cores;
use crate::servers::clients::options;
use crate::servers::run::{Subject, erase, percentile};
use crate::{Problem, keys, median, processor};

const L: Duration = Duration::from_millis(200);
const TIMES: [Duration; 3] = [Duration::from_millis(50), L, Duration::from_secs(1)];
/// A limit that no loop exhausts.
const WIDE: &str = "wide=gcra:1000000000/1s";
/// How many decisions are timed together, where not each of them is.
const TOGETHER: usize = 32;

/// Measures units ahead on a server that it starts.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Selects one table: `hot`, `cold`, `counts` or `silent`.
    table: Option<String>,
    /// How often everything that is timed is measured.
    #[arg(long, default_value_t = 31)]
    rounds: usize,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Calls once for each key, for valgrind: a client, with the layer or without, a server, how many keys.
    #[arg(long, hide = true, num_args = 4)]
    calls: Vec<String>,
}

/// Measures, and prints the tables.
///
/// # Errors
///
/// If a server or a limiter fails.
pub fn run(arguments: &Arguments) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if let [client, layer, url, count] = &arguments.calls[..] {
        return runtime.block_on(call_once(client, layer, url, count.parse()?));
    }
    let cores = Cores::take();
    let server = Server::start(Flavor::System);
    println!("{}", cores.give(server.pid()));
    let is_chosen = |table| arguments.table.as_deref().is_none_or(|of| of == table);
    let (rounds, part) = match arguments.quick {
        true => (1, 100),
        false => (arguments.rounds.max(1), 1),
    };
    if is_chosen("cold") {
        cold(&server, 4_000 / part)?;
    }
    if is_chosen("counts") {
        runtime.block_on(counts(&server, Duration::from_secs(5) / part))?;
    }
    if is_chosen("silent") {
        runtime.block_on(silent(&server, rounds))?;
    }
    // Last, since it sets a recorder.
    if is_chosen("hot") {
        runtime.block_on(hot(&server, rounds, Duration::from_millis(40) / part))?;
    }
    Ok(())
}

/// A limiter that is called for a key.
struct Calls {
    limiter: RateLimiter<Arc<dyn Store>>,
    together: usize,
}

impl Subject for Calls {
    async fn call(&self, _: usize) -> Result<bool, Problem> {
        for _ in 0..self.together {
            self.limiter.check("hot").await?.permit()?;
        }
        Ok(true)
    }
}

/// Measures a slice: nanoseconds of a decision, and those of this process's and the server's processor, then the
/// median and the 99th percentile of single decisions.
async fn measure(
    limiter: &RateLimiter<Arc<dyn Store>>,
    in_flight: usize,
    server: &Server,
    slice: Duration,
) -> Result<[f64; 5], Problem> {
    let [many, each] = [TOGETHER, 1].map(|together| {
        let limiter = limiter.clone();
        erase(Calls { limiter, together })
    });
    each.run(in_flight, slice / 4).await?;
    let busy = async || {
        // Only then has the system counted all their work.
        sleep(Duration::from_millis(2)).await;
        [process::id(), server.pid()].map(|pid| processor::time(pid).unwrap_or_default())
    };
    let before = busy().await;
    let run = many.run(in_flight, slice).await?;
    let after = busy().await;
    let single = each.run(in_flight, slice).await?;
    let calls = f64::from(u32::try_from(run.calls() * TOGETHER)?);
    let nanos = |time: Duration| time.as_secs_f64() * 1e9 / calls;
    let at = |percent| percentile(&single.latencies, percent).map_or(f64::NAN, f64::from);
    let [own, servers] = [0, 1].map(|of| nanos(after[of] - before[of]));
    Ok([nanos(run.elapsed), own, servers, at(50), at(99)])
}

/// Measures one key that is called all the time.
async fn hot(server: &Server, rounds: usize, slice: Duration) -> Result<(), Problem> {
    metrics::set_global_recorder(PrometheusBuilder::new().build_recorder())?;
    let redis = async |batches| {
        let builder = RedisStoreBuilder::from(options(batches));
        builder.connect(server.url()).await
    };
    let layers = usual(redis(false).await?, AllowAll).prefetch(L);
    let stores: [(_, Arc<dyn Store>); 4] = [
        ("each call asks", Arc::new(redis(false).await?)),
        ("batches", Arc::new(redis(true).await?)),
        (
            "`Prefetch`",
            Arc::new(Prefetch::new(redis(false).await?, L)),
        ),
        ("`usual` with `Prefetch`", Arc::new(layers)),
    ];
    let mut ways = Vec::new();
    for (name, store) in stores {
        let limiter = RateLimiter::new(store, [WIDE])?;
        ways.extend([1, 64].map(|in_flight| (name, in_flight, limiter.clone(), Vec::new())));
    }
    for _ in 0..rounds {
        for (_, in_flight, limiter, samples) in &mut ways {
            samples.push(measure(limiter, *in_flight, server, slice).await?);
        }
    }
    println!(
        "\n| a hot key | in flight | decision, ns | processor, ns | server's, ns | p50, ns | p99, ns |\n|---|---:|---:|---:|---:|---:|---:|"
    );
    for (name, in_flight, _, samples) in ways {
        let median = |of| median(samples.iter().map(|sample| sample[of])).unwrap_or(f64::NAN);
        let each = [0, 1, 2, 3, 4].map(|of| format!("{:.0}", median(of)));
        println!("| {name} | {in_flight} | {} |", each.join(" | "));
    }
    Ok(())
}

/// Counts the instructions of this program for a call of a key that is called once, with the layer and without.
fn cold(server: &Server, calls: u32) -> Result<(), Problem> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("\ninstructions are not counted, because there is no valgrind");
        return Ok(());
    }
    println!("\n| cold keys | instructions without | with | ratio |\n|---|---:|---:|---:|");
    for client in ["redis-rs", "fred"] {
        let each = |layer| {
            let [few, many] = [calls, calls * 2]
                .map(|calls| instructions([client, layer, &server.url(), &calls.to_string()]));
            // What both have in common is not of the calls.
            Ok::<_, Problem>((many? - few?) / f64::from(calls))
        };
        let (without, with) = (each("without")?, each("with")?);
        let ratio = with / without;
        println!("| {client} | {without:.0} | {with:.0} | {ratio:.3} |");
    }
    Ok(())
}

/// Returns how many instructions this program takes as a whole for the calls of these arguments.
fn instructions(arguments: [&str; 4]) -> Result<f64, Problem> {
    let tool = "--tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null";
    let output = Command::new("valgrind")
        .args(tool.split(' '))
        .arg(env::current_exe()?)
        .arg("--calls")
        .args(arguments)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.split(" refs:").nth(1).unwrap_or_default();
    let count = count
        .split_whitespace()
        .next()
        .map(|count| count.replace(',', ""));
    let count = count.and_then(|count| count.parse().ok());
    count.ok_or_else(|| format!("valgrind did not count: {text}").into())
}

/// Calls once for each of some keys.
async fn call_once(client: &str, layer: &str, url: &str, count: usize) -> Result<(), Problem> {
    let redis = async || RedisStoreBuilder::from(options(false)).connect(url).await;
    let fred = async || FredStoreBuilder::from(options(false)).connect(url).await;
    match (client, layer) {
        ("fred", "without") => call_each(fred().await?, count).await,
        ("fred", _) => call_each(Prefetch::new(fred().await?, L), count).await,
        (_, "without") => call_each(redis().await?, count).await,
        _ => call_each(Prefetch::new(redis().await?, L), count).await,
    }
}

async fn call_each(store: impl Store, count: usize) -> Result<(), Problem> {
    let limiter = RateLimiter::new(store, [WIDE])?;
    // As many for any count: making them is not a part of the calls.
    for key in &keys(10_000)[..count] {
        limiter.check(key).await?.permit()?;
    }
    Ok(())
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
        let builder = RedisStoreBuilder::from(options(batches));
        let store = Prefetch::new(builder.connect(server.url()).await?, within);
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
