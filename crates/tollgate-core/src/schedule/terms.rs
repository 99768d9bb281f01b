//! `Terms`: what a schedule allows: its name, quotas, horizon and tolerance.

use std::sync::Arc;
use std::time::Duration;

use crate::error::LimitError;
use crate::limit::check_name;
use crate::schedule::quota::Quota;
use crate::time::MAX_EXACT;

/// The most events that a key of a schedule can hold, with up to two quotas.
///
/// The quotas and the horizon bound that; terms that would allow more are an error. With more than
/// two quotas, the events times the quotas are at most 200,000: a search looks at every event for
/// every quota if all of them are in the way, and a server does nothing else meanwhile: some 50 ms
/// for the costliest call.
pub const MAX_EVENTS: u64 = 100_000;

/// The most events times quotas.
const MAX_LOOKS: u64 = 200_000;

/// What an identity has in the place of a limit's algorithm.
pub const SHAPE: &str = "schedule";

const MAX_QUOTAS: usize = 32;
const DAY_US: u64 = 86_400_000_000;
/// Unless the quotas would allow too many events within it.
const DEFAULT_HORIZON_US: u64 = 366 * DAY_US;
const DEFAULT_TOLERANCE_US: u64 = 1_000_000;
/// An event's time and all that is added to it still fit into 2^53 microseconds.
const LONGEST_US: u64 = MAX_EXACT / 8;

/// What a [`Schedule`](crate::schedule::Schedule) allows: its name, quotas, horizon and tolerance.
///
/// Cloning is cheap.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Terms(Arc<Inner>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Inner {
    name: Box<str>,
    identity: Box<str>,
    quotas: Box<[Quota]>,
    horizon_us: u64,
    /// Whether the caller chose the horizon.
    is_chosen: bool,
    tolerance_us: u64,
    /// For how long an event is kept after it can no longer be added.
    retention_us: u64,
}

impl Terms {
    /// Returns the terms of a schedule called `name`, each quota a [`schedule::Quota`](Quota), a
    /// [`Quota`](crate::Quota) or its text.
    ///
    /// The tolerance is one second. The horizon is 366 days, or less if a key could otherwise hold
    /// more than [`MAX_EVENTS`] events: 69 days for one event a minute.
    ///
    /// # Errors
    ///
    /// - [`LimitError::BadName`] unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    /// - [`LimitError::NoQuotas`] when no quota counts events, [`LimitError::TooManyQuotas`] when
    ///   there are more than 32, including closed times.
    /// - [`LimitError::NeverOpen`] when the closed times leave no time open, at whatever instant.
    /// - [`LimitError::TooManyEvents`] when even without a horizon, a key could hold more than
    ///   [`MAX_EVENTS`] events, or 200,000 divided by the number of quotas that count.
    /// - The error of a quota that is not valid.
    pub fn new<Q>(name: &str, quotas: impl IntoIterator<Item = Q>) -> Result<Self, LimitError>
    where
        Q: TryInto<Quota>,
        LimitError: From<Q::Error>,
    {
        check_name(name)?;
        let quotas: Result<Box<[Quota]>, _> = quotas.into_iter().map(TryInto::try_into).collect();
        let quotas = quotas?;
        if !quotas.iter().any(Quota::counts) {
            return Err(LimitError::NoQuotas);
        }
        if quotas.len() > MAX_QUOTAS {
            return Err(LimitError::TooManyQuotas {
                count: quotas.len(),
                most: MAX_QUOTAS,
            });
        }
        #[cfg(feature = "calendar")]
        if !super::closed::are_ever_open(quotas.iter().filter_map(Quota::closed_times)) {
            return Err(LimitError::NeverOpen);
        }
        let retention = quotas.iter().map(Quota::reach_us).max();
        let mut terms = Inner {
            identity: format!("{name}:{SHAPE}").into(),
            name: name.into(),
            quotas,
            horizon_us: 0,
            is_chosen: false,
            tolerance_us: DEFAULT_TOLERANCE_US,
            retention_us: retention.unwrap_or(0),
        };
        terms.horizon_us = terms.longest_horizon(DEFAULT_HORIZON_US);
        // Shorter only where even without a horizon, a key could hold too many events.
        terms.tolerance_us = terms.longest_tolerance(terms.tolerance_us);
        if terms.has_too_many() {
            return Err(LimitError::TooManyEvents {
                events: terms.most_events(),
                most: terms.allowed_events(),
            });
        }
        Ok(Self(Arc::new(terms)))
    }

