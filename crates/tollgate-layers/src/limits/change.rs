//! `Change`: what differs between two sets of limits, and what becomes of what was counted.

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

    /// Returns the limits that forget what was counted: those that have taken the place of a limit
    /// of the same name, with another algorithm or with another window of one that counts by windows.
    /// For one window, a key can have the amounts of both.
    pub fn starting_afresh(&self) -> impl Iterator<Item = &Limit> {
        let before = self.before().unwrap_or_default();
        let after = self.after().unwrap_or_default();
        after.iter().filter(|limit| {
            let mut same = before.iter().filter(|other| other.name() == limit.name());
            same.any(|other| other.identity() != limit.identity())
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
        let mut afresh = self.starting_afresh().peekable();
        if afresh.peek().is_some() {
            let names: Vec<_> = afresh.map(Limit::name).collect();
            write!(f, "; starts afresh: {}", names.join(", "))?;
        }
        Ok(())
    }
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
    let change = |name: &str| Change {
        name: name.into(),
        before: before.get(name).map(Into::into),
        after: after.get(name).map(Into::into),
    };
    names.into_iter().map(change).collect()
}
