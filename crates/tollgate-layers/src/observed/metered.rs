//! `Metered`: the metrics of a store, registered once for each limit.

use std::array;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use tollgate_core::ErrorKind;
use tollgate_core::store::Source;

use super::Outcome;

/// How many limits have handles of their own; those of others are looked up for each call.
const LIMITS: usize = 32;

/// The kinds of errors that a store has while it is down or slow.
pub(crate) const KINDS: [ErrorKind; 2] = [ErrorKind::Unavailable, ErrorKind::Unknown];
const SOURCES: [&str; 5] = ["store", "cache", "prefetched", "fallback", "layer"];
const OUTCOMES: [&str; 5] = [
    "allowed",
    "denied",
    "denied_by_other",
    "shadow_denied",
    "abandoned",
];

#[derive(Default)]
pub(super) struct Metered {
    limits: [OnceLock<OfLimit>; LIMITS],
    durations: [OnceLock<Histogram>; SOURCES.len()],
    in_flight: OnceLock<Gauge>,
    is_described: OnceLock<()>,
}

/// The counters of one limit, which are there from its first call on: a rate needs the zero before the
/// first denial.
struct OfLimit {
    name: Box<str>,
    /// By outcome and source.
    decisions: [[Counter; SOURCES.len()]; OUTCOMES.len()],
    /// By outcome.
    units: [Counter; OUTCOMES.len()],
}

impl OfLimit {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            decisions: array::from_fn(|outcome| array::from_fn(|of| decisions(name, outcome, of))),
            units: array::from_fn(|outcome| units(name, outcome)),
        }
    }
}

fn decisions(limit: &str, outcome: usize, source: usize) -> Counter {
    let (outcome, source) = (OUTCOMES[outcome], SOURCES[source]);
    let limit = limit.to_owned();
    counter!("tollgate_decisions_total", "limit" => limit, "outcome" => outcome, "source" => source)
}

fn units(limit: &str, outcome: usize) -> Counter {
    let limit = limit.to_owned();
    counter!("tollgate_units_total", "limit" => limit, "outcome" => OUTCOMES[outcome])
}

/// A call that has not ended.
pub(super) struct InFlight<'m>(&'m Gauge);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Metered {
    /// Counts a decision for the limit called `name`.
    pub(super) fn decided(&self, name: &str, outcome: Outcome, source: Source, counted: u64) {
        let outcome = match outcome {
            Outcome::Allowed => 0,
            Outcome::Denied => 1,
            Outcome::DeniedByOther => 2,
            Outcome::ShadowDenied => 3,
            Outcome::Abandoned => 4,
        };
        let source = index(source);
        for slot in &self.limits {
            let of_limit = slot.get_or_init(|| {
                self.describe();
                OfLimit::new(name)
            });
            if *of_limit.name == *name {
                of_limit.decisions[outcome][source].increment(1);
                of_limit.units[outcome].increment(counted);
                return;
            }
        }
        decisions(name, outcome, source).increment(1);
        units(name, outcome).increment(counted);
    }

    pub(super) fn failed(&self, kind: ErrorKind) {
        self.describe();
        errors(kind).increment(1);
    }

    pub(super) fn took(&self, source: Source, took: Duration) {
        let source = index(source);
        let durations = self.durations[source].get_or_init(|| {
            self.describe();
            histogram!("tollgate_decision_duration_seconds", "source" => SOURCES[source])
        });
        durations.record(took);
    }

    pub(super) fn in_flight(&self) -> InFlight<'_> {
        let gauge = self.in_flight.get_or_init(|| {
            self.describe();
            gauge!("tollgate_calls_in_flight")
        });
        gauge.increment(1.0);
        InFlight(gauge)
    }

    /// Describes the metrics, once.
    fn describe(&self) {
        self.is_described.get_or_init(|| {
            describe_counter!(
                "tollgate_decisions_total",
                "Calls that consume, for each of their limits"
            );
            describe_counter!(
                "tollgate_units_total",
                "Costs of calls: what was consumed, or what was denied"
            );
            describe_histogram!(
                "tollgate_decision_duration_seconds",
                Unit::Seconds,
                "How long callers waited for a decision"
            );
            describe_gauge!(
                "tollgate_calls_in_flight",
                "Calls that wait for a decision now"
            );
            describe_counter!("tollgate_store_errors_total", "Calls that were not decided");
            for kind in KINDS {
                errors(kind).increment(0);
            }
        });
    }
}

fn errors(kind: ErrorKind) -> Counter {
    counter!("tollgate_store_errors_total", "kind" => label(kind))
}

pub(crate) fn label(kind: ErrorKind) -> String {
    kind.to_string().replace(' ', "_")
}

fn index(source: Source) -> usize {
    match source {
        Source::Cache => 1,
        Source::Prefetched => 2,
        Source::Fallback => 3,
        Source::Layer => 4,
        _ => 0,
    }
}
