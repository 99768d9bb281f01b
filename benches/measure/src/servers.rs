//! Measures decisions on real servers, next to the commands they consist of: the processor time of the server, and how
//! many calls a second one connection carries.
//!
//! All rows are measured in turn, many times; values are compared within a round, and medians are printed.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tollgate_core::{CallId, RateLimiter, Store};
use tollgate_fred::FredStore;
use tollgate_redis::RedisStore;
use tollgate_scenarios::published;
use tollgate_testkit::{Flavor, Server};

use crate::processor;
use crate::run::{Problem, Sample, Subject, median};

const IN_FLIGHT: u32 = 64;
/// As long as the windows of logs and buckets, whose states have their usual size then.
const WARM_UP: Duration = Duration::from_millis(250);
/// Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);
/// A script that does nothing, and its hash.
const NOTHING: [&str; 2] = ["return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"];

/// Measures decisions on servers that it starts, one after another.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Selects the rows whose names contain this, and `INCR`.
    #[arg(default_value = "")]
    filter: String,
    /// The server: `redis_system`, `redis_6_2` or `valkey_9_1`; default: all of them.
    #[arg(long)]
    flavor: Option<String>,
    /// How often every row is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The duration of each measurement in milliseconds; with 1, it only checks that everything works.
    #[arg(long, default_value_t = 80)]
    slice: u64,
}

/// Decisions about keys in turn, a line for each row: its name, how many keys there are, how often each is called before,
/// so that all later calls are denied, and the limits. States with a window of 240 ms grow with the calls in it, so
/// fewer keys have larger ones. What follows `gcra` or comes last in a name is done besides, see [`decides`].
const CASES: &str = "\
gcra | 1000 | 0 | gcra:1000000/1s
two gcra together | 1000 | 0 | gcra:1000000/1s gcra:60000000/1m
four gcra together | 1000 | 0 | gcra:1000000/1s gcra:60000000/1m gcra:3600000000/1h gcra:86400000000/1d
gcra in batches | 1000 | 0 | gcra:1000000/1s
gcra reserved | 1000 | 0 | gcra:60/1m,burst=1
gcra with an id | 1000 | 0 | gcra:1000000/1s
gcra and its refund | 1000 | 0 | gcra:1000000/1s
gcra and its settlement | 1000 | 0 | gcra:1000000/1s
fixed window | 1000 | 0 | fixed-window:1000000000/1m
fixed window without scripts | 1000 | 0 | fixed-window:1000000000/1m
calendar window | 1000 | 0 | fixed-window:1000000000/month@Europe/Berlin
sliding counter | 1000 | 0 | sliding-counter:10000000/1m
10 sliding buckets | 64 | 0 | sliding-buckets:1000000/240ms,buckets=10
60 sliding buckets | 64 | 0 | sliding-buckets:1000000/240ms,buckets=60
sliding log of about 100 | 240 | 0 | sliding-log:100000/240ms
sliding log of about 10,000 | 2 | 0 | sliding-log:100000/240ms
gcra, denied | 1000 | 1 | gcra:1/1d
four gcra together, denied | 1000 | 1 | gcra:1000000/1s gcra:60000000/1m gcra:3600000000/1h gcra:1/1d
fixed window, denied | 1000 | 1 | fixed-window:1/1d,anchored
sliding counter, denied | 1000 | 1 | sliding-counter:1/1d
10 sliding buckets, denied | 1000 | 1 | sliding-buckets:1/1d,buckets=10
60 sliding buckets, denied | 1000 | 1 | sliding-buckets:1/1d,buckets=60
sliding log of 100, denied | 100 | 100 | sliding-log:100/1d";

/// A row through one client.
struct Point {
    row: String,
    subject: Subject,
    /// Whether every call should be allowed, or denied.
    allowed: bool,
    samples: Vec<Sample>,
}

/// Measures on the chosen servers, and prints a table for each.
pub(crate) async fn run(arguments: &Arguments) -> Result<(), Problem> {
    let name = arguments.flavor.as_deref();
    let mut chosen = Flavor::ALL
        .into_iter()
        .filter(|of| name.is_none_or(|name| of.name() == name))
        .peekable();
    chosen.peek().ok_or("there is no such server")?;
    for flavor in chosen {
        one(arguments, flavor).await?;
    }
    Ok(())
}

