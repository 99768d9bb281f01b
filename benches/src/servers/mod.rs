//! Measures decisions on real servers, next to the commands they consist of.
//!
//! All subjects use one connection and are measured in turn, many times. Values are compared within
//! the same round, and the program prints the median over all rounds. A filter selects the subjects
//! whose names contain it, such as `gcra`.

mod afterwards;
pub(crate) mod clients;
mod keys;
mod measure;
mod originals;
mod peers;
mod points;
mod raw;
pub(crate) mod run;
mod schedules;
mod tables;

use std::io::{self, Write};
use std::pin::Pin;
use std::time::Duration;

use clap::Parser;
use tollgate_testkit::{Flavor, Server};

use self::clients::Clients;
use self::measure::Plan;
use crate::cores::Cores;
use crate::{Named, Outcome, Peer, Problem};

/// Measures decisions on servers that it starts, one after another.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Selects the subjects whose names contain this.
    filter: Option<String>,
    /// The server: `redis_system`, `redis_6_2` or `valkey_9_1`; default: all of them.
    #[arg(long, value_parser = flavor)]
    flavor: Vec<Flavor>,
    /// How often every subject is measured.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The duration of each measurement in milliseconds.
    #[arg(long, default_value_t = 80)]
    slice: u64,
    /// The most calls in flight.
    #[arg(long, default_value_t = 256)]
    most: usize,
    /// Checks within seconds that everything works; the numbers mean nothing.
    #[arg(long)]
    quick: bool,
}

fn flavor(text: &str) -> Result<Flavor, String> {
    let known = Flavor::ALL.into_iter().find(|flavor| flavor.name() == text);
    known.ok_or_else(|| {
        let names = Flavor::ALL.map(Flavor::name).join(", ");
        format!("this is none of {names}")
    })
}

/// Connects rate limiters to the server at a URL.
pub type Connect = for<'u> fn(&'u str, Outcome) -> Connecting<'u>;

/// What [`Connect`] returns: a future of limiters with quotas for the outcome.
pub type Connecting<'u> =
    Pin<Box<dyn Future<Output = Result<Vec<Named<dyn Peer>>, Problem>> + Send + 'u>>;

/// Measures this library's decisions and, beside them, those of the peers that `connect` returns.
///
/// # Errors
///
/// If a server or a subject fails.
pub fn run(arguments: &Arguments, connect: Connect) -> Result<(), Problem> {
    let cores = Cores::take();
    // A single thread: with several, they compete with the server for two cores, and results vary
    // by half from one minute to the next.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let flavors: &[Flavor] = match &*arguments.flavor {
        [] => &Flavor::ALL,
        some => some,
    };
    for &flavor in flavors {
        runtime.block_on(one(arguments, flavor, &cores, connect))?;
    }
    Ok(())
}

/// Measures on one server, which is stopped at the end.
async fn one(
    arguments: &Arguments,
    flavor: Flavor,
    cores: &Cores,
    connect: Connect,
) -> Result<(), Problem> {
    let mut out = io::stdout();
    let server = Server::start(flavor);
    let pinned = cores.give(server.pid());
    let clients = Clients::connect(&server).await?;
    writeln!(out, "### {}\n\n{pinned}\n", release(&server)?)?;
    let plan = if arguments.quick {
        Plan::quick()
    } else {
        Plan {
            rounds: arguments.rounds.max(1),
            slice: Duration::from_millis(arguments.slice.max(1)),
            depths: [1, 64, arguments.most.max(1)],
            ..Plan::default()
        }
    };
    let filter = arguments.filter.as_deref().unwrap_or_default();
    let mut points = points::all(&clients, &plan, filter).await?;
    points.extend(peers::all(&server.url(), &plan, filter, connect).await?);
    let measured = measure::all(&points, &plan, &server).await?;
    tables::write(&mut out, &plan, &points, &measured)?;
    clients.close().await
}

/// Returns the name and release of a server, such as `Redis 7.0.15`.
fn release(server: &Server) -> Result<String, Problem> {
    let reply = server.command(&["INFO", "server"]);
    let text = reply.text().ok_or("the server does not say what it is")?;
    named(text).ok_or_else(|| "the server does not say its release".into())
}

/// Returns the name and release in a reply to `INFO`.
fn named(information: &str) -> Option<String> {
    // Valkey also reports the Redis release that it is compatible with.
    let known = [("Valkey", "valkey_version:"), ("Redis", "redis_version:")];
    known.into_iter().find_map(|(name, field)| {
        let mut lines = information.lines().map(str::trim_end);
        let release = lines.find_map(|line| line.strip_prefix(field))?;
        Some(format!("{name} {release}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_chosen_by_their_names() {
        let line = ["servers", "gcra", "--flavor", "redis_6_2", "--most", "1024"];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.flavor, [Flavor::Redis62]);
        assert_eq!(arguments.filter.as_deref(), Some("gcra"));
        assert_eq!(arguments.most, 1024);
        assert!(Arguments::try_parse_from(["servers", "--flavor", "other"]).is_err());
    }

    #[test]
    fn a_server_is_named_by_what_it_is_rather_than_by_what_it_is_compatible_with() {
        let text = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(named(text).as_deref(), Some("Valkey 9.1.2"));
        let text = "redis_version:7.0.15\r\n";
        assert_eq!(named(text).as_deref(), Some("Redis 7.0.15"));
        assert_eq!(named(""), None);
    }
}
