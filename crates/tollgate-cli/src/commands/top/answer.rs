//! `Answer`: what `tollgate top` says, as JSON or as text.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};
use tollgate_core::store::Verdict;
use tollgate_core::{Limit, Timestamp};
use tollgate_wire::FoundState;

use crate::store::TimeSource;
use crate::text::{Grouped, LONGEST_SHOWN, Table, bullets, local, plural, rfc3339, shortened};
use crate::verdict::LimitVerdict;

/// The answer of `top`.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    command: &'static str,
    prefix: &'a str,
    #[serde(serialize_with = "time")]
    pub(super) time: Timestamp,
    limits: &'a [Limit],
    /// How many keys were looked at, for all limits.
    keys: u64,
    /// Whether there may be more keys.
    pub(super) sampled: bool,
    denied: u64,
    /// How many keys hold something that no limit has written.
    unreadable: u64,
    top: Vec<Row>,
    /// States under the names of the limits that these do not read.
    other_states: BTreeSet<String>,
}

/// One key, and what a limit says of it.
#[derive(Serialize)]
pub(super) struct Row {
    key: String,
    rest: String,
    #[serde(flatten)]
    verdict: LimitVerdict,
    #[serde(skip)]
    index: usize,
}

impl<'a> Answer<'a> {
    pub(super) fn new(prefix: &'a str, limits: &'a [Limit]) -> Self {
        Self {
            command: "top",
            prefix,
            time: Timestamp::default(),
            limits,
            keys: 0,
            sampled: false,
            denied: 0,
            unreadable: 0,
            top: Vec::new(),
            other_states: BTreeSet::new(),
        }
    }

    /// Returns how many keys may still be looked at, of `sample`.
    pub(super) fn room(&self, sample: Option<u64>) -> usize {
        let left = sample.map_or(u64::MAX, |sample| sample.saturating_sub(self.keys));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Adds what `limit`, which has this `index`, says of states that it reads.
    pub(super) fn add<'s>(
        &mut self,
        index: usize,
        limit: &Limit,
        verdicts: impl Iterator<Item = (&'s FoundState, Option<Verdict>)>,
    ) {
        for (state, verdict) in verdicts {
            self.keys += 1;
            let Some(verdict) = verdict else {
                self.unreadable += 1;
                continue;
            };
            // A limit in shadow denies nobody.
            self.denied += u64::from(!verdict.is_allowed() && !limit.is_shadow());
            let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            self.top.push(Row {
                key: text(&state.partition),
                rest: text(&state.rest),
                verdict: LimitVerdict::new(limit, &verdict),
                index,
            });
        }
    }

    /// Adds states that no limit reads.
    pub(super) fn add_others<'s>(
        &mut self,
        states: impl Iterator<Item = &'s FoundState>,
        asked: TimeSource,
    ) {
        for state in states {
            let clock = TimeSource::from(state.clock).beside(asked);
            self.other_states.insert(format!("{state}{clock}"));
        }
    }

    /// Keeps the first `most` rows, those nearest to their limits first.
    pub(super) fn keep(&mut self, most: usize) {
        self.top.sort_by(Row::order);
        // A scan may return a key twice.
        self.top.dedup_by(|one, other| one.id() == other.id());
        self.top.truncate(most);
    }

    pub(super) fn to_text(&self, zone: &TimeZone) -> String {
        let keys = plural(self.keys, "key", "keys");
        let looked = if self.sampled {
            format!("a sample of {keys}")
        } else {
            keys
        };
        let mut text = format!(
            "top {} at {}: {looked}, {} denied\n",
            self.prefix,
            local(self.time, zone),
            Grouped(self.denied)
        );
        if !self.top.is_empty() {
            let [limit, others @ ..] = LimitVerdict::HEADER;
            let mut header = vec!["KEY"];
            header.extend(others);
            header.extend([limit, "REST"]);
            let mut table = Table::new(&header, 6);
            for row in &self.top {
                let shown = |part: &str| shortened(part, LONGEST_SHOWN);
                let [limit, others @ ..] = row.verdict.cells();
                let mut cells = vec![shown(&row.key)];
                cells.extend(others);
                cells.extend([limit, shown(&row.rest)]);
                table.row(cells);
            }
            text += &format!("\n{table}");
        }
        if self.unreadable > 0 {
            text += &format!(
                "\n({} no state of these limits: written by another program)\n",
                plural(self.unreadable, "key holds", "keys hold")
            );
        }
        if !self.other_states.is_empty() {
            text += "\nUnder these names the server holds other states, which these limits do not read:\n";
            text += &bullets(&self.other_states);
        }
        text
    }
}

impl Row {
    /// Compares the shares that are left, then how long calls are denied.
    fn order(&self, other: &Self) -> Ordering {
        let share = |one: &LimitVerdict, other: &LimitVerdict| {
            u128::from(one.remaining) * u128::from(other.capacity.max(1))
        };
        let (own, its) = (&self.verdict, &other.verdict);
        let wait = |verdict: &LimitVerdict| match (verdict.allowed, verdict.retry_after) {
            (true, _) => None,
            // Longest if it never ends.
            (false, wait) => Some((wait.is_none(), wait)),
        };
        share(own, its)
            .cmp(&share(its, own))
            .then_with(|| wait(its).cmp(&wait(own)))
            .then_with(|| its.reset_after.cmp(&own.reset_after))
            .then_with(|| self.id().cmp(&other.id()))
    }

    fn id(&self) -> (&str, &str, usize) {
        (&self.key, &self.rest, self.index)
    }
}

/// Serializes an instant as RFC 3339 in UTC.
fn time<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    rfc3339(*at).serialize(to)
}