async fn one(arguments: &Arguments, flavor: Flavor) -> Result<(), Problem> {
    let (mut out, server) = (io::stdout(), Server::start(flavor));
    writeln!(
        out,
        "### {}\n\n{}\n",
        release(&server)?,
        processor::pin(server.pid())
    )?;
    let [mut redis, mut fred] = [points(&server, true).await?, points(&server, false).await?];
    for points in [&mut redis, &mut fred] {
        for point in std::mem::take(points) {
            if point.row != "INCR" && !point.row.contains(&arguments.filter) {
                continue;
            }
            match point.subject.run(1, Duration::ZERO).await {
                Ok(_) => points.push(point),
                // Old servers lack commands.
                Err(problem) => writeln!(out, "- {}: left out: {problem}", point.row)?,
            }
        }
    }
    let slice = Duration::from_millis(arguments.slice);
    for _ in 0..arguments.rounds.max(1) {
        for point in redis.iter_mut().chain(&mut fred) {
            point.subject.run(IN_FLIGHT, WARM_UP.min(slice * 4)).await?;
            let sample = point.subject.measure(IN_FLIGHT, slice, &server, 1).await?;
            // A full log denies the odd call.
            let is_expected = if point.allowed {
                sample.allowed > 0.99
            } else {
                sample.allowed < 0.01
            };
            if !is_expected {
                return Err(format!(
                    "{}: {} of the calls were allowed",
                    point.row, sample.allowed
                )
                .into());
            }
            point.samples.push(sample);
        }
    }
    writeln!(
        out,
        "| call | server µs | times `INCR` | client µs | thousands a second | by fred |\n\
         |---|---:|---:|---:|---:|---:|"
    )?;
    let increment: Vec<_> = redis[0]
        .samples
        .iter()
        .map(|sample| sample.server)
        .collect();
    for Point { row, samples, .. } in &redis {
        let times = samples
            .iter()
            .zip(&increment)
            .map(|(sample, increment)| sample.server / increment);
        let [server, client, rate] = medians(samples);
        write!(
            out,
            "| {row} | {server:.2} | {:.2} | {client:.2} | {rate:.0} |",
            median(times)
        )?;
        let fred = fred.iter().find(|point| point.row == *row);
        match fred.map(|point| medians(&point.samples)) {
            Some([_, _, rate]) => writeln!(out, " {rate:.0} |")?,
            None => writeln!(out, " – |")?,
        }
    }
    Ok(writeln!(out)?)
}

/// Returns the medians of the server's and this process's microseconds, and thousands of calls a second.
fn medians(samples: &[Sample]) -> [f64; 3] {
    let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value));
    [
        of(|sample| sample.server),
        of(|sample| sample.client),
        of(|sample| 1e3 / sample.elapsed),
    ]
}

/// Returns the rows through one client; those of commands by hand are only there for redis-rs.
async fn points(server: &Server, is_redis: bool) -> Result<Vec<Point>, Problem> {
    let client = redis::Client::open(server.url())?;
    let mut config = tollgate_redis::connection::multiplexed();
    config = config.set_response_timeout(None);
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let point = |row: &str, subject, allowed| Point {
        row: row.to_owned(),
        subject,
        allowed,
        samples: Vec::new(),
    };
    let mut points = Vec::new();
    if is_redis {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(NOTHING[0]);
        load.exec_async(&mut connection.clone()).await?;
        points.extend(BY_HAND.map(|row| point(row, by_hand(row, connection.clone()), true)));
    }
    for case in CASES.lines() {
        let [row, keys, before, limits] = case.split(" | ").collect::<Vec<_>>()[..] else {
            return Err(format!("not a row: {case}").into());
        };
        // Names that no other row's limits have.
        let limits = limits.split(' ').enumerate();
        let limits = limits
            .map(|(index, limit)| format!("{}-{index}={limit}", row.replace([' ', ','], "-")));
        let limits: Vec<String> = limits.collect();
        let is_plain = row.ends_with("without scripts");
        let store: Arc<dyn Store> = if is_plain && !is_redis {
            continue;
        } else if is_plain {
            let limits: Vec<_> = limits
                .iter()
                .map(|limit| limit.parse())
                .collect::<Result<_, _>>()?;
            let builder = RedisStore::builder().deadline(DEADLINE);
            Arc::new(builder.plain(connection.clone(), &limits)?)
        } else if is_redis {
            let builder = RedisStore::builder().deadline(DEADLINE);
            let builder = builder.batches(row.ends_with("batches"));
            Arc::new(builder.connect(server.url()).await?)
        } else {
            let builder = FredStore::builder().deadline(DEADLINE);
            let builder = builder.batches(row.ends_with("batches"));
            Arc::new(builder.connect(server.url()).await?)
        };
        let limiter = RateLimiter::new(store, &limits)?;
        let (keys, before): (usize, usize) = (keys.parse()?, before.parse()?);
        let keys: Arc<[String]> = (0..keys).map(|key| format!("user:{key}")).collect();
        let mut fill = JoinSet::new();
        for key in keys.iter() {
            let (limiter, key) = (limiter.clone(), key.clone());
            fill.spawn(async move {
                for _ in 0..before {
                    let _ = limiter.check(&key).await?;
                }
                Ok::<(), Problem>(())
            });
        }
        fill.join_all()
            .await
            .into_iter()
            .collect::<Result<(), _>>()?;
        points.push(point(row, decides(limiter, keys, row), before == 0));
    }
    Ok(points)
}

