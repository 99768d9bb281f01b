//! Measures how the server's time for a decision grows: with the calls that a key remembers, with the
//! cost of a call, and with the number of keys.
//!
//! Every line of a step is measured in turn, together with `INCR`, round after round; the program
//! prints medians.

mod subject;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::runtime::Builder;
use tollgate_benches::cores::Cores;
use tollgate_benches::saved::Saved;
use tollgate_benches::{Problem, ended, median, processor, stamp};
use tollgate_testkit::{Flavor, Server};

use crate::subject::{Increments, Subject, Taken};

/// How many calls are in flight.
const CALLERS: usize = 64;

/// What grows.
const BY: [(&str, [u64; 4]); 3] = [
    ("calls remembered", [10, 100, 1_000, 10_000]),
    ("cost", [1, 10, 100, 1_000]),
    ("keys", [100, 10_000, 100_000, 1_000_000]),
];

/// The window of every limit.
const WINDOW: Duration = Duration::from_secs(3_600);

/// How many calls a key remembers if that does not grow.
const REMEMBERED: u64 = 20;

/// How many calls a key remembers if there are many keys, since each of them is called that often
/// first.
const REMEMBERED_BY_MANY: u64 = 1;

/// Measures how the server's time for a decision grows.
///
/// On the system's server, or on every server if the environment variable `TOLLGATE_EVERY_SERVER` is
/// set.
#[derive(Debug, Parser)]
struct Arguments {
    /// Measures each point so many times.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// How many calls are measured each time.
    #[arg(long, default_value_t = 4_096)]
    calls: usize,
    /// Leaves out steps that are larger.
    #[arg(long, default_value_t = u64::MAX)]
    most: u64,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Writes the numbers to this file, too.
    #[arg(long)]
    csv: Option<PathBuf>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.rounds, arguments.calls, arguments.most) = (1, 128, 100);
    }
    ended(run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    let columns = ["server", "by", "step", "call", "server_us", "to_incr"];
    let mut saved = Saved::to(arguments.csv.as_deref(), &columns)?;
    let cores = Cores::take();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut out = io::stdout();
    for flavor in Flavor::chosen() {
        for (by, steps) in BY {
            // A server of its own, so that nothing else grows.
            let server = Server::start(flavor);
            let release = stamp::release(&server)?;
            writeln!(out, "{release}: {}\n", cores.give(server.pid()))?;
            writeln!(
                out,
                "| {by} | call | server, µs | to `INCR` |\n|---|---|---:|---:|"
            )?;
            for step in steps.into_iter().filter(|step| *step <= arguments.most) {
                for found in runtime.block_on(measure(arguments, &server, by, step))? {
                    let [call, us, ratio] = found.cells();
                    writeln!(out, "| {step} | {call} | {us} | {ratio} |")?;
                    saved.row([&release, by, &step.to_string(), &call, &us, &ratio])?;
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// What a line of a step took.
struct Found {
    call: String,
    server_us: f64,
    to_increment: f64,
}

impl Found {
    fn cells(&self) -> [String; 3] {
        let (us, ratio) = (self.server_us, self.to_increment);
        [self.call.clone(), format!("{us:.2}"), format!("{ratio:.2}")]
    }
}

/// Returns how many keys there are, how many calls each of them remembers, and what a call costs.
fn sizes(by: &str, step: u64) -> Taken {
    let few = Taken {
        keys: CALLERS,
        remembered: REMEMBERED,
        cost: 1,
    };
    match by {
        "cost" => Taken { cost: step, ..few },
        "keys" => Taken {
            keys: usize::try_from(step).unwrap_or(usize::MAX),
            remembered: REMEMBERED_BY_MANY,
            ..few
        },
        _ => Taken {
            remembered: step,
            ..few
        },
    }
}

/// Measures all lines of a step in turn.
async fn measure(
    arguments: &Arguments,
    server: &Server,
    by: &str,
    step: u64,
) -> Result<Vec<Found>, Problem> {
    let taken = sizes(by, step);
    // What the step before has left would be ahead of the clock.
    server.command(&["FLUSHALL"]);
    let subjects = subject::all(server, taken).await?;
    let increments = Increments::new(server, taken.keys).await?;
    let calls = arguments.calls;
    let mut times: Vec<Vec<[f64; 2]>> = subjects.iter().map(|_| Vec::new()).collect();
    // Round 0 is a warm-up.
    for round in 0..=arguments.rounds {
        for (subject, times) in subjects.iter().zip(&mut times) {
            let increment = spent(server, calls, increments.call(calls)).await?;
            let decision = spent(server, calls, subject.call(calls)).await?;
            if round > 0 {
                times.push([decision, increment]);
            }
        }
    }
    let all = times.iter().flatten().map(|[_, time]| *time);
    let mut found = vec![Found {
        call: "INCR".to_owned(),
        server_us: median(all).unwrap_or(f64::NAN),
        to_increment: 1.0,
    }];
    let of = |(subject, times): (&Arc<Subject>, Vec<[f64; 2]>)| {
        let decisions = times.iter().map(|[decision, _]| *decision);
        let ratios = times
            .iter()
            .map(|[decision, increment]| decision / increment);
        Found {
            call: subject.name().to_owned(),
            server_us: median(decisions).unwrap_or(f64::NAN),
            to_increment: median(ratios).unwrap_or(f64::NAN),
        }
    };
    found.extend(subjects.iter().zip(times).map(of));
    Ok(found)
}

/// Returns the server's time for each of `calls`, in microseconds.
async fn spent(
    server: &Server,
    calls: usize,
    work: impl Future<Output = Result<(), Problem>>,
) -> Result<f64, Problem> {
    let time = async || {
        // Only when the server is idle has the system counted all of its time.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let time = processor::time(server.pid());
        time.ok_or("this system does not say how long a process was busy")
    };
    let before = time().await?;
    work.await?;
    let spent = time().await?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(u32::try_from(calls)?))
}
