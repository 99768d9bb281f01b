//! `Answer`: the advice for all windows, as JSON or tables.

use serde::Serialize;
use tollgate_core::Timestamp;

use super::advice::{Advice, Limit};
use crate::input::ReadAs;
use crate::text::{LONGEST_SHOWN, Table, grouped, plural, share, shortened, utc_second};

/// The advice for all windows, and what it is about.
#[derive(Serialize)]
pub(super) struct Answer {
    pub(super) requests: u64,
    pub(super) skipped_lines: u64,
    #[serde(flatten)]
    pub(super) read_as: ReadAs,
    pub(super) keys: u64,
    /// For at least one window.
    #[serde(rename = "windows")]
    pub(super) advice: Vec<Advice>,
    #[serde(skip)]
    pub(super) source: String,
    #[serde(skip)]
    pub(super) counted_by: String,
    #[serde(skip)]
    pub(super) span: (Timestamp, Timestamp),
}

/// How many characters of a path a row shows.
const LONGEST_PATH: usize = 40;

impl Answer {
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "{} of {} ({}), {} to {} UTC\n{}",
            plural(self.requests, "request", "requests"),
            plural(self.keys, "key", "keys"),
            self.counted_by,
            utc_second(self.span.0),
            utc_second(self.span.1),
            self.read_as,
        );
        for advice in &self.advice {
            push_window(&mut text, advice);
        }
        text
    }
}

fn push_window(text: &mut String, advice: &Advice) {
    let line = |name: String, limit: &Limit| {
        let denied = limit.denied;
        [
            limit.quota.clone(),
            name,
            grouped(denied.keys),
            share(denied.keys, advice.keys),
            grouped(denied.requests),
            share(denied.requests, advice.requests),
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
        let share = format!("at least {} %", proposal.share);
        table.row(line(share, &proposal.limit));
    }
    *text += &format!("\nProposed: {}.\n\n{table}", advice.proposal());
    if advice.most_denied.is_empty() {
        return;
    }
    let title = format!("MOST DENIED AT {}", advice.proposed.quota);
    let numbers = [&*title, "DENIED", "OF", "SHARE", "MOST IN A WINDOW"];
    let heading = [&numbers[..], &["MOSTLY ASKS FOR", "AS USER AGENT"]].concat();
    let mut table = Table::new(&heading, numbers.len());
    for key in &advice.most_denied {
        let or_unknown = |text: &str, most| match text {
            "" => "-".to_owned(),
            text => shortened(text, most),
        };
        table.row([
            shortened(&key.key, LONGEST_SHOWN),
            grouped(key.denied),
            grouped(key.requests),
            share(key.denied, key.requests),
            grouped(key.most),
            or_unknown(&key.caller.path, LONGEST_PATH),
            or_unknown(&key.caller.agent, LONGEST_SHOWN),
        ]);
    }
    *text += &format!("\n{table}");
    let shown = u64::try_from(advice.most_denied.len()).unwrap_or(u64::MAX);
    let all = advice.proposed.denied.keys;
    if all > shown {
        let more = grouped(all - shown);
        *text += &format!("(and {more} more; --top shows as many as you like)\n");
    }
}
