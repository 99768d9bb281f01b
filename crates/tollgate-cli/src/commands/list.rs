//! `tollgate list`: the limits that have states on a live server, and how many.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use tollgate_wire::Search;

use crate::failure::Failure;
use crate::output::{Output, say};
use crate::store::{ServerOptions, TimeSource, wait_for};
use crate::subject::check_names;
use crate::text::{Grouped, Table, plural};

/// The options of `list`.
#[derive(Args, Debug)]
#[command(after_help = LISTS)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// Only limits, schedules and leases with this name; repeat for several
    #[arg(long = "limit", value_name = "NAME")]
    pub(crate) limits: Vec<String>,
}

/// Runs `tollgate list`.
pub(super) fn run(options: &ListOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let settings = options.server.settings(TimeSource::Server)?;
    check_names(&options.limits)?;
    let counts = wait_for(async {
        let store = server.connect(settings).await?;
        let search = Search::new();
        let mut search = options.limits.iter().fold(search, Search::with_limit);
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        while let Some(states) = store.find(&mut search).await? {
            for state in states {
                let clock = TimeSource::from(state.clock);
                let text = state.to_string();
                *counts.entry((state.name, text, clock)).or_default() += 1;
            }
        }
        Ok(counts)
    })?;
    let limit = |((name, state, clock), keys)| Listed {
        name,
        state,
        clock,
        keys,
    };
    let answer = Answer {
        command: "list",
        prefix: &options.server.prefix,
        keys: counts.values().sum(),
        limits: counts.into_iter().map(limit).collect(),
    };
    say(options.server.json, output, &answer, || answer.to_text())
}

/// The answer of `list`.
#[derive(Serialize)]
struct Answer<'a> {
    command: &'static str,
    prefix: &'a str,
    keys: u64,
    limits: Vec<Listed>,
}

/// What has states, and how many.
#[derive(Serialize)]
struct Listed {
    name: String,
    state: String,
    clock: TimeSource,
    keys: u64,
}

impl Answer<'_> {
    fn to_text(&self) -> String {
        let keys = plural(self.keys, "key", "keys");
        let mut text = format!("list {}: {keys}\n", self.prefix);
        if self.limits.is_empty() {
            return text;
        }
        let mut table = Table::new(&["STATES", "KEYS", "CLOCK"], 2);
        for limit in &self.limits {
            let clock = match limit.clock {
                TimeSource::Caller => "callers'",
                TimeSource::Server => "server's",
            };
            let keys = Grouped(limit.keys).to_string();
            table.row([limit.state.clone(), keys, clock.to_owned()]);
        }
        text += &format!("\n{table}");
        text
    }
}

const LISTS: &str = "\
All keys are scanned, in small steps, on every master of a cluster, and nothing is written. Keys of
other programs and other prefixes are left out. A key may count twice if the server resizes its table
of keys meanwhile.

Letters stand for numbers that a key does not show: N for an amount, WINDOW and LENGTH for times.

Exit status: 0 if they are listed, 2 if not.

Example:
  tollgate list --store redis://127.0.0.1:6379";
