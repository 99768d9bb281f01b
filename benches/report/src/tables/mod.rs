//! The tables of the benchmarks.

use super::numbers::{in_batches, in_memory, on_server as on};
use super::{Rows, short};

/// The algorithms as limiters in memory and as calls of servers.
pub(super) const STORES: [(&str, &str); 5] = [
    ("gcra", "gcra"),
    ("fixed-window-aligned", "fixed window"),
    ("sliding-counter", "sliding counter"),
    ("sliding-buckets-10", "10 sliding buckets"),
    ("sliding-log", "sliding log of 100"),
];

/// The decisions on servers, by what they cost.
pub(super) const CASES: [&str; 11] = [
    "gcra",
    "two gcra together",
    "four gcra together",
    "fixed window",
    "fixed window without scripts",
    "sliding counter",
    "10 sliding buckets",
    "60 sliding buckets",
    "sliding log of 100",
    "sliding log of 10,000",
    "sliding log of 100 calls that cost 1,000",
];

/// The limiters in memory that the targets compare with GCRA, rather than with governor.
const TOGETHER: [&str; 3] = ["two-gcra", "four-gcra", "gcra-awaited"];

pub(super) const NOTHING: &str = "–";

/// Returns the limiters in memory that decide one limit and are not awaited.
pub(super) fn alone(memory: &Rows) -> Vec<&str> {
    let mut limiters = memory.different("limiter");
    limiters.retain(|limiter| !TOGETHER.contains(limiter));
    limiters
}

/// Ratios to governor of every limiter in memory that decides one limit.
pub(super) fn memory(memory: &Rows) -> String {
    let others = alone(memory);
    let mut table = Table::new("calls | governor, ns", &others[1..]);
    for outcome in memory.different("outcome") {
        for keys in memory.different("keys") {
            for threads in memory.different("threads") {
                let number =
                    |column, limiter| in_memory(memory, column, [outcome, keys, threads, limiter]);
                let plural = if threads == "1" { "" } else { "s" };
                let name = format!(
                    "{outcome}, {keys}, {threads} thread{plural} | {}",
                    cell(number("ns", others[0]))
                );
                let ratios = others[1..].iter();
                table.row(
                    &name,
                    ratios.map(|of| cell(number("ratio_to_governor", of))),
                );
            }
        }
    }
    table.0
}

/// The server's time for decisions, for each such time of `INCR`.
pub(super) fn cost(servers: &Rows) -> String {
    let names = servers.different("server");
    let mut table = Table::new("decision", &names);
    let at_256 = |column, server, call: &str| on(servers, column, server, "redis-rs", "256", call);
    let of = |server, call: &str| at_256("server_time_to_that_of_incr", server, call);
    let increments = names
        .iter()
        .map(|server| cell(at_256("server_us", server, "INCR")));
    table.row("`INCR` itself, µs", increments);
    for (name, call) in [
        ("`EVALSHA` of `return 1`", "EVALSHA of `return 1`"),
        ("`MULTI`, `INCR`, `PEXPIRE NX`", "MULTI, INCR, PEXPIRE NX"),
    ] {
        table.row(name, names.iter().map(|server| cell(of(server, call))));
    }
    for case in CASES {
        let both = names.iter().map(|server| {
            let [allowed, denied] = ["allowed", "denied"]
                .map(|outcome| cell(of(server, &format!("{case}, {outcome}"))));
            match &*denied {
                NOTHING => allowed,
                _ => format!("{allowed} / {denied}"),
            }
        });
        table.row(case, both);
    }
    table.0
}

