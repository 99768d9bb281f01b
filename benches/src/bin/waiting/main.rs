//! Measures calls that wait: what they cost, how exactly they start, and how fairly processes share
//! a limit.
//!
//! First, 1,000 calls for one key wait in one process, on a store in memory. Then callers give up, of
//! one line, of eight, and of a long one. Then eight processes wait for one key on a server, for some
//! seconds.

mod churn;
mod counting;
mod one;
mod several;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tollgate_benches::{Problem, ended};

/// The limits that are measured: all algorithms at the same rate, and two limits together.
const LIMITS: [&[&str]; 7] = [
    &["l=gcra:200/1s,burst=1"],
    &["l=sliding-log:1/5ms"],
    &["l=sliding-log:20/100ms"],
    &["l=fixed-window:20/100ms"],
    &["l=sliding-counter:20/100ms"],
    &["l=sliding-buckets:20/100ms,buckets=10"],
    &["l=gcra:200/1s,burst=1", "m=sliding-log:20/100ms"],
];

/// Limits that admit 100 calls a millisecond. All but GCRA, which reserves, admit them together: Tokio
/// sleeps for whole milliseconds.
const BUSY: [&[&str]; 5] = [
    &["l=gcra:100000/1s,burst=1"],
    &["l=sliding-log:100/1ms"],
    &["l=fixed-window:100/1ms"],
    &["l=sliding-counter:100/1ms"],
    &["l=sliding-log:100/1ms", "m=sliding-log:1000/10ms"],
];

/// Measures calls that wait until they are admitted.
#[derive(Debug, Parser)]
struct Arguments {
    /// Selects the limits that contain this.
    filter: Option<String>,
    /// How many calls wait in one process.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
    /// How long eight processes wait for one key, in milliseconds.
    #[arg(long, default_value_t = 5_000)]
    span: u64,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Waits as one of several processes on this server, for these limits, from this millisecond
    /// on; the program starts itself so.
    #[arg(long, hide = true, requires = "limit")]
    server: Option<String>,
    #[arg(long, hide = true)]
    limit: Vec<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    begin: u64,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.calls, arguments.span) = (50, 200);
    }
    ended(run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    let span = Duration::from_millis(arguments.span);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    if let Some(url) = &arguments.server {
        return runtime.block_on(several::one_of_them(
            url,
            &arguments.limit,
            arguments.begin,
            span,
        ));
    }
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let wanted = |limits: &&&[&str]| limits.iter().any(|limit| limit.contains(filter));
    say(&one::heading(arguments.calls))?;
    say(&runtime.block_on(one::only_sleep(arguments.calls))?)?;
    for limits in LIMITS.iter().filter(wanted) {
        say(&runtime.block_on(one::measure(limits, arguments.calls))?)?;
    }
    say(&format!("\n{}", one::busy_heading(arguments.calls)))?;
    for limits in BUSY.iter().filter(wanted) {
        let row = one::beside_sleeping(limits, arguments.calls);
        say(&runtime.block_on(row)?)?;
    }
    say(&format!("\n{}", churn::heading(span)))?;
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    for row in threads.block_on(churn::give_up(span))? {
        say(&row)?;
    }
    say(&format!("\n{}", churn::long_heading()))?;
    for row in threads.block_on(churn::beside_a_long_line(span))? {
        say(&row)?;
    }
    say(&format!("\n{}", several::heading(span)))?;
    for limits in LIMITS.iter().filter(wanted) {
        say(&several::measure(limits, span)?)?;
    }
    Ok(())
}

fn say(line: &str) -> Result<(), Problem> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Returns `part / whole`; both are small.
fn per(part: u64, whole: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "for people to read")]
    let (part, whole) = (part as f64, whole.max(1) as f64);
    part / whole
}
