//! Measures units ahead on a server, beside calls that each ask it.
//!
//! What is compared is measured in turn, many times, and the program prints medians. Server calls are counted by
//! the server, with those that give units back.

use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use tollgate_core::{RateLimiter, Store};
use tollgate_fred::FredStore;
use tollgate_layers::{AllowAll, Prefetch, usual};
use tollgate_memory::MemoryStore;
use tollgate_redis::{RedisStore, RedisStoreBuilder};
use tollgate_testkit::{Flavor, Server};

use crate::cores::Cores;
use crate::servers::clients::options;
use crate::servers::run::{Runs, Subject, erase, percentile};
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
}

/// Measures, and prints the tables.
///
/// # Errors
///
/// If a server or a limiter fails.
pub fn run(arguments: &Arguments) -> Result<(), Problem> {
    let cores = Cores::take();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let server = Server::start(Flavor::System);
    writeln!(io::stdout(), "{}", cores.give(server.pid()))?;
    let is_chosen = |table| arguments.table.as_deref().is_none_or(|of| of == table);
    let (rounds, part) = match arguments.quick {
        true => (1, 100),
        false => (arguments.rounds.max(1), 1),
    };
    // Before there is a recorder.
    if is_chosen("counts") {
        runtime.block_on(counts(&server, Duration::from_secs(5) / part))?;
    }
    if is_chosen("silent") {
        runtime.block_on(silent(&server, rounds))?;
    }
    let slice = Duration::from_millis(40) / part;
    if is_chosen("cold") {
        runtime.block_on(cold(&server, rounds, slice))?;
    }
    if is_chosen("hot") {
        runtime.block_on(hot(&server, rounds, slice))?;
    }
    Ok(())
}

/// A way to decide calls, for some keys in turn.
struct Calls<S> {
    limiter: Arc<RateLimiter<S>>,
    keys: Arc<[String]>,
    together: usize,
}

impl<S: Store + 'static> Subject for Calls<S> {
    async fn call(&self, turn: usize) -> Result<bool, Problem> {
        for next in turn * self.together..(turn + 1) * self.together {
            let key = &self.keys[next % self.keys.len()];
            if self.limiter.check(key).await?.is_denied() {
                return Err("a call is denied".into());
            }
        }
        Ok(true)
    }
}

struct Way {
    name: &'static str,
    in_flight: usize,
    many: Box<dyn Runs>,
    each: Box<dyn Runs>,
    samples: Vec<[f64; 5]>,
}

impl Way {
    fn new(
        name: &'static str,
        in_flight: usize,
        keys: &Arc<[String]>,
        store: impl Store + 'static,
    ) -> Result<Self, Problem> {
        let limiter = Arc::new(RateLimiter::new(store, [WIDE])?);
        let calls = |together| {
            let (limiter, keys) = (Arc::clone(&limiter), Arc::clone(keys));
            erase(Calls {
                limiter,
                keys,
                together,
            })
        };
        Ok(Self {
            name,
            in_flight,
            many: calls(TOGETHER),
            each: calls(1),
            samples: Vec::new(),
        })
    }

    /// Measures a slice: nanoseconds of a decision, and those of this process's and the server's processor,
    /// then the median and the 99th percentile of single decisions.
    async fn measure(&mut self, server: &Server, slice: Duration) -> Result<(), Problem> {
        self.each.run(self.in_flight, slice / 4).await?;
        let busy = async |pid| {
            // Only then has the system counted all its work.
            sleep(Duration::from_millis(2)).await;
            processor::time(pid).unwrap_or_default()
        };
        let pids = [process::id(), server.pid()];
        let before = [busy(pids[0]).await, busy(pids[1]).await];
        let run = self.many.run(self.in_flight, slice).await?;
        let after = [busy(pids[0]).await, busy(pids[1]).await];
        let single = self.each.run(self.in_flight, slice).await?;
        let calls = f64::from(u32::try_from(run.calls() * TOGETHER)?);
        let nanos = |time: Duration| time.as_secs_f64() * 1e9 / calls;
        let at = |percent| percentile(&single.latencies, percent).map_or(f64::NAN, f64::from);
        self.samples.push([
            nanos(run.elapsed),
            nanos(after[0] - before[0]),
            nanos(after[1] - before[1]),
            at(50),
            at(99),
        ]);
        Ok(())
    }