/// What the servers' scripts and the library should cost, and do.
pub(super) fn targets(servers: &Rows) -> String {
    let names = servers.different("server");
    let mut table = Table::new("ratio | target", &names);
    for (name, client) in [
        (
            "time, decision : script by hand, median of all cases",
            "redis-rs",
        ),
        ("the same through fred", "fred"),
    ] {
        let medians = names.iter().map(|server| {
            each_depth(|depth| {
                let column = "time_to_that_of_the_script_by_hand";
                let of = |case| {
                    on(
                        servers,
                        column,
                        server,
                        client,
                        depth,
                        &format!("{case}, allowed"),
                    )
                };
                median(CASES.iter().filter_map(of))
            })
        });
        table.row(&format!("{name} | 1.03"), medians);
    }
    for (name, target, call, other) in [
        ("server, GCRA : `INCR`", "4.5", "gcra, allowed", "INCR"),
        (
            "server, two limits : one",
            "1.4",
            "two gcra together, allowed",
            "gcra, allowed",
        ),
        (
            "server, four limits : one",
            "2.0",
            "four gcra together, allowed",
            "gcra, allowed",
        ),
        (
            "server, fixed window without scripts : `MULTI`, `INCR`, `PEXPIRE NX`",
            "1.6",
            "fixed window without scripts, allowed",
            "MULTI, INCR, PEXPIRE NX",
        ),
        (
            "server, sliding log of 100 : GCRA",
            "1",
            "sliding log of 100, allowed",
            "gcra, allowed",
        ),
        (
            "server, sliding log, calls of cost 1,000 : cost 1",
            "2",
            "sliding log of 100 calls that cost 1,000, allowed",
            "sliding log of 100, allowed",
        ),
    ] {
        let ratios = names.iter().map(|server| {
            each_depth(|depth| {
                let of = |call| on(servers, "server_us", server, "redis-rs", depth, call);
                Some(of(call)? / of(other)?)
            })
        });
        table.row(&format!("{name} | {target}"), ratios);
    }
    table.0
}

/// How fred compares with redis-rs, over all allowed decisions.
pub(super) fn clients(servers: &Rows) -> String {
    let names = servers.different("server");
    let mut table = Table::new("fred : redis-rs", &names);
    for (name, column) in [
        ("calls a second", "thousand_calls_per_second"),
        ("server busy", "server_us"),
        ("client busy", "client_us"),
    ] {
        let ratios = names.iter().map(|server| {
            each_depth(|depth| {
                let of = |client, case| {
                    let call = format!("{case}, allowed");
                    on(servers, column, server, client, depth, &call)
                };
                median(
                    CASES
                        .iter()
                        .filter_map(|case| Some(of("fred", case)? / of("redis-rs", case)?)),
                )
            })
        });
        table.row(name, ratios);
    }
    table.0
}

/// How many decisions a server makes, and how long they take.
pub(super) fn throughput(servers: &Rows) -> String {
    let names = servers.different("server");
    let mut table = Table::new("with 1 / 64 / 256 in flight", &names);
    for (name, column) in [
        ("thousand calls a second", "thousand_calls_per_second"),
        ("p50, µs", "p50_us"),
        ("p99, µs", "p99_us"),
    ] {
        let numbers = names.iter().map(|server| {
            each_depth(|depth| on(servers, column, server, "redis-rs", depth, "gcra, allowed"))
        });
        table.row(name, numbers);
    }
    table.0
}

/// What scripts cost the server, next to those of widely used limiters.
pub(super) fn published(servers: &Rows) -> String {
    let names = servers.different("server");
    let mut table = Table::new("tollgate : published", &names);
    for (case, original) in [
        ("fixed window", "counter set by the first call"),
        ("fixed window", "counter set, then read"),
        ("fixed window without scripts", "counter in one transaction"),
        ("10 sliding buckets", "counts by second"),
        ("sliding log of 100", "sorted set in a script"),
        ("sliding log of 100", "sorted set in one transaction"),
    ] {
        let ratios = names.iter().map(|server| {
            let of = |call: &str| on(servers, "server_us", server, "redis-rs", "256", call);
            let one = of(&format!("{case}, allowed"));
            let other = of(&format!("original: {original}"));
            cell(one.zip(other).map(|(one, other)| one / other))
        });
        table.row(&format!("{case} : {original}"), ratios);
    }
    table.0
}

/// Other rate limiters on a server, next to GCRA.
pub(super) fn peers_on_server(peers: &Rows) -> String {
    let mut table = Table::new(
        "allowed calls",
        &[
            "µs a call, 1 in flight",
            "thousand calls a second, 64 in flight",
            "p99, µs, 64 in flight",
            "µs of the server, 256 in flight",
            "times that of gcra",
        ],
    );
    let of = |call: &str, calls: &str, column: &str| {
        let place = [
            ("client", "redis-rs"),
            ("calls_in_flight", calls),
            ("call", call),
        ];
        peers.number(column, &place)
    };
    let allowed = |call: &&str| call.ends_with(", allowed");
    for call in peers.different("call").into_iter().filter(allowed) {
        let server = of(call, "256", "server_us");
        let gcra = of("gcra, allowed", "256", "server_us");
        let cells = [
            of(call, "1", "p50_us"),
            of(call, "64", "thousand_calls_per_second"),
            of(call, "64", "p99_us"),
            server,
            server.zip(gcra).map(|(server, gcra)| server / gcra),
        ];
        let name = call.trim_start_matches("peer: ");
        table.row(name.trim_end_matches(", allowed"), cells.map(cell));
    }
    table.0
}

