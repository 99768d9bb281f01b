//! `Tally`: counts of the outcomes of calls.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tollgate_core::store::Verdicts;
use tollgate_core::{ErrorKind, StoreError};

use super::{Client, DEADLINE, SLACK};

/// The outcomes of all calls of one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    keys: BTreeMap<String, Counts>,
    /// The number of calls that ended with each kind of error.
    errors: BTreeMap<String, u64>,
    longest: Duration,
    /// One error of each kind, for failure messages.
    samples: BTreeMap<String, String>,
}

/// The outcomes of the calls for one key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The number of calls that failed but may have been counted.
    pub(crate) unknown: u64,
}

impl Tally {
    pub(super) fn record(
        &mut self,
        key: &str,
        outcome: &Result<Verdicts, StoreError>,
        took: Duration,
    ) {
        self.longest = self.longest.max(took);
        let counts = match self.keys.get_mut(key) {
            Some(counts) => counts,
            None => self.keys.entry(key.to_owned()).or_default(),
        };
        match outcome {
            Ok(decision) if decision.is_allowed() => counts.allowed += 1,
            Ok(_) => counts.denied += 1,
            Err(error) => {
                let kind = error.kind();
                // An invalid reply may have been the reply to a call that was counted.
                let is_open = matches!(kind, ErrorKind::Unknown | ErrorKind::Protocol);
                counts.unknown += u64::from(is_open);
                let kind = format!("{kind:?}");
                self.samples
                    .entry(kind.clone())
                    .or_insert_with(|| format!("{error} / {:?}", std::error::Error::source(error)));
                *self.errors.entry(kind).or_default() += 1;
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (key, counts) in other.keys {
            let own = self.keys.entry(key).or_default();
            own.allowed += counts.allowed;
            own.denied += counts.denied;
            own.unknown += counts.unknown;
        }
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        for (kind, sample) in other.samples {
            self.samples.entry(kind).or_insert(sample);
        }
        self.longest = self.longest.max(other.longest);
    }

    pub(crate) fn of(&self, key: &str) -> Counts {
        self.keys.get(key).copied().unwrap_or_default()
    }

    pub(crate) fn allowed(&self) -> u64 {
        self.keys.values().map(|counts| counts.allowed).sum()
    }

    pub(crate) fn denied(&self) -> u64 {
        self.keys.values().map(|counts| counts.denied).sum()
    }

    /// Returns the number of calls that failed but may have been counted.
    pub(crate) fn unknown(&self) -> u64 {
        self.keys.values().map(|counts| counts.unknown).sum()
    }

    pub(crate) fn answered(&self) -> u64 {
        self.allowed() + self.denied()
    }

    pub(crate) fn errors(&self, kind: ErrorKind) -> u64 {
        let count = self.errors.get(&format!("{kind:?}"));
        count.copied().unwrap_or_default()
    }

    /// Checks that so many calls at least may or may not have been counted.
    #[track_caller]
    pub(crate) fn leaves_open(&self, least: u64) {
        assert!(self.errors(ErrorKind::Unknown) >= least, "{self}");
    }

    /// Checks that every call ended within its deadline, and that only these errors occurred.
    #[track_caller]
    pub(crate) fn fails_only_with(&self, kinds: &[ErrorKind]) {
        let most = DEADLINE + SLACK;
        assert!(self.longest < most, "a call took {:?}", self.longest);
        let known: u64 = kinds.iter().map(|&kind| self.errors(kind)).sum();
        let all: u64 = self.errors.values().sum();
        assert_eq!(known, all, "{self}: {:#?}", self.samples);
    }

    /// Checks that the server counted all allowed calls, and at most the unknown ones in addition.
    #[track_caller]
    pub(crate) fn accounts_for(&self, counted: u64) {
        let (least, most) = (self.allowed(), self.allowed() + self.unknown());
        assert!(
            (least..=most).contains(&counted),
            "{counted} were counted, where {least} to {most} may have been: {self}"
        );
    }
}

impl Tally {
    /// Prints a row of the table: how many calls the server has `counted`, how many were `admitted` in
    /// total, including those that then used up the rest, of how many at most, and the time from the end
    /// of the fault to the first answer.
    #[expect(clippy::print_stdout, reason = "the table is for whoever runs this")]
    pub(crate) fn print(
        &self,
        fault: &str,
        client: &dyn Client,
        [counted, admitted, bound]: [u64; 3],
        resumed: Option<Duration>,
    ) {
        let (client, allowed) = (client.name(), self.allowed());
        let longest = self.longest.as_millis();
        let resumed = match resumed {
            Some(resumed) => format!("{} ms", resumed.as_millis()),
            None => "-".to_owned(),
        };
        println!(
            "| {fault} | {client} | {self} | {allowed} / {counted} | {admitted} / {bound} | {longest} ms | {resumed} |"
        );
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self
            .errors
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let errors = match errors.as_slice() {
            [] => "none".to_owned(),
            errors => errors.join(", "),
        };
        write!(f, "{} | {errors}", self.answered())
    }
}