fn decides(
    limiter: RateLimiter<Arc<dyn Store>>,
    keys: Arc<[String]>,
    row: &'static str,
) -> Subject {
    Subject::new(move |turn| {
        let (limiter, keys) = (limiter.clone(), Arc::clone(&keys));
        async move {
            let key = keys[turn % keys.len()].as_str();
            let call = limiter.check(key);
            let id = turn.to_le_bytes();
            let decision = match row {
                "gcra reserved" => limiter.reserve(key).within(Duration::MAX).await?,
                // Otherwise the server would hold all ids.
                "gcra with an id" => {
                    call.id(CallId::new(&id).kept(Duration::from_secs(1)))
                        .await?
                }
                "gcra and its refund" | "gcra and its settlement" => call.cost(2).await?,
                _ => call.await?,
            };
            let is_allowed = decision.is_allowed();
            match (row, decision.into_receipt()) {
                ("gcra and its refund", Some(receipt)) => {
                    drop(limiter.refund(key, receipt).await?);
                }
                ("gcra and its settlement", Some(receipt)) => {
                    drop(limiter.settle(key, receipt, 1).await?);
                }
                _ => {}
            }
            Ok(is_allowed)
        }
    })
}

/// Commands that decisions consist of, and widely used limiters as they are published.
const BY_HAND: [&str; 8] = [
    "INCR",
    "EVALSHA of `return 1`",
    "original: sorted set in one transaction",
    "original: sorted set in a script",
    "original: counter set by the first call",
    "original: counter set, then read",
    "original: counter in one transaction",
    "original: counts by second",
];

fn by_hand(row: &'static str, connection: MultiplexedConnection) -> Subject {
    // None reaches the limit; sorted sets hold the calls of a second, which are about a hundred.
    const MOST: u64 = 1_000_000_000;
    Subject::new(move |turn| {
        let mut to = connection.clone();
        async move {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
            let (now, to) = (u64::try_from(now)?, &mut to);
            let key = &*format!("{row}:{}", turn % 1_000);
            let decided = match row {
                "INCR" => redis::Cmd::incr(key, 1).query_async(to).await,
                "EVALSHA of `return 1`" => {
                    redis::cmd("EVALSHA")
                        .arg(NOTHING[1])
                        .arg(0)
                        .query_async(to)
                        .await
                }
                "original: sorted set in one transaction" => {
                    published::sorted_set_in_transaction(to, key, now, 1, MOST).await
                }
                "original: sorted set in a script" => {
                    published::sorted_set_in_script(to, key, now, 1, MOST).await
                }
                "original: counter set by the first call" => {
                    published::counter_set_by_the_first(to, key, 60, MOST).await
                }
                "original: counter set, then read" => {
                    published::counter_set_then_read(to, key, 60, MOST).await
                }
                "original: counter in one transaction" => {
                    published::counter_in_transaction(to, key, 60, MOST).await
                }
                _ => published::counts_by_second(to, key, &format!("{key}:counts"), 1, MOST).await,
            };
            Ok(decided?)
        }
    })
}

/// Returns the name and release of a server, such as `Redis 7.0.15`.
fn release(server: &Server) -> Result<String, Problem> {
    let reply = server.command(&["INFO", "server"]);
    let text = reply.text().unwrap_or_default();
    // Valkey also reports the Redis release that it is compatible with.
    let known = [("Valkey", "valkey_version:"), ("Redis", "redis_version:")];
    let release = known.into_iter().find_map(|(name, field)| {
        let release = text
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(field))?;
        Some(format!("{name} {release}"))
    });
    release.ok_or_else(|| "the server does not say its release".into())
}
