//! `Change`: what differs between two sets of limits, and what becomes of what was counted.

use std::collections::BTreeSet;
use std::fmt;

use tollgate_core::Limit;

use super::LimitSet;

/// An entry of a [`LimitSet`] that has changed.
///
/// `Display` writes a line for a log, which says which limits start afresh.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    name: Box<str>,
    before: Option<Box<[Limit]>>,
    after: Option<Box<[Limit]>>,
    afresh: Box<[Limit]>,
}

impl Change {
    /// Returns the entry's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the limits before, or `None` if there was no such entry.
    #[must_use]
    pub fn before(&self) -> Option<&[Limit]> {
        self.before.as_deref()
    }

    /// Returns the limits now, or `None` if there is no such entry.
    #[must_use]
    pub fn after(&self) -> Option<&[Limit]> {
        self.after.as_deref()
    }

    /// Returns the limits now that have no states of a limit before, if the entry had any: those with
    /// another name or algorithm, or with another window of one that counts by windows. For one window,
    /// a key can have the amounts of both. If such a limit was in force earlier, some of its states may
    /// still be there.
    pub fn starting_afresh(&self) -> impl Iterator<Item = &Limit> {
        self.afresh.iter()
    }

    /// Returns the limits now that keep what was counted, but no longer than the limit before would
    /// have: those with a longer window.
    pub fn forgetting_early(&self) -> impl Iterator<Item = &Limit> {
        let before = self.before().unwrap_or_default();
        let window = |limit: &Limit| limit.algorithm().quota().window_us();
        self.after()
            .unwrap_or_default()
            .iter()
            .filter(move |limit| {
                let mut same = before
                    .iter()
                    .filter(|other| other.identity() == limit.identity());
                same.any(|other| window(other) < window(limit))
            })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.after() {
            None => return write!(f, "{name}: has no limits any more"),
            Some([]) => return write!(f, "{name}: off"),
            Some(limits) => write!(f, "{name}: {}", list(limits))?,
        }
        match self.before() {
            None => f.write_str(", new")?,
            Some([]) => f.write_str(", was off")?,
            Some(limits) => write!(f, ", was {}", list(limits))?,
        }
        write_names(f, "starts afresh", self.starting_afresh())?;
        let early = "keeps what was counted for the window before only";
        write_names(f, early, self.forgetting_early())
    }
}

fn write_names<'l>(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    limits: impl Iterator<Item = &'l Limit>,
) -> fmt::Result {
    let names: Vec<_> = limits.map(Limit::name).collect();
    if names.is_empty() {
        return Ok(());
    }
    write!(f, "; {what}: {}", names.join(", "))
}

fn list(limits: &[Limit]) -> String {
    let texts: Vec<_> = limits.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// Returns what differs between two sets, by name.
pub(super) fn changes(before: &LimitSet, after: &LimitSet) -> Vec<Change> {
    let gone = before.names().filter(|name| after.get(name).is_none());
    let changed = after
        .names()
        .filter(|name| before.get(name) != after.get(name));
    let mut names: Vec<_> = gone.chain(changed).collect();
    names.sort_unstable();
    let known = before.entries.values().flatten();
    let known: BTreeSet<&str> = known.map(Limit::identity).collect();
    let change = |name: &str| {
        let (was, is) = (before.get(name), after.get(name));
        let had_any = was.is_some_and(|limits| !limits.is_empty());
        let new = is.unwrap_or_default().iter();
        let new = new.filter(|limit| had_any && !known.contains(limit.identity()));
        Change {
            name: name.into(),
            afresh: new.cloned().collect(),
            before: was.map(Into::into),
            after: is.map(Into::into),
        }
    };
    names.into_iter().map(change).collect()
}
