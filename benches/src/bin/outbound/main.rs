//! Measures calls to services that enforce limits of their own: how many are refused, and how much
//! of the limits they use.
//!
//! Four processes share an `Outbound` through one server, and call a web service over HTTP. The
//! service makes some journeys longer than others, at random.

mod caller;
mod measure;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tollgate_benches::{Problem, ended};
use tollgate_testkit::Rule;

/// A service, and the limit that its callers keep to.
struct Case {
    name: &'static str,
    rule: Rule,
    limit: &'static str,
}

const AMOUNT: u64 = 200;
const BURST: u64 = 40;
const WINDOW_US: u64 = 1_000_000;

const CASES: [Case; 3] = [
    Case {
        name: "aligned windows, 200 per 1s",
        rule: Rule::Window {
            amount: AMOUNT,
            window_us: WINDOW_US,
        },
        limit: "service=sliding-log:200/1s",
    },
    Case {
        name: "a sliding log, 200 per 1s",
        rule: Rule::Log {
            amount: AMOUNT,
            window_us: WINDOW_US,
        },
        limit: "service=sliding-log:200/1s",
    },
    Case {
        name: "a token bucket, 200 per 1s, burst 40",
        rule: Rule::Bucket {
            amount: AMOUNT,
            window_us: WINDOW_US,
            burst: BURST,
        },
        limit: "service=gcra:200/1s,burst=40",
    },
];

/// Measures calls to services that enforce limits of their own.
#[derive(Debug, Parser)]
struct Arguments {
    /// Selects the services whose names contain this.
    filter: Option<String>,
    /// How long each service is called, in milliseconds.
    #[arg(long, default_value_t = 20_000)]
    span: u64,
    /// By how much journeys differ at the service, in milliseconds.
    #[arg(long, default_value_t = 20)]
    jitter: u64,
    /// The margin, in milliseconds.
    #[arg(long, default_value_t = 60)]
    margin: u64,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
    /// Calls as one of several processes that share this server, the service at this URL, keeping
    /// to this limit, from this millisecond on; the program starts itself so.
    #[arg(long, hide = true, requires_all = ["service", "limit"])]
    server: Option<String>,
    #[arg(long, hide = true)]
    service: Option<String>,
    #[arg(long, hide = true)]
    limit: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    begin: u64,
}

impl Arguments {
    fn span(&self) -> Duration {
        Duration::from_millis(self.span)
    }

    fn jitter(&self) -> Duration {
        Duration::from_millis(self.jitter)
    }

    fn margin(&self) -> Duration {
        Duration::from_millis(self.margin)
    }

    /// Returns how old a permit may be; the rest of the margin is for the journey.
    fn permit_age(&self) -> Duration {
        self.margin().saturating_sub(self.jitter()) / 2
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        arguments.span = 300;
    }
    ended(run(&arguments))
}

fn run(arguments: &Arguments) -> Result<(), Problem> {
    if let (Some(server), Some(service), Some(limit)) =
        (&arguments.server, &arguments.service, &arguments.limit)
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        return runtime.block_on(caller::call(server, service, limit, arguments));
    }
    let filter = arguments.filter.as_deref().unwrap_or_default();
    say(&measure::heading(arguments))?;
    let mut broken = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains(filter)) {
        let row = measure::measure(case, arguments)?;
        say(&row.text)?;
        if row.is_broken {
            broken.push(case.name);
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!(
        "calls were refused, although all journeys kept to the margin: {}",
        broken.join("; ")
    )
    .into())
}

fn say(line: &str) -> Result<(), Problem> {
    Ok(writeln!(io::stdout(), "{line}")?)
}
