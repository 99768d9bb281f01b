//! `Answer`: what `tollgate top` says, as JSON or as text.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::store::Verdict;
use tollgate_core::{Limit, Timestamp};
use tollgate_wire::operate::FoundState;

use crate::limits::Sharing;
use crate::store::TimeSource;
use crate::text::{Table, bullets, grouped, instant, local, plural, printable};
use crate::verdict::LimitVerdict;

#[derive(Default, Serialize)]
pub(super) struct Answer<'a> {
    command: &'static str,
    prefix: &'a str,
    #[serde(serialize_with = "instant")]
    pub(super) time: Timestamp,
    limits: Vec<&'a Limit>,
    /// Those of them that read the same states as others, and these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shared: Vec<&'a [Limit]>,
    /// How many keys were looked at, for all limits.
    keys: u64,
    /// Whether there may be more keys.
    pub(super) sampled: bool,
    /// How many are denied, whichever limit is theirs.
    denied: u64,
    /// How many are denied by some of the limits that may be theirs.
    perhaps_denied: u64,
    /// How many hold more than any of the limits admits.
    beyond: u64,
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
    /// Whether another limit that may be the key's allows what this one denies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    perhaps: bool,
}

impl<'a> Answer<'a> {
    pub(super) fn new(prefix: &'a str, limits: &'a [Sharing]) -> Self {
        let asked = limits.iter().flat_map(|it| &it.limits[..it.asked]);
        let shared = limits.iter().map(|it| &*it.limits);
        Self {
            command: "top",
            prefix,
            limits: asked.collect(),
            shared: shared.filter(|limits| limits.len() > 1).collect(),
            ..Self::default()
        }
    }

    /// Returns how many keys may still be looked at, of `sample`.
    pub(super) fn room(&self, sample: Option<u64>) -> usize {
        let left = sample.map_or(u64::MAX, |sample| sample.saturating_sub(self.keys));
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Adds what each limit of `sharing` says of a state that holds `consumed` units.
    pub(super) fn add(
        &mut self,
        sharing: &Sharing,
        state: &FoundState,
        consumed: Option<u64>,
        verdicts: Option<Vec<Verdict>>,
    ) {
        self.keys += 1;
        let Some(verdicts) = verdicts else {
            self.unreadable += 1;
            return;
        };
        // No limit admits more than its capacity, so a state that holds more is that of another one.
        let holds = |verdict: &Verdict| consumed.is_none_or(|units| units <= verdict.capacity());
        let is_beyond = !verdicts.iter().any(holds);
        let may_be = |verdict: &Verdict| is_beyond || holds(verdict);
        let pairs = || sharing.limits.iter().zip(&verdicts);
        let own: Vec<_> = pairs().filter(|(_, it)| may_be(it)).collect();
        // A limit in shadow denies nobody.
        let denies = |(limit, it): &(&Limit, &Verdict)| !it.is_allowed() && !limit.is_shadow();
        let denied = own.iter().filter(|pair| denies(pair)).count();
        let is_certain = denied == own.len() && !is_beyond;
        self.beyond += u64::from(is_beyond);
        self.denied += u64::from(denied > 0 && is_certain);
        self.perhaps_denied += u64::from(denied > 0 && !is_certain);
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        let asked = pairs().take(sharing.asked).filter(|(_, it)| may_be(it));
        for (limit, verdict) in asked {
            self.top.push(Row {
                key: text(&state.partition),
                rest: text(&state.rest),
                verdict: LimitVerdict::new(limit, verdict),
                perhaps: !is_certain && denies(&(limit, verdict)),
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
        let perhaps = match self.perhaps_denied {
            0 => String::new(),
            keys => format!(", {} perhaps", grouped(keys)),
        };
        let mut text = format!(
            "top {} at {}: {looked}, {} denied{perhaps}\n",
            self.prefix,
            local(self.time, zone),
            grouped(self.denied)
        );
        if !self.top.is_empty() {
            let [limit, others @ ..] = LimitVerdict::HEADER;
            let mut header = vec!["KEY"];
            header.extend(others);
            header.extend([limit, "REST"]);
            let mut table = Table::new(&header, 6);
            for row in &self.top {
                let [limit, mut others @ ..] = row.verdict.cells();
                if row.perhaps {
                    others[0] = "perhaps denied".to_owned();
                }
                let mut cells = vec![row.key.clone()];
                cells.extend(others);
                cells.extend([limit, row.rest.clone()]);
                table.row(cells);
            }
            text += &format!("\n{table}");
        }
        let is_escaped = |part: &String| printable(part.as_bytes()) != *part;
        if self
            .top
            .iter()
            .any(|row| is_escaped(&row.key) || is_escaped(&row.rest))
        {
            text += "\nSome keys have characters that a table cannot show: --json has them as they are.\n";
        }
        for limits in &self.shared {
            let limits: Vec<_> = limits.iter().map(Limit::to_string).collect();
            text += &format!(
                "\nThese limits read the same states: {}.\nA state does not tell which of them is its key's, \
                 unless it holds more than one of them admits: a key is perhaps denied if only some that may be \
                 its limit deny it.\n",
                limits.join(", ")
            );
        }
        if self.beyond > 0 {
            text += &format!(
                "\n{} more than these limits admit: another limit reads the same states, such as that of \
                 another plan. Give all of them with --limit, or the service's file with --limits.\n",
                plural(self.beyond, "key holds", "keys hold")
            );
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
    /// Compares the shares that are left, then how long calls are denied; what is denied for certain
    /// comes first.
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
        let is_certain = |row: &Self| !row.verdict.allowed && !row.perhaps;
        is_certain(other)
            .cmp(&is_certain(self))
            .then_with(|| share(own, its).cmp(&share(its, own)))
            .then_with(|| wait(its).cmp(&wait(own)))
            .then_with(|| its.reset_after.cmp(&own.reset_after))
            .then_with(|| self.id().cmp(&other.id()))
    }

    fn id(&self) -> (&str, &str, String) {
        (&self.key, &self.rest, self.verdict.limit.to_string())
    }
}