    fn median(&self, of: impl Fn(&[f64; 5]) -> f64) -> f64 {
        median(self.samples.iter().map(of)).unwrap_or(f64::NAN)
    }

    /// Returns the median of how much more time of both processors this takes than `other` of the same round, by
    /// their ratio and their difference. Others on the machine hardly change that.
    fn beside(&self, other: &Self) -> (f64, f64) {
        let pairs = self.samples.iter().zip(&other.samples);
        let all = |of: fn(f64, f64) -> f64| {
            median(
                pairs
                    .clone()
                    .map(|(own, other)| of(own[1] + own[2], other[1] + other[2])),
            )
        };
        let ratio = all(|own, other| own / other);
        let more = all(|own, other| own - other);
        (ratio.unwrap_or(f64::NAN), more.unwrap_or(f64::NAN))
    }
}

/// Measures all ways in turn, every second time backwards.
async fn all(
    ways: &mut [Way],
    server: &Server,
    rounds: usize,
    slice: Duration,
) -> Result<(), Problem> {
    for round in 0..rounds {
        let mut turns: Vec<&mut Way> = ways.iter_mut().collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for way in turns {
            way.measure(server, slice).await?;
        }
    }
    Ok(())
}

/// Measures one key that is called all the time.
async fn hot(server: &Server, rounds: usize, slice: Duration) -> Result<(), Problem> {
    let url = server.url();
    let keys: Arc<[String]> = keys(1).into();
    let store = async |batches| {
        RedisStoreBuilder::from(options(batches))
            .connect(&*url)
            .await
    };
    let mut ways = vec![
        Way::new("each call asks", 1, &keys, store(false).await?)?,
        Way::new("each call asks", 64, &keys, store(false).await?)?,
        Way::new("batches", 64, &keys, store(true).await?)?,
        Way::new("batches", 256, &keys, store(true).await?)?,
        Way::new(
            "`Prefetch`",
            1,
            &keys,
            Prefetch::new(store(false).await?, L),
        )?,
        Way::new(
            "`Prefetch`",
            64,
            &keys,
            Prefetch::new(store(false).await?, L),
        )?,
    ];
    // These count for nobody, since there is no recorder when they begin.
    all(&mut ways, server, 1, slice).await?;
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::set_global_recorder(recorder)?;
    let layers = usual(store(false).await?, AllowAll);
    ways.extend([
        Way::new(
            "`Prefetch`, metrics",
            1,
            &keys,
            Prefetch::new(store(false).await?, L),
        )?,
        Way::new("`usual`, metrics", 1, &keys, layers.prefetch(L))?,
    ]);
    all(&mut ways, server, rounds, slice).await?;
    let mut out = io::stdout();
    writeln!(
        out,
        "\n| a hot key | in flight | decisions/s | processor, ns | server's, ns | p50, µs | p99, µs | times as many as the second |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    for way in &ways {
        writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.1} |",
            way.name,
            way.in_flight,
            way.median(|of| 1e9 / of[0]),
            way.median(|of| of[1]),
            way.median(|of| of[2]),
            way.median(|of| of[3]) / 1e3,
            way.median(|of| of[4]) / 1e3,
            1.0 / way.beside(&ways[1]).0,
        )?;
    }
    Ok(())
}

