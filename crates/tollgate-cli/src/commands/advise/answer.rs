//! `Answer`: the advice for all windows, as JSON or tables.

use serde::Serialize;
use tollgate_core::Timestamp;

use super::advice::{Advice, Denied};
use crate::input::ReadAs;
use crate::text::{Grouped, LONGEST_SHOWN, Share, Table, json, plural, shortened, utc_second};

/// The advice for all windows, and what it is about.
pub(super) struct Answer<N> {
    pub(super) source: String,
    pub(super) counted_by: String,
    pub(super) span: (Timestamp, Timestamp),
    pub(super) skipped_lines: u64,
    pub(super) read_as: ReadAs,
    /// For at least one window.
    pub(super) advice: Vec<Advice>,
    /// Formats the key with an index.
    pub(super) name: N,
}

#[derive(Serialize)]
struct Whole<'a> {
    requests: u64,
    skipped_lines: u64,
    #[serde(flatten)]
    read_as: &'a ReadAs,
    keys: u64,
    windows: Vec<Window<'a>>,
}

#[derive(Serialize)]
struct Window<'a> {
    window: String,
    proposed: Limit,
    nobody_denied: Limit,
    proposals: Vec<Proposal>,
    most_denied: Vec<Key>,
    curve: &'a [Denied],
}

#[derive(Serialize)]
struct Proposal {
    /// In percent.
    keys_never_denied: String,
    #[serde(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
struct Limit {
    quota: String,
    #[serde(flatten)]
    denied: Denied,
}

#[derive(Serialize)]
struct Key {
    key: String,
    most_in_a_window: u64,
    requests: u64,
    denied_requests: u64,
    /// Of most requests of the key; empty if the log does not have it.
    user_agent: String,
    path: String,
}

/// How many characters of a path a row shows.
const LONGEST_PATH: usize = 40;

/// Formats thousandths as percent: `99.9`, or `50`.
pub(super) fn percent(thousandths: usize) -> String {
    match thousandths % 10 {
        0 => (thousandths / 10).to_string(),
        tenths => format!("{}.{tenths}", thousandths / 10),
    }
}

impl<N: Fn(usize) -> String> Answer<N> {
    pub(super) fn keys(&self) -> u64 {
        self.advice.first().map_or(0, |advice| advice.keys)
    }

    pub(super) fn requests(&self) -> u64 {
        self.advice.first().map_or(0, |advice| advice.requests)
    }

    /// Returns a JSON object on one line.
    pub(super) fn to_json(&self) -> String {
        let windows = self.advice.iter().map(|advice| self.window(advice));
        let whole = Whole {
            requests: self.requests(),
            skipped_lines: self.skipped_lines,
            read_as: &self.read_as,
            keys: self.keys(),
            windows: windows.collect(),
        };
        json(&whole)
    }

    fn window<'a>(&self, advice: &'a Advice) -> Window<'a> {
        let limit = |denied: Denied| Limit {
            quota: advice.quota(denied.amount),
            denied,
        };
        let proposals = advice.proposals.iter().map(|proposal| Proposal {
            keys_never_denied: percent(proposal.share),
            limit: limit(proposal.denied),
        });
        let keys = advice.most_denied.iter().map(|denied| Key {
            key: (self.name)(denied.key),
            most_in_a_window: denied.most,
            requests: denied.requests,
            denied_requests: denied.denied,
            user_agent: denied.caller.agent.clone(),
            path: denied.caller.path.clone(),
        });
        Window {
            window: advice.window(),
            proposed: limit(advice.proposed),
            nobody_denied: limit(advice.nobody),
            proposals: proposals.collect(),
            most_denied: keys.collect(),
            curve: &advice.curve,
        }
    }

    /// Returns the tables.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "{} of {} ({}), {} to {} UTC\n{}",
            plural(self.requests(), "request", "requests"),
            plural(self.keys(), "key", "keys"),
            self.counted_by,
            utc_second(self.span.0),
            utc_second(self.span.1),
            self.read_as,
        );
        for advice in &self.advice {
            self.push_window(&mut text, advice);
        }
        text
    }

    fn push_window(&self, text: &mut String, advice: &Advice) {
        let line = |name: String, denied: Denied| {
            [
                advice.quota(denied.amount),
                name,
                Grouped(denied.keys).to_string(),
                Share(denied.keys, advice.keys).to_string(),
                Grouped(denied.requests).to_string(),
                Share(denied.requests, advice.requests).to_string(),
            ]
        };
        let heading = [
            "QUOTA",
            "KEYS NEVER DENIED",
            "KEYS DENIED",
            "SHARE",
            "REQUESTS DENIED",
            "SHARE",
        ];
        let mut table = Table::new(&heading, heading.len());
        for proposal in &advice.proposals {
            let share = format!("at least {} %", percent(proposal.share));
            table.row(line(share, proposal.denied));
        }
        *text += &format!("\nProposed: {}.\n\n{table}", advice.proposal());
        if advice.most_denied.is_empty() {
            return;
        }
        let title = format!("MOST DENIED AT {}", advice.quota(advice.proposed.amount));
        let numbers = [&*title, "DENIED", "OF", "SHARE", "MOST IN A WINDOW"];
        let heading = [&numbers[..], &["MOSTLY ASKS FOR", "AS USER AGENT"]].concat();
        let mut table = Table::new(&heading, numbers.len());
        for key in &advice.most_denied {
            let or_unknown = |text: &str, most| match text {
                "" => "-".to_owned(),
                text => shortened(text, most),
            };
            table.row([
                shortened(&(self.name)(key.key), LONGEST_SHOWN),
                Grouped(key.denied).to_string(),
                Grouped(key.requests).to_string(),
                Share(key.denied, key.requests).to_string(),
                Grouped(key.most).to_string(),
                or_unknown(&key.caller.path, LONGEST_PATH),
                or_unknown(&key.caller.agent, LONGEST_SHOWN),
            ]);
        }
        *text += &format!("\n{table}");
        let shown = u64::try_from(advice.most_denied.len()).unwrap_or(u64::MAX);
        if advice.proposed.keys > shown {
            let more = Grouped(advice.proposed.keys - shown);
            *text += &format!("(and {more} more; --top shows as many as you like)\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_a_decimal_only_if_needed() {
        assert_eq!(percent(999), "99.9");
        assert_eq!(percent(1_000), "100");
        assert_eq!(percent(500), "50");
    }
}
