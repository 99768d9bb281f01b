//! `tollgate list`: the limits that have states on a live server, and how many.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use tollgate_core::Limit;
use tollgate_wire::operate::{FoundState, Search};

use crate::failure::Failure;
use crate::limits::LimitOptions;
use crate::output::{Output, say};
use crate::store::{ServerOptions, TimeSource, wait_for};
use crate::text::{Table, grouped, plural};

#[derive(Args, Debug)]
#[command(after_help = LISTS)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    #[command(flatten)]
    pub(crate) limits: LimitOptions,
}

pub(super) fn run(options: &ListOptions, output: &Output) -> Result<(), Failure> {
    let server = options.server.server()?;
    let settings = options.server.settings(TimeSource::Server)?;
    let file = options.limits.file()?;
    let selected = options.limits.selected(file.as_ref())?;
    let file = file.map(|file| options.limits.in_zone_if_given(file.limits()));
    let file = file.transpose()?;
    let states = wait_for(async {
        let store = server.connect(settings).await?;
        let search = Search::new();
        let mut search = match &selected {
            Some(selected) => selected.narrow(search),
            None => search,
        };
        let mut listed: BTreeMap<_, Listed> = BTreeMap::new();
        while let Some(states) = store.find(&mut search).await? {
            for state in states {
                if selected.as_ref().is_none_or(|it| it.has(&state)) {
                    let clock = TimeSource::from(state.clock);
                    let id = (state.name.clone(), state.to_string(), clock);
                    let new = || Listed::new(&state, file.as_deref());
                    listed.entry(id).or_insert_with(new).keys += 1;
                }
            }
        }
        Ok(listed.into_values().collect::<Vec<_>>())
    })?;
    if states.is_empty() && selected.is_some() {
        return Err(Failure::LimitsNotHeld(options.limits.limits.join(", ")));
    }
    let answer = Answer {
        command: "list",
        prefix: &options.server.prefix,
        keys: states.iter().map(|listed| listed.keys).sum(),
        limits: states,
    };
    say(options.server.json, output, &answer, || answer.to_text())
}

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
    /// Which limits of the service's file read these states, if there is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    read_by: Option<Vec<Limit>>,
}

impl Listed {
    fn new(state: &FoundState, file: Option<&[Limit]>) -> Self {
        let reads = |limit: &&Limit| state.is_of(limit, state.clock);
        Self {
            name: state.name.clone(),
            state: state.to_string(),
            clock: state.clock.into(),
            keys: 0,
            read_by: file.map(|limits| limits.iter().filter(reads).cloned().collect()),
        }
    }

    /// Returns which limits of the file read these states, for people.
    fn readers(&self) -> Option<String> {
        let limits = self.read_by.as_ref()?;
        if limits.is_empty() {
            return Some("no limit of the file".to_owned());
        }
        let texts: Vec<_> = limits.iter().map(Limit::to_string).collect();
        Some(texts.join(" or "))
    }
}

impl Answer<'_> {
    fn to_text(&self) -> String {
        let keys = plural(self.keys, "key", "keys");
        let mut text = format!("list {}: {keys}\n", self.prefix);
        if self.limits.is_empty() {
            return text;
        }
        let has_file = self.limits.iter().any(|limit| limit.read_by.is_some());
        let header = ["STATES", "KEYS", "CLOCK", "READ BY"];
        let columns = if has_file { header.len() } else { 3 };
        let mut table = Table::new(&header[..columns], 2);
        for limit in &self.limits {
            let clock = match limit.clock {
                TimeSource::Caller => "callers'",
                TimeSource::Server => "server's",
            };
            let keys = grouped(limit.keys);
            let cells = [limit.state.clone(), keys, clock.to_owned()];
            table.row(cells.into_iter().chain(limit.readers()).collect::<Vec<_>>());
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
--limit takes a name, a limit, or a state as it is listed. With --limits, the list says which limits of
the file read the states.

Exit status: 0 if they are listed, 2 if not, also if the server holds none of those of --limit.

Example:
  tollgate list --store redis://127.0.0.1:6379";
