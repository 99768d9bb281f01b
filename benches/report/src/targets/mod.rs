//! The targets of the benchmarks: what was aimed at, what was reached, and why not more.

use super::numbers::{in_batches, in_memory, on_server};
use super::tables::{NOTHING, Table};
use super::{Rows, short};

/// What is aimed at.
#[derive(Clone, Copy)]
enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Aim {
    fn is_met(self, found: f64) -> bool {
        match self {
            Self::AtMost(aim) => found <= aim,
            Self::AtLeast(aim) => found >= aim,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(aim) => format!("at most {aim}"),
            Self::AtLeast(aim) => format!("at least {aim}"),
        }
    }
}

/// A target, and what was measured.
struct Target {
    what: &'static str,
    aim: Aim,
    /// Of several cases.
    found: Vec<Option<f64>>,
    /// What keeps a target that was missed from being met.
    obstacle: String,
}

impl Target {
    fn row(&self, table: &mut Table) {
        let found: Vec<f64> = self.found.iter().flatten().copied().collect();
        let reached = range(&found);
        let met = found.iter().filter(|found| self.aim.is_met(**found));
        let verdict = match (met.count(), found.len()) {
            (_, 0) => NOTHING.to_owned(),
            (met, all) if met == all => "yes".to_owned(),
            (0, _) => format!("no: {}", self.obstacle),
            _ => format!("in part: {}", self.obstacle),
        };
        table.row(self.what, [self.aim.text(), reached, verdict]);
    }
}

/// Formats the least and the most of some numbers.
fn range(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().reduce(f64::min);
    let most = numbers.iter().copied().reduce(f64::max);
    match least.zip(most) {
        None => NOTHING.to_owned(),
        Some((least, most)) if least == most => short(least),
        Some((least, most)) => format!("{} to {}", short(least), short(most)),
    }
}

fn written(targets: &[Target]) -> String {
    let mut table = Table::of_texts(&["ratio", "target", "reached", "met"]);
    for target in targets {
        target.row(&mut table);
    }
    table.0
}

const OUTCOMES: [&str; 2] = ["allowed", "denied"];

/// What decisions in memory should cost.
pub(super) fn in_memory_targets(memory: &Rows) -> String {
    let ratios = |keys: &[&str], limiters: &[&str]| {
        let mut found = Vec::new();
        for outcome in OUTCOMES {
            for keys in keys {
                for limiter in limiters {
                    let place = [outcome, keys, "1", limiter];
                    found.push(in_memory(memory, "ratio_to_governor", place));
                }
            }
        }
        found
    };
    let times = |keys: &str, threads: &str, limiter: &str| {
        OUTCOMES.map(|outcome| in_memory(memory, "ns", [outcome, keys, threads, limiter]))
    };
    let to_gcra = |limiter: &str, compare: fn(f64, f64) -> f64| {
        let both = times("1 key", "1", limiter).into_iter();
        let both = both.zip(times("1 key", "1", "gcra"));
        both.map(|(one, gcra)| Some(compare(one?, gcra?))).collect()
    };
    let scaling = |limiter: &str| -> Vec<Option<f64>> {
        let of = |keys| {
            let both = times(keys, "1", limiter).into_iter();
            both.zip(times(keys, "2", limiter))
                .map(|(one, two)| Some(2.0 * one? / two?))
        };
        let keys = ["10 k keys", "1 M keys"].into_iter();
        keys.flat_map(of).collect()
    };
    let others: Vec<f64> = scaling("governor").into_iter().flatten().collect();
    let several = "each limit has an entry of its own, which is found, decided and recorded: some 220 \
                   instructions, and 140 for having several verdicts at all, where a single limit \
                   takes 310; less would need one entry for all limits of a key";
    written(&[
        Target {
            what: "GCRA : governor, one key, one thread",
            aim: Aim::AtMost(0.65),
            found: ratios(&["1 key"], &["gcra"]),
            obstacle:
                "on an Intel processor, taking and releasing a lock were 11 of 31 ns, and reading \
                       the processor's counter 7; less would need states that change without a lock"
                    .to_owned(),
        },
        Target {
            what: "GCRA : governor, ten thousand and a million keys, one thread",
            aim: Aim::AtMost(0.8),
            found: ratios(&["10 k keys", "1 M keys"], &["gcra"]),
            obstacle:
                "both wait for memory: a call touches a line of the table's control bytes, the \
                       entry, which is one line, and the key that the caller passes; less would \
                       need to fetch them before the call"
                    .to_owned(),
        },
        Target {
            what: "two threads : one, calls a second, ten thousand and a million keys",
            aim: Aim::AtLeast(1.8),
            found: scaling("gcra"),
            obstacle: format!(
                "governor reached {} in the same run: the cores share what keys wait for; more \
                 would need cores that do not",
                range(&others)
            ),
        },
        Target {
            what: "fixed windows and sliding counter : governor, one key, one thread",
            aim: Aim::AtMost(0.9),
            found: ratios(
                &["1 key"],
                &[
                    "fixed-window-aligned",
                    "fixed-window-anchored",
                    "sliding-counter",
                ],
            ),
            obstacle: "as GCRA".to_owned(),
        },
        Target {
            what: "sliding buckets and log : governor, one key, one thread",
            aim: Aim::AtMost(1.2),
            found: ratios(&["1 key"], &["sliding-buckets-10", "sliding-log"]),
            obstacle: "counts and instants are outside the entry, in another line of memory; less \
                       would need them inside, which takes more memory for every key"
                .to_owned(),
        },
        Target {
            what: "two limits : one, one key, one thread",
            aim: Aim::AtMost(1.4),
            found: to_gcra("two-gcra", |two, one| two / one),
            obstacle: several.to_owned(),
        },
        Target {
            what: "four limits : one, one key, one thread",
            aim: Aim::AtMost(2.0),
            found: to_gcra("four-gcra", |four, one| four / one),
            obstacle: several.to_owned(),
        },
        Target {
            what: "awaited through `dyn Store`, in ns above a call that is not",
            aim: Aim::AtMost(15.0),
            found: to_gcra("gcra-awaited", |awaited, run| awaited - run),
            obstacle:
                "the call is kept in a future, and the store is called through two tables of \
                       methods; less would need futures that know the type of their store"
                    .to_owned(),
        },
    ])
}