/// What sending calls together gains, as ratios to sending each by itself.
pub(super) fn batches(batches: &Rows) -> String {
    let names = batches.different("server");
    let mut table = Table::new("ratio, redis-rs / fred", &names);
    let points = [
        ("one hot key, 1,024 callers", "hot", "1024"),
        ("one hot key, 64 callers", "hot", "64"),
        ("1,000 keys, 256 callers", "1000 keys", "256"),
        ("1,000 keys, 64 callers", "1000 keys", "64"),
        (
            "100,000 keys by Zipf, 1,024 callers",
            "zipf of 100000",
            "1024",
        ),
    ];
    for (what, column) in [
        ("decisions a second", "decisions_per_second"),
        ("processor time of the client per decision", "client_ns"),
        ("processor time of the server per decision", "server_ns"),
        ("99th percentile of the time of a call", "p99_us"),
    ] {
        for (index, (name, keys, callers)) in points.into_iter().enumerate() {
            let ratios = names.iter().map(|server| {
                let each = ["redis", "fred"].map(|client| {
                    let of =
                        |sent| in_batches(batches, column, [server, client, keys, callers, sent]);
                    let both = of("together").zip(of("alone"));
                    cell(both.map(|(together, alone)| together / alone))
                });
                each.join(" / ")
            });
            let name = match index {
                0 => format!("**{what}**: {name}"),
                _ => name.to_owned(),
            };
            table.row(&name, ratios);
        }
    }
    table.0
}

/// What rate limiters in memory admit.
pub(super) fn admitted(peers: &Rows) -> String {
    let threads = peers.different("threads");
    let columns: Vec<_> = threads
        .iter()
        .map(|count| format!("threads: {count}"))
        .collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("limiter | should be at most", &columns);
    for limiter in peers.different("limiter") {
        let number =
            |column, threads| peers.number(column, &[("limiter", limiter), ("threads", threads)]);
        let bound = number("should_be_at_most", threads[0]);
        let found = threads.iter().map(|threads| {
            let found = number("admitted", threads);
            let text = found.map_or_else(|| NOTHING.to_owned(), |found| format!("{found:.0}"));
            if found > bound {
                format!("**{text}**")
            } else {
                text
            }
        });
        let bound = bound.map_or_else(|| NOTHING.to_owned(), |bound| format!("{bound:.0}"));
        table.row(&format!("{limiter} | {bound}"), found);
    }
    table.0
}

/// The instructions of decisions in memory.
pub(super) fn instructions(instructions: &Rows) -> String {
    let mut table = Table::new("decision", &["instructions"]);
    for row in instructions.all() {
        table.row(row.text("decision"), [row.text("instructions").to_owned()]);
    }
    table.0
}

/// The machine, and the versions of what was measured.
pub(super) fn machine(machine: &Rows) -> String {
    let lines = machine
        .all()
        .map(|row| format!("- {}: {}\n", row.text("what"), row.text("value")));
    lines.collect()
}

/// Returns the numbers with one, 64 and 256 calls in flight, or a dash if there are none.
fn each_depth(number: impl Fn(&str) -> Option<f64>) -> String {
    let each = ["1", "64", "256"].map(|depth| cell(number(depth)));
    if each.iter().all(|cell| cell == NOTHING) {
        return NOTHING.to_owned();
    }
    each.join(" / ")
}

/// Returns the middle one of the numbers; of two, the greater.
fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

fn cell(number: Option<f64>) -> String {
    number
        .filter(|number| number.is_finite())
        .map_or_else(|| NOTHING.to_owned(), short)
}

/// A table in Markdown.
pub(super) struct Table(pub(super) String);

impl Table {
    /// Begins a table, whose `first` columns are texts and whose others are numbers.
    pub(super) fn new(first: &str, columns: &[&str]) -> Self {
        let texts = "---|".repeat(first.split('|').count());
        let numbers = "---:|".repeat(columns.len());
        Self(format!(
            "| {first} | {} |\n|{texts}{numbers}\n",
            columns.join(" | ")
        ))
    }

    /// Begins a table of texts.
    pub(super) fn of_texts(columns: &[&str]) -> Self {
        let lines = "---|".repeat(columns.len());
        Self(format!("| {} |\n|{lines}\n", columns.join(" | ")))
    }

    pub(super) fn row(&mut self, first: &str, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<_> = cells.into_iter().collect();
        self.0 += &format!("| {first} | {} |\n", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests;
