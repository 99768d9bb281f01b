//! The charts of the benchmarks.

use std::error::Error;

use xshell::Shell;

use super::bars::{Bars, Of};
use super::lines::{Line, Lines};
use super::tables::{CASES, STORES};
use super::{Heading, Rows, different, numbers, tables};

/// Returns the name and SVG text of each chart.
///
/// # Errors
///
/// That a CSV file cannot be read.
pub fn drawn(shell: &Shell) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let read = |name| Rows::read(shell, name);
    let (memory, servers) = (read("memory")?, read("servers")?);
    let (batches, sizes, peers) = (read("batches")?, read("sizes")?, read("peers")?);
    let growth = read("growth")?;
    let charts = [
        ("bench-memory", in_memory(&memory).draw()),
        ("bench-stores", stores(&memory, &servers).draw()),
        ("bench-servers", server_time(&servers).draw()),
        (
            "bench-hot-key",
            rates(&batches, "hot", "Decisions a second for one key").draw(),
        ),
        (
            "bench-many-keys",
            rates(&batches, "1000 keys", "Decisions a second for 1,000 keys").draw(),
        ),
        ("bench-latency", latencies(&batches).draw()),
        ("bench-sizes", bytes(&sizes).draw()),
        ("bench-admitted", admitted(&peers).draw()),
        (
            "bench-by-calls",
            grown(
                &growth,
                "calls remembered",
                "Server time, by the calls that a key remembers",
            )
            .draw(),
        ),
        (
            "bench-by-cost",
            grown(&growth, "cost", "Server time, by the cost of a call").draw(),
        ),
        (
            "bench-by-keys",
            grown(&growth, "keys", "Server time, by the number of keys").draw(),
        ),
    ];
    let charts = charts.into_iter();
    Ok(charts.map(|(name, svg)| (name.to_owned(), svg)).collect())
}

fn in_memory(memory: &Rows) -> Bars<'_> {
    let series = memory.different("keys");
    let value = |limiter, keys| numbers::in_memory(memory, "ns", ["allowed", keys, "1", limiter]);
    let limiters = by_whose(tables::alone(memory)).into_iter();
    let (groups, of) = limiters
        .map(|(of, limiter)| {
            let values = series.iter().map(|keys| value(limiter, *keys)).collect();
            ((limiter.to_owned(), values), of)
        })
        .unzip();
    Bars {
        heading: Heading {
            title: "Time of a decision in memory",
            note: "Nanoseconds of an allowed call on one thread, by the number of keys that are called in turn. Shorter is better.",
        },
        groups,
        series,
        of,
        bounds: ("", Vec::new()),
        is_logarithmic: true,
    }
}

/// Returns limiters with whose they are, those of tollgate first: they are called by their algorithm.
fn by_whose(limiters: Vec<&str>) -> Vec<(Of, &str)> {
    let is_ours = |limiter: &str| {
        let mut algorithms = ["fixed-window", "gcra", "sliding-"].iter();
        algorithms.any(|algorithm| limiter.starts_with(algorithm))
    };
    let (ours, others): (Vec<_>, Vec<_>) = limiters.into_iter().partition(|of| is_ours(of));
    let ours = ours.into_iter().map(|limiter| (Of::Tollgate, limiter));
    let others = others.into_iter().map(|limiter| (Of::Others, limiter));
    ours.chain(others).collect()
}

fn stores<'r>(memory: &'r Rows, servers: &'r Rows) -> Bars<'r> {
    let server = servers.first("server");
    let groups = STORES.iter().map(|(limiter, call)| {
        let in_memory = numbers::in_memory(memory, "ns", ["allowed", "1 key", "1", limiter]);
        let call_of = format!("{call}, allowed");
        let through = |client| numbers::on_server(servers, "p50_us", server, client, "1", &call_of);
        let values = vec![
            in_memory.map(|ns| ns / 1e3),
            through("redis-rs"),
            through("fred"),
        ];
        ((*call).to_owned(), values)
    });
    Bars {
        heading: Heading {
            title: "Time of a decision by store, one call at a time",
            note: "Microseconds (µs) of an allowed call; the server is on the same machine. Shorter is better.",
        },
        groups: groups.collect(),
        series: vec!["memory", "redis-rs", "fred"],
        of: Vec::new(),
        bounds: ("", Vec::new()),
        is_logarithmic: true,
    }
}

fn server_time(servers: &Rows) -> Bars<'_> {
    let series = servers.different("server");
    let value = |call: &str, server: &&str| {
        numbers::on_server(servers, "server_us", server, "redis-rs", "256", call)
    };
    let calls = ["INCR".to_owned()].into_iter();
    let calls = calls.chain(CASES.iter().map(|case| format!("{case}, allowed")));
    let groups = calls.map(|call| {
        let values = series.iter().map(|server| value(&call, server)).collect();
        let name = call.strip_suffix(", allowed").unwrap_or(&call);
        (name.to_owned(), values)
    });
    Bars {
        heading: Heading {
            title: "What a decision costs the server",
            note: "Microseconds (µs) of the server's processor for an allowed call, with 256 in flight, each sent by itself. Shorter is better.",
        },
        groups: groups.collect(),
        series,
        of: Vec::new(),
        bounds: ("", Vec::new()),
        is_logarithmic: false,
    }
}