/// Measures keys that are each called less often than every second, with the layer and without.
async fn cold(server: &Server, rounds: usize, slice: Duration) -> Result<(), Problem> {
    let url = server.url();
    let many: Arc<[String]> = keys(100_000).into();
    // The store in memory is called so often that these must be called within a shorter time to be busy.
    let few: Arc<[String]> = keys(10_000).into();
    let short = Duration::from_millis(1);
    let redis = async || RedisStoreBuilder::from(options(false)).connect(&*url).await;
    let fred = async || FredStore::connect(&url).await;
    // A layer that never prefetches, so that both are awaited.
    let mut ways = vec![
        Way::new(
            "in memory",
            1,
            &few,
            Prefetch::new(MemoryStore::new(), Duration::ZERO),
        )?,
        Way::new(
            "in memory",
            1,
            &few,
            Prefetch::new(MemoryStore::new(), short),
        )?,
    ];
    for in_flight in [1, 64] {
        ways.extend([
            Way::new("redis-rs", in_flight, &many, redis().await?)?,
            Way::new(
                "redis-rs",
                in_flight,
                &many,
                Prefetch::new(redis().await?, L),
            )?,
            Way::new("fred", in_flight, &many, fred().await?)?,
            Way::new("fred", in_flight, &many, Prefetch::new(fred().await?, L))?,
        ]);
    }
    all(&mut ways, server, rounds, slice).await?;
    let mut out = io::stdout();
    writeln!(
        out,
        "\n| cold keys | in flight | processors without, ns | more, ns | ratio |\n|---|---:|---:|---:|---:|"
    )?;
    for pair in ways.chunks(2) {
        let ((ratio, more), of) = (pair[1].beside(&pair[0]), &pair[0]);
        let without = of.median(|of| of[1] + of[2]);
        writeln!(
            out,
            "| {} | {} | {without:.0} | {more:.0} | {ratio:.3} |",
            of.name, of.in_flight
        )?;
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
    let mut out = io::stdout();
    writeln!(
        out,
        "\n| calls | limit | L | batches | decisions | server calls | decisions for each |\n|---|---|---:|---|---:|---:|---:|"
    )?;
    let ms = Duration::from_millis;
    // A thousand calls a second by each of ten callers, or a hundred for each of many keys.
    let one = ("10,000/s of a key", vec!["hot".to_owned(); 10], ms(1));
    let (few, many) = (keys(300), keys(1_000));
    let few = ("100/s of 300 keys", few, ms(10));
    let many = ("100/s of 1,000 keys", many, ms(10));
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
        let redis = RedisStoreBuilder::from(options(batches))
            .connect(server.url())
            .await?;
        let store = Prefetch::new(redis, within);
        let limiter = RateLimiter::new(store, [format!("row{row}={limit}")])?;
        let _ = server.command(&["CONFIG", "RESETSTAT"]);
        let calls = call(limiter, keys, *pause, span).await?;
        let asked = scripts(server);
        writeln!(
            out,
            "| {name} | `{limit}` | {within:?} | {batches} | {calls} | {asked} | {:.1} |",
            f64::from(calls) / f64::from(asked),
        )?;
    }
    Ok(())
}

const AMOUNT: u32 = 3_000;
/// How often a process calls before it goes silent with units in hand.
const BURST: u32 = 50;

/// Measures what a process that goes silent has in hand, and for how long others miss it.
async fn silent(server: &Server, rounds: usize) -> Result<(), Problem> {
    let mut out = io::stdout();
    writeln!(
        out,
        "\n| L | units in a silent hand | until they are there again, ms |\n|---|---:|---:|"
    )?;
    for within in TIMES {
        let limit = [format!(
            "silent{}=sliding-log:{AMOUNT}/10s",
            within.as_millis()
        )];
        let redis = RedisStore::connect(server.url()).await?;
        let all = RateLimiter::new(redis, limit.clone())?;
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
        let most = |of: Vec<f64>| of.into_iter().fold(0.0, f64::max);
        writeln!(
            out,
            "| {within:?} | {:.0} | {:.0} |",
            most(units),
            most(times)
        )?;
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