    /// Sets how far ahead of the present events may be planned.
    ///
    /// # Errors
    ///
    /// [`LimitError::BadHorizon`] when a key could hold more than [`MAX_EVENTS`] events, or when
    /// the horizon exceeds 35 years.
    pub fn with_horizon(mut self, horizon: Duration) -> Result<Self, LimitError> {
        let terms = Arc::make_mut(&mut self.0);
        terms.is_chosen = true;
        terms.horizon_us = within(horizon).ok_or(LimitError::BadHorizon {
            horizon,
            most: Duration::from_micros(LONGEST_US),
        })?;
        if terms.has_too_many() {
            let most = terms.longest_horizon(terms.horizon_us);
            return Err(LimitError::BadHorizon {
                horizon,
                most: Duration::from_micros(most),
            });
        }
        Ok(self)
    }

    /// Sets how far in the past events may still be planned. The default is one second, because
    /// the clocks of callers and servers differ.
    ///
    /// # Errors
    ///
    /// [`LimitError::BadTolerance`] when a key could hold more than [`MAX_EVENTS`] events, or when
    /// the tolerance exceeds 35 years.
    pub fn with_tolerance(mut self, tolerance: Duration) -> Result<Self, LimitError> {
        let terms = Arc::make_mut(&mut self.0);
        terms.tolerance_us = within(tolerance).ok_or(LimitError::BadTolerance {
            tolerance,
            most: Duration::from_micros(LONGEST_US),
        })?;
        if !terms.is_chosen {
            terms.horizon_us = terms.longest_horizon(DEFAULT_HORIZON_US);
        }
        if terms.has_too_many() {
            let most = terms.longest_tolerance(terms.tolerance_us);
            return Err(LimitError::BadTolerance {
                tolerance,
                most: Duration::from_micros(most),
            });
        }
        Ok(self)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the string that identifies this schedule's events. Schedules with the same identity
    /// share their events, whatever their quotas.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Returns the quotas, in the order in which they were given.
    #[must_use]
    pub fn quotas(&self) -> &[Quota] {
        &self.0.quotas
    }

    /// Returns how far ahead of the present events may be planned.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        Duration::from_micros(self.0.horizon_us)
    }

    /// Returns how far in the past events may still be planned.
    #[must_use]
    pub fn tolerance(&self) -> Duration {
        Duration::from_micros(self.0.tolerance_us)
    }

    pub(crate) fn horizon_us(&self) -> u64 {
        self.0.horizon_us
    }

    pub(crate) fn tolerance_us(&self) -> u64 {
        self.0.tolerance_us
    }

    pub(crate) fn retention_us(&self) -> u64 {
        self.0.retention_us
    }

    /// Returns whether calls that look for room need a time zone: whether a quota is `@local`.
    #[must_use]
    pub fn needs_zone(&self) -> bool {
        self.0.quotas.iter().any(Quota::needs_zone)
    }

    pub(crate) fn has_calendar(&self) -> bool {
        self.0
            .quotas
            .iter()
            .any(|quota| quota.window_us().is_none())
    }
}

impl Inner {
    /// Returns the most events that a key can hold: from the earliest that is kept to the horizon.
    fn most_events(&self) -> u64 {
        let span = self.horizon_us + self.tolerance_us + self.retention_us;
        let quotas = self.quotas.iter();
        let most = quotas.filter_map(|quota| quota.most_within(span));
        most.min().unwrap_or(0)
    }

    /// Returns how many events a key may hold with so many quotas.
    fn allowed_events(&self) -> u64 {
        let count = self.quotas.iter().filter(|quota| quota.counts()).count();
        (MAX_LOOKS / count.max(1) as u64).min(MAX_EVENTS)
    }

    fn has_too_many(&self) -> bool {
        self.most_events() > self.allowed_events()
    }

    /// Returns the longest horizon up to `most_us` within which a key cannot hold too many events.
    fn longest_horizon(&self, most_us: u64) -> u64 {
        largest(most_us, |horizon_us| {
            let terms = Self {
                horizon_us,
                ..self.clone()
            };
            !terms.has_too_many()
        })
    }

    /// Returns the longest tolerance up to `most_us` with which a key cannot hold too many events.
    fn longest_tolerance(&self, most_us: u64) -> u64 {
        largest(most_us, |tolerance_us| {
            let terms = Self {
                tolerance_us,
                ..self.clone()
            };
            !terms.has_too_many()
        })
    }
}

