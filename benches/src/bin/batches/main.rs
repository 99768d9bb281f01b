//! Measures stores that send calls together, next to the same stores that send each by itself: how
//! many decisions a second, what each costs the client and the server, and how long they take.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tollgate_benches::cores::Cores;
use tollgate_benches::saved::Saved;
use tollgate_benches::{Problem, ended, processor, stamp};
use tollgate_core::{RateLimiter, Store};
use tollgate_fred::FredStore;
use tollgate_redis::RedisStore;
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::Options;

/// The limits: all calls admitted, all denied, and a log.
///
/// The first one admits more than are ever made, and yet its keys live from one call to the next, as
/// those of a limit that people use do.
const LIMITS: [&str; 3] = [
    "l=gcra:1000000000/1000d",
    "l=gcra:1/1h",
    "l=sliding-log:100/1s",
];
/// How many callers there are, all on one thread.
const CALLERS: [usize; 5] = [1, 16, 64, 256, 1_024];
/// One in so many calls is timed, because that takes a tenth of the time of a call in a large batch.
const TIMED: usize = 4;

/// Measures stores with and without batches, in turn.
///
/// On the system's server, or on every server if the environment variable `TOLLGATE_EVERY_SERVER` is
/// set.
#[derive(Debug, Parser)]
struct Arguments {
    /// Selects the points that contain all of these words, such as `redis_6_2 fred hot 256`.
    words: Vec<String>,
    /// Measures each point so many times, and prints the median.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long a measurement takes, in milliseconds.
    #[arg(long, default_value_t = 400)]
    span: u64,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Writes the numbers to this file, too.
    #[arg(long)]
    csv: Option<PathBuf>,
}

/// Which keys the calls are for.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// One for all.
    Hot,
    /// As many, all the same.
    Even(usize),
    /// As many, the first ones the most.
    Zipf(usize),
}

impl Keys {
    fn name(self) -> String {
        match self {
            Self::Hot => "hot".to_owned(),
            Self::Even(count) => format!("{count} keys"),
            Self::Zipf(count) => format!("zipf of {count}"),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "any key will do"
    )]
    fn pick(self, random: u64) -> usize {
        match self {
            Self::Hot => 0,
            Self::Even(count) => (random % count as u64) as usize,
            Self::Zipf(count) => {
                let unit = (random >> 11) as f64 / (1_u64 << 53) as f64;
                (count as f64).powf(unit) as usize - 1
            }
        }
    }
}

/// Returns the name of a key. It is made anew for each call: fetching one of many from memory would take
/// a good part of the time of the client, and a server has the key of a request at hand.
fn name(mut number: usize) -> [u8; 11] {
    let mut name = *b"user-000000";
    for digit in name[5..].iter_mut().rev() {
        *digit = b"0123456789"[number % 10];
        number /= 10;
    }
    name
}

/// What is measured.
#[derive(Debug)]
struct Point {
    client: &'static str,
    keys: Keys,
    limit: &'static str,
    callers: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.name();
        write!(f, "{} {keys} {} {}", self.client, self.limit, self.callers)
    }
}

