//! `Answer`: the advice for all windows, as JSON or tables.

use serde::Serialize;
use tollgate_core::Timestamp;

use super::advice::{Advice, Refused};
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
    nobody_refused: Limit,
    proposals: Vec<Proposal>,
    knee: Limit,
    most_refused: Vec<Key>,
    curve: &'a [Refused],
}

#[derive(Serialize)]
struct Proposal {
    /// In percent.
    keys_never_refused: String,
    #[serde(flatten)]
    limit: Limit,
}

#[derive(Serialize)]
struct Limit {
    quota: String,
    #[serde(flatten)]
    refused: Refused,
}

#[derive(Serialize)]
struct Key {
    key: String,
    most_in_a_window: u64,
    requests: u64,
    refused_requests: u64,
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
        let limit = |refused: Refused| Limit {
            quota: advice.quota(refused.amount),
            refused,
        };
        let proposals = advice.proposals.iter().map(|proposal| Proposal {
            keys_never_refused: percent(proposal.share),
            limit: limit(proposal.refused),
        });
        let keys = advice.most_refused.iter().map(|refused| Key {
            key: (self.name)(refused.key),
            most_in_a_window: refused.most,
            requests: refused.requests,
            refused_requests: refused.refused,
            user_agent: refused.caller.agent.clone(),
            path: refused.caller.path.clone(),
        });
        Window {
            window: advice.window(),
            proposed: limit(advice.proposed),
            nobody_refused: limit(advice.nobody),
            proposals: proposals.collect(),
            knee: limit(advice.knee),
            most_refused: keys.collect(),
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
        let line = |name: String, refused: Refused| {
            [
                advice.quota(refused.amount),
                name,
                Grouped(refused.keys).to_string(),
                Share(refused.keys, advice.keys).to_string(),
                Grouped(refused.requests).to_string(),
                Share(refused.requests, advice.requests).to_string(),
            ]
        };
        let heading = [
            "QUOTA",
            "KEYS NEVER REFUSED",
            "KEYS REFUSED",
            "SHARE",
            "REQUESTS REFUSED",
            "SHARE",
        ];
        let mut table = Table::new(&heading, heading.len());
        for proposal in &advice.proposals {
            let share = format!("at least {} %", percent(proposal.share));
            table.row(line(share, proposal.refused));
        }
        *text += &format!("\nProposed: {}.\n\n{table}", advice.proposal());
        if advice.knee.requests > 0 {
            *text += &format!("({}.)\n", advice.bend());
        }
        if advice.most_refused.is_empty() {
            return;
        }
        let title = format!("MOST REFUSED AT {}", advice.quota(advice.proposed.amount));
        let numbers = [&*title, "REFUSED", "OF", "SHARE", "MOST IN A WINDOW"];
        let heading = [&numbers[..], &["MOSTLY ASKS FOR", "AS USER AGENT"]].concat();
        let mut table = Table::new(&heading, numbers.len());
        for key in &advice.most_refused {
            let or_unknown = |text: &str, most| match text {
                "" => "-".to_owned(),
                text => shortened(text, most),
            };
            table.row([
                shortened(&(self.name)(key.key), LONGEST_SHOWN),
                Grouped(key.refused).to_string(),
                Grouped(key.requests).to_string(),
                Share(key.refused, key.requests).to_string(),
                Grouped(key.most).to_string(),
                or_unknown(&key.caller.path, LONGEST_PATH),
                or_unknown(&key.caller.agent, LONGEST_SHOWN),
            ]);
        }
        *text += &format!("\n{table}");
        let shown = u64::try_from(advice.most_refused.len()).unwrap_or(u64::MAX);
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