/// Returns the largest number up to `most` that `fits`, or zero; every smaller one fits, too.
fn largest(most: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Returns whole microseconds, unless they exceed [`LONGEST_US`].
fn within(duration: Duration) -> Option<u64> {
    let micros = u64::try_from(duration.as_micros()).ok()?;
    (micros <= LONGEST_US).then_some(micros)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn horizon_is_as_long_as_a_hundred_thousand_events_allow() {
        // With a tolerance of a second and a window of a minute, 100,000 minutes.
        let longest = 5_999_939 * SECOND;
        let terms = Terms::new("plans", ["1/1m"]).unwrap();
        assert_eq!((terms.horizon(), terms.tolerance()), (longest, SECOND));
        let terms = terms.with_horizon(longest).unwrap();
        let error = terms.clone().with_horizon(longest + MICRO).unwrap_err();
        let most = LimitError::BadHorizon {
            horizon: longest + MICRO,
            most: longest,
        };
        assert_eq!(error, most);
        // A horizon that was chosen stays, and one that was not makes room for the tolerance.
        assert!(terms.with_tolerance(2 * SECOND).is_err());
        let terms = Terms::new("plans", ["1/1m"]).unwrap();
        let terms = terms.with_tolerance(10 * SECOND).unwrap();
        assert_eq!(terms.horizon(), longest - 9 * SECOND);
        // The tightest quota counts, and nothing is planned beyond a year unless that is chosen.
        let terms = Terms::new("plans", ["1000/1s", "1/3h"]).unwrap();
        assert_eq!(terms.horizon(), 366 * 86_400 * SECOND);
    }

    #[test]
    fn tolerance_is_shorter_where_even_that_holds_too_many_events() {
        let terms = Terms::new("plans", ["1000/1us"]).unwrap();
        assert_eq!(terms.horizon(), Duration::ZERO);
        assert_eq!(terms.tolerance(), 99 * MICRO);
    }

    /// A bulk sender's quotas: the longer one allows a horizon of a day.
    #[test]
    fn fifty_thousand_a_day_can_be_planned_a_day_ahead() {
        let terms = Terms::new("plans", ["50000/1d", "500/1m"]).unwrap();
        assert_eq!(terms.horizon(), 86_399 * SECOND);
        assert_eq!(terms.0.most_events(), 100_000);
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn periods_cut_off_at_both_ends_count() {
        for (quota, hours) in [
            // 98 days of 22 hours and the two at the ends hold 100,000 events; kept for 50 hours.
            ("1000/day@UTC", 98 * 22 - 50),
            // 9 weeks of 142 hours and two hold 99,000; kept for 194 hours.
            ("9000/week@UTC", 9 * 142 - 194),
            // 2 months of 646 hours and two hold 100,000; kept for 770 hours.
            ("25000/month@UTC", 2 * 646 - 770),
        ] {
            let terms = Terms::new("plans", [quota]).unwrap();
            assert_eq!(terms.horizon(), (hours * 3_600 - 1) * SECOND, "{quota}");
        }
    }

    /// Every event is looked at for every quota.
    #[test]
    fn more_quotas_allow_fewer_events() {
        let quotas = |count: u64, amount: u64| {
            let hours = (1..=count).map(move |quota| format!("{amount}/{}s", 3_600 + quota));
            Terms::new("plans", hours)
        };
        for (count, most) in [(1, 100_000), (2, 100_000), (4, 50_000), (32, 6_250)] {
            let terms = quotas(count, 100).unwrap();
            let found = terms.0.most_events();
            assert!((most - 99..=most).contains(&found), "{found} with {count}");
        }
        let error = quotas(7, 30_000).unwrap_err();
        let expected = LimitError::TooManyEvents {
            events: 30_000,
            most: 28_571,
        };
        assert_eq!(error, expected);
        assert_eq!(
            error.to_string(),
            "these quotas allow 30000 events of a key at a time, and at most 28571 are possible: choose \
             smaller amounts or fewer quotas, or divide the events among several keys"
        );
        assert!(quotas(6, 30_000).is_ok());
    }

    #[test]
    fn terms_have_bounds() {
        assert!(Terms::new("plans", ["100000/1h"]).is_ok());
        assert!(Terms::new("plans", ["100001/1h"]).is_err());
        let quotas = |count: u64| (1..=count).map(|hours| format!("1/{hours}h"));
        assert!(Terms::new("plans", quotas(32)).is_ok());
        assert!(Terms::new("plans", quotas(33)).is_err());
        assert!(Terms::new("plans", [""; 0]).is_err());
        let window = |micros: u64| Terms::new("plans", [format!("1/{micros}us")]);
        assert!(window(LONGEST_US + 1).is_err());
        let terms = window(LONGEST_US).unwrap();
        let longest = Duration::from_micros(LONGEST_US);
        let terms = terms.with_horizon(longest).unwrap();
        assert!(terms.clone().with_horizon(longest + MICRO).is_err());
        assert!(terms.clone().with_tolerance(longest).is_ok());
        assert!(terms.with_tolerance(longest + MICRO).is_err());
    }
}