/// What a measurement found.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Found {
    per_second: u64,
    /// The processor time of this process, in nanoseconds per decision.
    client_ns: u64,
    /// The processor time of the server, in nanoseconds per decision.
    server_ns: u64,
    median_us: u64,
    p99_us: u64,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.rounds, arguments.span) = (1, 5);
    }
    ended(run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    let columns = [
        "server",
        "client",
        "keys",
        "limit",
        "callers",
        "sent",
        "decisions_per_second",
        "client_ns",
        "server_ns",
        "median_us",
        "p99_us",
    ];
    let mut saved = Saved::to(arguments.csv.as_deref(), &columns)?;
    let cores = Cores::take();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut out = io::stdout();
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let release = stamp::release(&server)?;
        writeln!(out, "{release}: {}\n", cores.give(server.pid()))?;
        writeln!(
            out,
            "Each cell: alone / together. Processor time is in ns per decision.\n"
        )?;
        writeln!(
            out,
            "| server, client, keys, limit, callers | decisions/s | ratio | client | ratio | server | ratio | median µs | p99 µs |"
        )?;
        writeln!(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for point in points() {
            let label = format!("{flavor} {point}");
            if arguments.words.iter().all(|word| label.contains(&**word)) {
                let [alone, together] = runtime.block_on(both(arguments, &server, &point))?;
                print(&mut out, &label, alone, together)?;
                for (sent, found) in [("alone", alone), ("together", together)] {
                    saved.row(cells(&release, &point, sent, found))?;
                }
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Returns a row of the CSV file.
fn cells(release: &str, point: &Point, sent: &str, found: Found) -> [String; 11] {
    [
        release.to_owned(),
        point.client.to_owned(),
        point.keys.name(),
        point.limit.to_owned(),
        point.callers.to_string(),
        sent.to_owned(),
        found.per_second.to_string(),
        found.client_ns.to_string(),
        found.server_ns.to_string(),
        found.median_us.to_string(),
        found.p99_us.to_string(),
    ]
}

/// Returns all points.
fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for client in ["redis", "fred"] {
        for keys in [Keys::Hot, Keys::Even(1_000), Keys::Zipf(100_000)] {
            for limit in LIMITS {
                points.extend(CALLERS.map(|callers| Point {
                    client,
                    keys,
                    limit,
                    callers,
                }));
            }
        }
    }
    points
}

/// Measures a point without batches and with them, in turn.
async fn both(
    arguments: &Arguments,
    server: &Server,
    point: &Point,
) -> Result<[Found; 2], Problem> {
    let span = Duration::from_millis(arguments.span);
    let mut found = [const { Vec::new() }; 2];
    for _ in 0..arguments.rounds {
        for (batches, found) in [false, true].into_iter().zip(&mut found) {
            let store = connect(point.client, server, batches).await?;
            let limiter = RateLimiter::new(store, [point.limit])?;
            found.push(measure(limiter, server, point, span).await?);
        }
    }
    Ok(found.map(median))
}

/// Returns the round with the median rate.
fn median(mut rounds: Vec<Found>) -> Found {
    rounds.sort_unstable();
    rounds.get(rounds.len() / 2).copied().unwrap_or_default()
}

fn print(out: &mut impl Write, label: &str, alone: Found, together: Found) -> io::Result<()> {
    let both = |of: fn(&Found) -> u64| format!("{} / {}", of(&alone), of(&together));
    let ratio = |of: fn(&Found) -> u64| {
        let percent = of(&together) * 100 / of(&alone).max(1);
        format!("{}.{:02}", percent / 100, percent % 100)
    };
    let with_ratio = |of| format!("{} | {}", both(of), ratio(of));
    writeln!(
        out,
        "| {label} | {} | {} | {} | {} | {} |",
        with_ratio(|found| found.per_second),
        with_ratio(|found| found.client_ns),
        with_ratio(|found| found.server_ns),
        both(|found| found.median_us),
        both(|found| found.p99_us),
    )
}

async fn connect(client: &str, server: &Server, batches: bool) -> Result<Arc<dyn Store>, Problem> {
    let options = Options::new()
        .with_deadline(Duration::from_secs(10))
        .with_batches(batches);
    if client == "redis" {
        let connection = tollgate_benches::connect(&server.url()).await?;
        return Ok(Arc::new(RedisStore::with_options(connection, options)));
    }
    let store = FredStore::builder().options(options);
    Ok(Arc::new(store.connect(&server.url()).await?))
}

/// Calls from so many tasks for `span`.
async fn measure(
    limiter: RateLimiter<Arc<dyn Store>>,
    server: &Server,
    point: &Point,
    span: Duration,
) -> Result<Found, Problem> {
    let keys = point.keys;
    let processors = || [process::id(), server.pid()].map(processor::time);
    let is_over = Arc::new(AtomicBool::new(false));
    let before = processors();
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..point.callers {
        let (limiter, is_over) = (limiter.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            let mut random = (caller as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut took = Vec::new();
            let mut calls = 0;
            while !is_over.load(Ordering::Relaxed) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let called = ((caller + calls) % TIMED == 0).then(Instant::now);
                let decision = limiter.check(&name(keys.pick(random))).await?;
                std::hint::black_box(decision.is_allowed());
                took.extend(called.map(|called| called.elapsed()));
                calls += 1;
            }
            Ok::<_, Problem>((calls, took))
        });
    }
    tokio::time::sleep(span).await;
    is_over.store(true, Ordering::Relaxed);
    let (mut calls, mut took) = (0, Vec::new());
    while let Some(task) = tasks.join_next().await {
        let (of_task, times) = task??;
        calls += of_task;
        took.extend(times);
    }
    let elapsed = begun.elapsed();
    let after = processors();
    took.sort_unstable();
    let at = |percent: usize| {
        let place = took.len().saturating_sub(1) * percent / 100;
        let time = took.get(place).copied().unwrap_or_default();
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    };
    let each = |time: Duration| time.as_nanos() / calls.max(1) as u128;
    let spent = |before: Option<Duration>, after: Option<Duration>| {
        let spent = after.zip(before).map(|(after, before)| after - before);
        u64::try_from(each(spent.unwrap_or_default()))
    };
    let nanos = elapsed.as_nanos().max(1);
    let per_second = calls as u128 * 1_000_000_000 / nanos;
    Ok(Found {
        per_second: u64::try_from(per_second)?,
        client_ns: spent(before[0], after[0])?,
        server_ns: spent(before[1], after[1])?,
        median_us: at(50),
        p99_us: at(99),
    })
}
