//! `Refused`: why an event was refused, and when it could take place.

use jiff::tz::TimeZone;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::schedule::{Reason, Refusal};

use crate::text::{Table, exact, named, rfc3339};

/// Why an event was refused, and when it could take place.
#[derive(Serialize)]
pub(super) struct Refused {
    reason: &'static str,
    quota: Option<String>,
    /// The earliest or latest possible time, or the time of the event with this id.
    bound: Option<String>,
    next_free: Option<String>,
    latest_free: Option<String>,
}

impl Refused {
    pub(super) fn new(refusal: &Refusal) -> Self {
        let (reason, bound) = match refusal.reason() {
            Reason::Quota(quota) if quota.closed_times().is_some() => ("closed", None),
            Reason::Quota(_) => ("quota", None),
            Reason::Past(earliest) => ("past", Some(*earliest)),
            Reason::BeyondHorizon(latest) => ("beyond-horizon", Some(*latest)),
            Reason::IdTaken(time) => ("id-taken", Some(*time)),
            Reason::UnknownId => ("unknown-id", None),
            _ => ("other", None),
        };
        Self {
            reason,
            quota: refusal.quota().map(ToString::to_string),
            bound: bound.map(rfc3339),
            next_free: refusal.next_free().map(rfc3339),
            latest_free: refusal.latest_free().map(rfc3339),
        }
    }
}

/// Returns the table of free times, if the time is what was refused.
pub(super) fn to_table(refusal: &Refusal, zone: &TimeZone) -> String {
    if matches!(refusal.reason(), Reason::IdTaken(_) | Reason::UnknownId) {
        return String::new();
    }
    let cell = |at: Option<Timestamp>| at.map_or_else(|| "none".to_owned(), |at| exact(at, zone));
    let header = ["QUOTA IN THE WAY", "NEXT FREE", "LATEST FREE BEFORE"];
    let mut table = Table::new(&header, 1);
    let quota = refusal
        .quota()
        .map_or_else(|| "-".to_owned(), ToString::to_string);
    table.row([
        quota,
        cell(refusal.next_free()),
        cell(refusal.latest_free()),
    ]);
    table.to_string()
}

/// Returns why an event was refused.
pub(super) fn reason(refusal: &Refusal, zone: &TimeZone) -> String {
    match refusal.reason() {
        Reason::Quota(quota) if refusal.is_too_heavy() => format!(
            "the quota {quota} never has room for it: give a --weight of at most {}",
            quota.amount()
        ),
        Reason::Quota(quota) => {
            let later = match refusal.next_free() {
                Some(_) => "",
                None => "; no later time up to the horizon is free",
            };
            match quota.closed_times() {
                Some(_) => format!("nothing can be planned then: {quota}{later}"),
                None => format!("the quota {quota} has no room{later}"),
            }
        }
        Reason::Past(earliest) => format!(
            "the time is past: the earliest possible is {}",
            named(*earliest, zone)
        ),
        Reason::BeyondHorizon(latest) => format!(
            "the time is beyond the horizon: the latest possible is {}",
            named(*latest, zone)
        ),
        Reason::IdTaken(time) => format!(
            "this id is planned at {} already; move it, or choose another id",
            named(*time, zone)
        ),
        Reason::UnknownId => "no event with this id is planned; add it instead".to_owned(),
        _ => refusal.to_string(),
    }
}
