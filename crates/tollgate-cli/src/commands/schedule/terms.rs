//! Builds `schedule::Terms` from the options of the command line.

use std::time::Duration;

use jiff::tz::TimeZone;
use tollgate_core::{LimitError, schedule};

use super::options::{QuotaOptions, SubjectOptions};
use crate::failure::Failure;
use crate::text::Span;
use crate::time;

/// The zone of a quota that is the recipient's.
const LOCAL: &str = "local";

/// A quota under which no event is ever so long past that it is left out of a list.
const ANY: &str = "1/13000d";

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

    /// Returns the time zone of the times in the answer: the one that is given, or else that of all
    /// quotas that have one, or else UTC.
    pub(super) fn zone(&self) -> Result<TimeZone, Failure> {
        let of_quotas = self.quotas.iter().filter_map(|text| text.split_once('@'));
        let of_quotas = of_quotas.map(|(_, zone)| zone);
        let mut names: Vec<_> = of_quotas.filter(|name| *name != LOCAL).collect();
        names.dedup();
        let of_quotas = if let [name] = *names {
            Some(name)
        } else {
            None
        };
        let name = self.time_zone.as_deref().or(of_quotas);
        name.map_or(Ok(TimeZone::UTC), time::zone)
    }

    /// Returns the zone that calls bring, which must be given if a quota of `terms` needs it.
    pub(super) fn zone_of_calls(&self, terms: &schedule::Terms) -> Result<TimeZone, Failure> {
        if terms.needs_zone() && self.time_zone.is_none() {
            return Err(Failure::NoZone {
                more: String::new(),
            });
        }
        self.zone()
    }

    fn is_empty(&self) -> bool {
        let Self {
            quotas,
            per_day,
            per_week,
            per_month,
            time_zone: _,
        } = self;
        quotas.is_empty() && [per_day, per_week, per_month].iter().all(|n| n.is_none())
    }
}

fn quota(text: &str) -> Result<schedule::Quota, Failure> {
    text.parse().map_err(|source| Failure::Quota {
        quota: text.to_owned(),
        source,
    })
}

impl SubjectOptions {
    /// Returns the terms of the service's schedule.
    pub(super) fn terms(&self) -> Result<schedule::Terms, Failure> {
        self.terms_with(self.quotas.quotas()?)
    }

    /// Returns terms for a list, which needs no quotas.
    pub(super) fn terms_for_list(&self) -> Result<schedule::Terms, Failure> {
        if self.quotas.is_empty() {
            self.terms_with(vec![quota(ANY)?])
        } else {
            self.terms()
        }
    }

    fn terms_with(&self, quotas: Vec<schedule::Quota>) -> Result<schedule::Terms, Failure> {
        let mut terms =
            schedule::Terms::new(&self.schedule, quotas).map_err(|source| match source {
                LimitError::BadName { .. } => Failure::ScheduleName {
                    name: self.schedule.clone(),
                },
                source => Failure::Limits(source),
            })?;
        // The tolerance comes first: without a horizon, the longest depends on it.
        if let Some(text) = &self.tolerance {
            let tolerance = time::length("--tolerance", text)?;
            terms = terms
                .with_tolerance(tolerance)
                .map_err(|_| Failure::TooFarBack {
                    tolerance: text.clone(),
                })?;
        }
        if let Some(text) = &self.horizon {
            let horizon = time::length("--horizon", text)?;
            terms = terms.with_horizon(horizon).map_err(|source| match source {
                LimitError::BadHorizon { most, .. } => Failure::TooFarAhead {
                    horizon: text.clone(),
                    most: Span(most).to_string(),
                },
                source => Failure::Limits(source),
            })?;
        }
        Ok(terms)
    }
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
    let mut wanted = horizon;
    loop {
        match terms.clone().with_horizon(wanted) {
            Ok(terms) => return Ok((terms, wanted < horizon)),
            Err(LimitError::BadHorizon { most, .. }) if most < wanted => wanted = most,
            Err(source) => return Err(Failure::Limits(source)),
        }
    }
}