/// The row of this library among other limiters, with its calls sent together.
const IN_BATCHES: &str = "peer: gcra in batches, allowed";

/// What decisions on a server should cost, next to those of others.
pub(super) fn on_server_targets(servers: &Rows, peers: &Rows) -> String {
    let names = servers.different("server");
    let server_time = |one: &str, other: &str| -> Vec<Option<f64>> {
        let ratio = |server: &&str| {
            let of = |call: &str| on_server(servers, "server_us", server, "redis-rs", "256", call);
            Some(of(one)? / of(other)?)
        };
        names.iter().map(ratio).collect()
    };
    let transaction = "original: sorted set in one transaction";
    let gcra = server_time("gcra, allowed", transaction).into_iter();
    let gcra: Vec<f64> = gcra.flatten().collect();
    let server = peers.first("server");
    let others = peers.different("call").into_iter();
    let others: Vec<_> = others
        .filter(|call| call.starts_with("peer: ") && call.ends_with(", allowed"))
        .filter(|call| *call != IN_BATCHES)
        .collect();
    let of_to_others = |ours: &str, column, depth, compare: fn(f64, f64) -> f64| -> Vec<_> {
        let of = |call: &str| on_server(peers, column, server, "redis-rs", depth, call);
        let ratio = |other: &&str| Some(compare(of(ours)?, of(other)?));
        others.iter().map(ratio).collect()
    };
    let to_others = |column, depth, compare| of_to_others("gcra, allowed", column, depth, compare);
    let batches_to_others = |column, compare| of_to_others(IN_BATCHES, column, "64", compare);
    let of_each_limit = "each limit reads and writes a key of its own; less would need one key for all \
                         limits, which calls under fewer of them could not share";
    let of_small_batches = "few calls share a batch; more would need more calls in flight";
    let busy = |column: &str| -> Vec<f64> {
        let found = on_server(peers, column, server, "redis-rs", "64", "gcra, allowed");
        found.into_iter().collect()
    };
    let in_turn = format!(
        "with 64 calls on one connection, client and server mostly take turns, and a call takes {} µs \
         of the client and {} µs of the server; more would need several connections, or batches",
        range(&busy("client_us")),
        range(&busy("server_us"))
    );
    written(&[
        Target {
            what: "decisions a second, GCRA : each other limiter, 64 in flight",
            aim: Aim::AtLeast(1.1),
            found: to_others("thousand_calls_per_second", "64", |gcra, other| {
                gcra / other
            }),
            obstacle: in_turn.clone(),
        },
        Target {
            what: "99th percentile, each other limiter : GCRA, 64 in flight",
            aim: Aim::AtLeast(1.1),
            found: to_others("p99_us", "64", |gcra, other| other / gcra),
            obstacle: in_turn,
        },
        Target {
            what: "decisions a second, GCRA in batches : each other limiter, 64 in flight",
            aim: Aim::AtLeast(1.1),
            found: batches_to_others("thousand_calls_per_second", |gcra, other| gcra / other),
            obstacle: of_small_batches.to_owned(),
        },
        Target {
            what: "99th percentile, each other limiter : GCRA in batches, 64 in flight",
            aim: Aim::AtLeast(1.1),
            found: batches_to_others("p99_us", |gcra, other| other / gcra),
            obstacle: of_small_batches.to_owned(),
        },
        Target {
            what: "server, GCRA : each other limiter",
            aim: Aim::AtMost(0.9),
            found: to_others("server_us", "256", |gcra, other| gcra / other),
            obstacle:
                "most of the time is the call of a script, whatever it does; less would need \
                       a module, or batches"
                    .to_owned(),
        },
        Target {
            what: "server, sliding log of 100 : sorted set in one transaction",
            aim: Aim::AtMost(1.2),
            found: server_time("sliding log of 100, allowed", transaction),
            obstacle: format!(
                "GCRA's script, which reads and writes one short string, takes {} times that \
                 transaction; less would need a module",
                range(&gcra)
            ),
        },
        Target {
            what: "server, two limits : one",
            aim: Aim::AtMost(1.4),
            found: server_time("two gcra together, allowed", "gcra, allowed"),
            obstacle: of_each_limit.to_owned(),
        },
        Target {
            what: "server, four limits : one",
            aim: Aim::AtMost(2.0),
            found: server_time("four gcra together, allowed", "gcra, allowed"),
            obstacle: of_each_limit.to_owned(),
        },
    ])
}