/// Returns lines of a column of `batches`, on the first server, for both clients.
fn of_batches(
    batches: &Rows,
    keys: &str,
    client: &str,
    sent: &str,
    column: &str,
) -> Vec<Option<f64>> {
    let server = batches.first("server");
    let steps = batches.different("callers").into_iter();
    steps
        .map(|callers| numbers::in_batches(batches, column, [server, client, keys, callers, sent]))
        .collect()
}

fn rates<'r>(batches: &'r Rows, keys: &str, title: &'static str) -> Lines<'r> {
    let clients = [("redis", "redis-rs"), ("fred", "fred")]
        .into_iter()
        .enumerate();
    let lines = clients.flat_map(|(colour, (client, name))| {
        [("together", false), ("alone", true)].map(|(sent, is_dashed)| Line {
            name: name.to_owned(),
            colour,
            is_dashed,
            values: of_batches(batches, keys, client, sent, "decisions_per_second"),
        })
    });
    Lines {
        heading: Heading {
            title,
            note: "By calls in flight. Higher is better.",
        },
        kinds: ("with batches", "without"),
        steps: (
            "calls in flight, on one thread",
            batches.different("callers"),
        ),
        lines: lines.collect(),
    }
}

fn latencies(batches: &Rows) -> Lines<'_> {
    let sent = [("together", 0), ("alone", 1)];
    let lines = sent.into_iter().flat_map(|(sent, colour)| {
        [("median", "median_us", false), ("p99", "p99_us", true)].map(
            |(name, column, is_dashed)| Line {
                name: format!("{name}, {sent}"),
                colour,
                is_dashed,
                values: of_batches(batches, "1000 keys", "redis", sent, column),
            },
        )
    });
    Lines {
        heading: Heading {
            title: "How long a call takes, by calls in flight",
            note: "Microseconds (µs) through redis-rs, 1,000 keys, sent together in batches or each alone. Lower is better.",
        },
        kinds: ("median", "99th percentile (p99)"),
        steps: (
            "calls in flight, on one thread",
            batches.different("callers"),
        ),
        lines: lines.collect(),
    }
}

/// Returns lines of what grows, on the first server.
fn grown<'r>(growth: &'r Rows, by: &'r str, title: &'static str) -> Lines<'r> {
    let server = growth.first("server");
    let steps = different(growth.with(&[("server", server), ("by", by)]), "step");
    let calls = growth.different("call").into_iter().enumerate();
    let lines = calls.map(|(colour, call)| {
        let time = |step: &&str| {
            let place = [
                ("server", server),
                ("by", by),
                ("step", step),
                ("call", call),
            ];
            growth.number("server_us", &place)
        };
        Line {
            name: call.to_owned(),
            // The first one, which is a plain command, is grey.
            colour: colour + 4,
            is_dashed: call == "INCR",
            values: steps.iter().map(time).collect(),
        }
    });
    Lines {
        heading: Heading {
            title,
            note: "Microseconds (µs) of the server's processor for an allowed call, with 64 in flight. Lower is better.",
        },
        kinds: ("tollgate", "a plain Redis command"),
        lines: lines.collect(),
        steps: (by, steps),
    }
}

fn bytes(sizes: &Rows) -> Bars<'_> {
    let mut groups = Vec::new();
    for limit in sizes.different("limit") {
        let name = limit
            .replace(":1000000/1h", "")
            .replace(":100000/1h", "")
            .replace(",buckets=", " of ");
        let of = |calls| -> Vec<_> {
            ["memory", "redis"]
                .map(|store| {
                    sizes.number(
                        "bytes",
                        &[("limit", limit), ("calls", calls), ("store", store)],
                    )
                })
                .into()
        };
        if limit.starts_with("sliding-log") {
            for calls in sizes.different("calls") {
                let plural = if calls == "1" { "" } else { "s" };
                groups.push((format!("{name}, {calls} call{plural}"), of(calls)));
            }
        } else {
            groups.push((name, of("10000")));
        }
    }
    Bars {
        heading: Heading {
            title: "Bytes that a key takes",
            note: "In memory, with its share of the table, and on Redis (MEMORY USAGE). Shorter is better.",
        },
        groups,
        series: vec!["memory", "Redis"],
        of: Vec::new(),
        bounds: ("", Vec::new()),
        is_logarithmic: true,
    }
}

fn admitted(peers: &Rows) -> Bars<'_> {
    let threads = peers.different("threads");
    let limiters = by_whose(peers.different("limiter"));
    let of = limiters.iter().map(|(of, _)| *of).collect();
    let limiters = limiters.into_iter();
    let (groups, bounds) = limiters
        .map(|(_, limiter)| {
            let number = |column, threads| {
                peers.number(column, &[("limiter", limiter), ("threads", threads)])
            };
            let values = threads.iter().map(|threads| number("admitted", threads));
            let bound = threads
                .first()
                .and_then(|of| number("should_be_at_most", of));
            (
                (limiter.to_owned(), values.collect()),
                bound.unwrap_or_default(),
            )
        })
        .unzip();
    Bars {
        heading: Heading {
            title: "The most calls admitted within a second",
            note: "With a limit of 100 a second, called as fast as possible by one thread and by four.",
        },
        groups,
        series: vec!["1 thread", "4 threads"],
        of,
        bounds: ("the most that the algorithm allows", bounds),
        is_logarithmic: false,
    }
}
