//! `Summary`: the counted decisions of a replay, as JSON or tables.

use serde::Serialize;
use tollgate_core::store::Verdicts;
use tollgate_core::{Algorithm, Timestamp};

use crate::input::ReadAs;
use crate::text::{
    LONGEST_SHOWN, Table, grouped, listed, noun, plural, share, shortened, utc_second,
};
use crate::trace::{Event, Trace};

pub(crate) struct Tally {
    denied: u64,
    /// For each limit, how many requests it denied.
    by_limit: Vec<u64>,
    /// By key index.
    keys: Vec<KeyCount>,
}

#[derive(Clone, Copy, Default)]
struct KeyCount {
    requests: u64,
    denied: u64,
}

impl Tally {
    pub(crate) fn new(trace: &Trace, limits: usize) -> Self {
        Self {
            denied: 0,
            by_limit: vec![0; limits],
            keys: vec![KeyCount::default(); trace.keys().len()],
        }
    }

    #[inline]
    pub(crate) fn count(&mut self, event: &Event, decision: &Verdicts) {
        let key = &mut self.keys[event.key.index()];
        key.requests += 1;
        if decision.is_allowed() {
            return;
        }
        key.denied += 1;
        self.denied += 1;
        for (denied, verdict) in self.by_limit.iter_mut().zip(decision.as_slice()) {
            *denied += u64::from(!verdict.is_allowed());
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) requests: u64,
    pub(crate) skipped_lines: u64,
    #[serde(flatten)]
    pub(crate) read_as: ReadAs,
    pub(crate) keys: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) limits: Vec<LimitCount>,
    pub(crate) top_denied: Vec<DeniedKey>,
    #[serde(skip)]
    pub(crate) denied_keys: u64,
    #[serde(skip)]
    pub(crate) span: (Timestamp, Timestamp),
}

/// How many requests a limit denied, whatever the other limits said.
#[derive(Debug, Serialize)]
pub(crate) struct LimitCount {
    pub(crate) limit: String,
    pub(crate) denied: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeniedKey {
    pub(crate) key: String,
    pub(crate) denied: u64,
    #[serde(skip)]
    pub(crate) requests: u64,
}

impl Summary {
    /// Summarizes the tally of `trace`, for which every line was read, with the `top` most denied keys, which
    /// `name` formats.
    pub(crate) fn new(
        tally: Tally,
        trace: &Trace,
        algorithms: &[Algorithm],
        top: usize,
        name: impl Fn(&[u8]) -> String,
    ) -> Self {
        let limits = algorithms.iter().zip(tally.by_limit);
        let limits = limits.map(|(algorithm, denied)| LimitCount {
            limit: algorithm.to_string(),
            denied,
        });
        let keys = (0..).zip(tally.keys);
        let denied = keys.filter(|(_, count)| count.denied > 0);
        let mut top_denied: Vec<_> = denied
            .map(|(index, count)| DeniedKey {
                key: name(trace.keys().bytes(index)),
                denied: count.denied,
                requests: count.requests,
            })
            .collect();
        let denied_keys = u64::try_from(top_denied.len()).unwrap_or(u64::MAX);
        top_denied.sort_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.key.cmp(&b.key)));
        top_denied.truncate(top);
        Self {
            requests: trace.requests(),
            skipped_lines: 0,
            read_as: ReadAs::default(),
            keys: u64::try_from(trace.keys().len()).unwrap_or(u64::MAX),
            allowed: trace.requests() - tally.denied,
            denied: tally.denied,
            limits: limits.collect(),
            top_denied,
            denied_keys,
            span: trace.span(),
        }
    }

    /// Returns one sentence: which limits denied how many requests, and of which keys.
    pub(crate) fn conclusion(&self) -> String {
        let requests = plural(self.requests, "request", "requests");
        let keys = plural(self.keys, "key", "keys");
        if self.denied == 0 {
            let limits = listed(self.limits.iter().map(|limit| limit.limit.clone()));
            return format!("No request was denied: {limits} admitted all {requests} of {keys}.");
        }
        let mut denying: Vec<_> = self.limits.iter().filter(|it| it.denied > 0).collect();
        denying.sort_by_key(|limit| std::cmp::Reverse(limit.denied));
        let one_of_several = self.limits.len() > 1;
        let denying = listed(denying.into_iter().map(|limit| match one_of_several {
            true => format!("{} ({})", limit.limit, grouped(limit.denied)),
            false => limit.limit.clone(),
        }));
        let most = self.top_denied.first().map_or_else(String::new, |key| {
            let name = shortened(&key.key, LONGEST_SHOWN);
            let (denied, of) = (grouped(key.denied), grouped(key.requests));
            format!(", most often those of {name} ({denied} of {of})")
        });
        format!(
            "{} of {requests} ({}), of {} of {keys}, {} denied by {denying}{most}.",
            grouped(self.denied),
            share(self.denied, self.requests),
            grouped(self.denied_keys),
            noun(self.denied, "was", "were"),
        )
    }

    pub(crate) fn to_text(&self, key: &str) -> String {
        let mut text = format!(
            "{} of {} ({key}), {} to {} UTC\n{}\n",
            plural(self.requests, "request", "requests"),
            plural(self.keys, "key", "keys"),
            utc_second(self.span.0),
            utc_second(self.span.1),
            self.read_as,
        );
        let line = |name: &str, part| {
            let share = share(part, self.requests);
            [name.to_owned(), grouped(part), share]
        };
        let mut table = Table::new(&["DECISION", "REQUESTS", "SHARE"], 3);
        table.row(line("allowed", self.allowed));
        table.row(line("denied", self.denied));
        text += &format!("{table}\n");
        let mut table = Table::new(&["LIMIT", "DENIED", "SHARE"], 3);
        for limit in &self.limits {
            table.row(line(&limit.limit, limit.denied));
        }
        text += &table.to_string();
        if self.limits.len() > 1 {
            text += "(a request that several limits denied counts for each of them)\n";
        }
        if !self.top_denied.is_empty() {
            let mut table = Table::new(&["MOST DENIED", "DENIED", "OF", "SHARE"], 4);
            for key in &self.top_denied {
                table.row([
                    shortened(&key.key, LONGEST_SHOWN),
                    grouped(key.denied),
                    grouped(key.requests),
                    share(key.denied, key.requests),
                ]);
            }
            text += &format!("\n{table}");
            let shown = u64::try_from(self.top_denied.len()).unwrap_or(u64::MAX);
            if self.denied_keys > shown {
                let more = grouped(self.denied_keys - shown);
                text += &format!("(and {more} more; --top shows as many as you like)\n");
            }
        }
        text
    }
}
