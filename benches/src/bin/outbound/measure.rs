//! Lets several processes call a service, and counts what the service saw.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use tollgate_testkit::{Flavor, Rule, Server, Service};

use crate::{Arguments, Case, Problem};

const PROCESSES: usize = 4;
/// How long the processes may take to start.
const START: Duration = Duration::from_secs(1);

pub(crate) fn heading(arguments: &Arguments) -> String {
    format!(
        "{PROCESSES} processes call a service for {:?}, journeys differ by {:?}, the margin is {:?}:\n\n\
         | service | limit of the callers | calls | refused (429) | share of the allowed rate | store calls per call | permits too old | longest journey |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        arguments.span(),
        arguments.jitter(),
        arguments.margin(),
    )
}

/// The row of the table, and whether the service refused calls although all journeys kept to the
/// margin.
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) is_broken: bool,
}

/// Lets the processes call the service.
pub(crate) fn measure(case: &Case, arguments: &Arguments) -> Result<Row, Problem> {
    let server = Server::start(Flavor::System);
    let service = Service::start(case.rule, arguments.jitter());
    let begin = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)? + START;
    let children: Vec<Child> = (0..PROCESSES)
        .map(|_| start(case, arguments, begin, &server.url(), &service.url()))
        .collect::<Result<_, _>>()?;
    let (mut admitted, mut stale) = (0, 0);
    for [own_admitted, own_stale] in tollgate_benches::printed(children)? {
        admitted += own_admitted;
        stale += own_stale;
    }
    let counts = service.counts();
    let calls = counts.accepted + counts.refused;
    let journey = Duration::from_micros(counts.longest_journey_us);
    let kept_to_margin = journey + arguments.permit_age() <= arguments.margin();
    let text = format!(
        "| {} | `{}` | {calls} | {} | {:.1} % | {:.2} | {stale} of {} | {journey:.1?} |",
        case.name,
        case.limit,
        counts.refused,
        share(counts.accepted, case.rule, arguments.span()),
        per(store_calls(&server), calls),
        admitted + stale,
    );
    Ok(Row {
        text,
        is_broken: counts.refused > 0 && kept_to_margin,
    })
}

/// Returns how many scripts the server has run.
fn store_calls(server: &Server) -> u64 {
    let reply = server.command(&["INFO", "commandstats"]);
    let calls = reply.text().unwrap_or_default().lines().find_map(|line| {
        let (calls, _) = line
            .strip_prefix("cmdstat_evalsha:calls=")?
            .split_once(',')?;
        calls.parse().ok()
    });
    calls.unwrap_or_default()
}

/// Starts one of the processes, which calls from `begin` on.
fn start(
    case: &Case,
    arguments: &Arguments,
    begin: Duration,
    server: &str,
    service: &str,
) -> Result<Child, Problem> {
    let child = Command::new(std::env::current_exe()?)
        .args(["--server", server, "--service", service])
        .args(["--limit", case.limit])
        .args(["--begin", &begin.as_millis().to_string()])
        .args(["--span", &arguments.span.to_string()])
        .args(["--jitter", &arguments.jitter.to_string()])
        .args(["--margin", &arguments.margin.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Returns how many percent of what the service allows in `span` at its sustained rate were used.
fn share(accepted: u64, rule: Rule, span: Duration) -> f64 {
    let (Rule::Bucket {
        amount, window_us, ..
    }
    | Rule::Log { amount, window_us }
    | Rule::Window { amount, window_us }) = rule;
    let windows = span.as_secs_f64() / Duration::from_micros(window_us).as_secs_f64();
    100.0 * per(accepted, amount) / windows
}

/// Returns `part / whole`; both are small.
fn per(part: u64, whole: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "for people to read")]
    let (part, whole) = (part as f64, whole.max(1) as f64);
    part / whole
}