/// What calls that are sent together should cost, next to the same calls sent by themselves.
pub(super) fn in_batches_targets(batches: &Rows) -> String {
    let each = |column: &str, keys: &str, callers: &str, sent: &str| -> Vec<Option<f64>> {
        let servers = batches.different("server").into_iter();
        let cases = servers.flat_map(|server| ["redis", "fred"].map(|client| (server, client)));
        let of =
            |(server, client)| in_batches(batches, column, [server, client, keys, callers, sent]);
        cases.map(of).collect()
    };
    let ratios = |column: &str, keys: &str, callers: &str| -> Vec<Option<f64>> {
        let together = each(column, keys, callers, "together").into_iter();
        let both = together.zip(each(column, keys, callers, "alone"));
        both.map(|(together, alone)| Some(together? / alone?))
            .collect()
    };
    let rate = "decisions_per_second";
    let scaled = |column: &str, by: f64| -> Vec<Option<f64>> {
        let found = each(column, "hot", "1024", "together").into_iter();
        found.map(|found| Some(found? / by)).collect()
    };
    let alone = scaled_range(&each(rate, "hot", "1024", "alone"), 1e3);
    let client = scaled_range(&each("client_ns", "hot", "1024", "together"), 1e3);
    let kept_by_the_client = format!(
        "the client's core is busy for {client} µs of each decision, in which a task is woken and \
         polled twice; by itself, a server makes {alone} thousand decisions a second; more would \
         need callers on several cores"
    );
    let kept_by_the_server = "each key still costs the server a TTL, and a part of an `MGET` and an \
                              `MSET`; less would need a module";
    let busy = ["64", "256", "1024"];
    let of_client = ["hot", "1000 keys", "zipf of 100000"];
    let client_time = of_client.iter().flat_map(|keys| {
        busy.iter()
            .flat_map(|callers| ratios("client_ns", keys, callers))
    });
    written(&[
        Target {
            what: "decisions a second, together : alone, one hot key, 1,024 callers",
            aim: Aim::AtLeast(10.0),
            found: ratios(rate, "hot", "1024"),
            obstacle: kept_by_the_client.clone(),
        },
        Target {
            what: "million decisions a second, the same",
            aim: Aim::AtLeast(1.5),
            found: scaled(rate, 1e6),
            obstacle: kept_by_the_client,
        },
        Target {
            what: "µs of the server per decision, the same",
            aim: Aim::AtMost(0.3),
            found: scaled("server_ns", 1e3),
            obstacle: "the kernel's part of receiving and sending".to_owned(),
        },
        Target {
            what: "decisions a second, together : alone, 1,000 keys, 256 callers",
            aim: Aim::AtLeast(1.8),
            found: ratios(rate, "1000 keys", "256"),
            obstacle: kept_by_the_server.to_owned(),
        },
        Target {
            what: "the same, 100,000 keys by Zipf, 1,024 callers",
            aim: Aim::AtLeast(2.5),
            found: ratios(rate, "zipf of 100000", "1024"),
            obstacle: kept_by_the_server.to_owned(),
        },
        Target {
            what: "processor time of the client per decision, together : alone, 64 callers and more",
            aim: Aim::AtMost(0.6),
            found: client_time.collect(),
            obstacle: "with 64 callers and many keys, batches are small, and few calls share what \
                       each costs the kernel; less would need calls that wait for a timer"
                .to_owned(),
        },
    ])
}

/// Formats the least and the most of some numbers, divided by `by`.
fn scaled_range(numbers: &[Option<f64>], by: f64) -> String {
    let numbers: Vec<f64> = numbers.iter().flatten().map(|number| number / by).collect();
    range(&numbers)
}

#[cfg(test)]
mod tests;
