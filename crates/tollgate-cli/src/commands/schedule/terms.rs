//! Builds `schedule::Terms` from the options of the command line.

use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_core::{LimitError, LimitErrorKind, schedule};

use super::options::QuotaOptions;
use crate::failure::Failure;
use crate::time;

impl QuotaOptions {
    /// Returns the quotas, in the order of the help text.
    pub(super) fn quotas(&self) -> Result<Vec<schedule::Quota>, Failure> {
        let mut texts = self.quotas.clone();
        let calendar = [
            (self.per_day, "day"),
            (self.per_week, "week"),
            (self.per_month, "month"),
        ];
        if let Some(zone) = &self.time_zone {
            time::zone(zone)?;
            let amounts = calendar.iter().filter_map(|(n, unit)| Some(((*n)?, unit)));
            texts.extend(amounts.map(|(amount, unit)| format!("{amount}/{unit}@{zone}")));
        }
        if texts.is_empty() {
            return Err(Failure::NoQuota);
        }
        texts.iter().map(|text| quota(text)).collect()
    }

    /// Returns the time zone of the times in the answer.
    pub(super) fn zone(&self) -> Result<TimeZone, Failure> {
        let name = self.time_zone.as_deref();
        name.map_or(Ok(TimeZone::UTC), time::zone)
    }
}

fn quota(text: &str) -> Result<schedule::Quota, Failure> {
    text.parse()
        .map_err(|error: LimitError| Failure::wrong("--quota", text, error))
}

/// Returns a quota under which no event is ever so long past that it is left out of a list.
pub(super) fn any() -> Result<schedule::Quota, Failure> {
    quota("1/13000d")
}

/// Returns the terms of the service's schedule `name`.
pub(super) fn of_service(
    name: &str,
    quotas: Vec<schedule::Quota>,
    tolerance: Option<&str>,
) -> Result<schedule::Terms, Failure> {
    let terms = schedule::Terms::new(name, quotas).map_err(|source| match source.kind() {
        LimitErrorKind::Name => {
            let reason =
                "give the name of the service's schedule: 1 to 64 ASCII letters, digits, -, _ or .";
            Failure::wrong("--schedule", name, reason)
        }
        _ => Failure::Limits(source),
    })?;
    let Some(text) = tolerance else {
        return Ok(terms);
    };
    let tolerance = time::length("--tolerance", text)?;
    let terms = terms.with_tolerance(tolerance);
    terms.map_err(|_| {
        let reason = "with these quotas, a key could hold too many events; give a shorter one, or add a quota with a longer window";
        Failure::wrong("--tolerance", text, reason)
    })
}

/// Returns terms of a plan with this horizon, or the longest that the quotas allow, and whether
/// that is shorter.
pub(super) fn reaching(
    quotas: Vec<schedule::Quota>,
    horizon: Duration,
) -> Result<(schedule::Terms, bool), Failure> {
    let terms =
        schedule::Terms::new("plan", quotas).and_then(|terms| terms.with_tolerance(Duration::ZERO));
    let terms = terms.map_err(Failure::Limits)?;
    let longest = terms.longest_horizon();
    let reaching = terms.with_horizon(horizon.min(longest));
    Ok((reaching.map_err(Failure::Limits)?, longest < horizon))
}
