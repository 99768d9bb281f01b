//! `Terms`: what a schedule allows: its name, quotas, horizon and tolerance.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{LimitError, Problem};
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

/// The most open times that all closed times leave within horizon and tolerance, and the most of them
/// times the quotas that count: where little is open, a search may look at each of them for every quota.
const MAX_OPEN: u64 = 16_384;
const MAX_OPEN_LOOKS: u64 = 50_000;

/// What an identity has in the place of a limit's algorithm.
pub const SHAPE: &str = "schedule";

const MAX_QUOTAS: usize = 32;
const DAY_US: u64 = 86_400_000_000;
/// Unless the quotas would allow too many events within it.
const DEFAULT_HORIZON_US: u64 = 366 * DAY_US;
const DEFAULT_TOLERANCE_US: u64 = 1_000_000;
/// An event's time and all that is added to it still fit into 2^53 microseconds.
pub(super) const LONGEST_US: u64 = MAX_EXACT / 8;

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
    /// The most that horizon and tolerance may be together.
    most_us: u64,
}

impl Terms {
    /// Returns the terms of a schedule called `name`, each quota a [`schedule::Quota`](Quota), a
    /// [`Quota`](crate::Quota) or its text.
    ///
    /// The tolerance is one second. The horizon is 366 days, or less if a key could otherwise hold
    /// more than [`MAX_EVENTS`] events: 69 days for one event a minute. Closed times shorten it
    /// if they could leave more than 16,384 times open within it, or 50,000 divided by the number of
    /// quotas that count. Where horizon and tolerance must be shorter than two seconds together, each is
    /// half of that.
    ///
    /// # Errors
    ///
    /// - [`Name`](crate::LimitErrorKind::Name) unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    /// - [`Count`](crate::LimitErrorKind::Count) when no quota counts events, [`Count`](crate::LimitErrorKind::Count) when
    ///   there are more than 32, including closed times.
    /// - [`NeverOpen`](crate::LimitErrorKind::NeverOpen) when the closed times leave no time open, at whatever instant.
    /// - [`Amount`](crate::LimitErrorKind::Amount) when nothing could be planned ahead, because even with a
    ///   horizon of a microsecond, a key could hold more than [`MAX_EVENTS`] events, or 200,000
    ///   divided by the number of quotas that count.
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
            return Err(LimitError(Problem::NoQuotas));
        }
        if quotas.len() > MAX_QUOTAS {
            return Err(LimitError(Problem::TooManyQuotas {
                count: quotas.len(),
                most: MAX_QUOTAS,
            }));
        }
        #[cfg(feature = "calendar")]
        if !super::closed::are_ever_open(quotas.iter().filter_map(Quota::closed_times)) {
            return Err(LimitError(Problem::NeverOpen));
        }
        let retention = quotas.iter().map(Quota::reach_us).max();
        let mut terms = Inner {
            identity: format!("{name}:{SHAPE}").into(),
            name: name.into(),
            quotas,
            horizon_us: 0,
            is_chosen: false,
            tolerance_us: 0,
            retention_us: retention.unwrap_or(0),
            most_us: 0,
        };
        terms.most_us = terms.longest();
        if terms.most_us == 0 {
            return Err(terms.too_many());
        }
        terms.tolerance_us = DEFAULT_TOLERANCE_US.min(terms.most_us / 2);
        terms.horizon_us = terms.default_horizon();
        Ok(Self(Arc::new(terms)))
    }

    /// Sets how far ahead of the present events may be planned.
    ///
    /// # Errors
    ///
    /// [`Duration`](crate::LimitErrorKind::Duration) when a key could hold more than [`MAX_EVENTS`] events, when closed
    /// times could leave too many times open within the horizon, or when
    /// the horizon exceeds 35 years.
    pub fn with_horizon(mut self, horizon: Duration) -> Result<Self, LimitError> {
        let most = self.longest_horizon_us();
        let terms = Arc::make_mut(&mut self.0);
        terms.horizon_us = within(horizon, most).ok_or_else(|| {
            LimitError(Problem::BadHorizon {
                horizon,
                most: Duration::from_micros(most),
            })
        })?;
        terms.is_chosen = true;
        Ok(self)
    }

    /// Sets how far in the past events may still be planned. The default is one second, because
    /// the clocks of callers and servers differ.
    ///
    /// # Errors
    ///
    /// [`Duration`](crate::LimitErrorKind::Duration) when a key could hold more than [`MAX_EVENTS`] events, unless a
    /// shorter horizon that was not chosen makes room, or when the tolerance exceeds 35 years.
    pub fn with_tolerance(mut self, tolerance: Duration) -> Result<Self, LimitError> {
        let terms = Arc::make_mut(&mut self.0);
        let horizon_us = if terms.is_chosen { terms.horizon_us } else { 1 };
        let most = LONGEST_US.min(terms.most_us - horizon_us);
        terms.tolerance_us = within(tolerance, most).ok_or_else(|| {
            LimitError(Problem::BadTolerance {
                tolerance,
                most: Duration::from_micros(most),
            })
        })?;
        if !terms.is_chosen {
            terms.horizon_us = terms.default_horizon();
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

    /// Returns the longest horizon that [`with_horizon`](Self::with_horizon) accepts with these quotas
    /// and this tolerance.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_core::{LimitError, schedule};
    ///
    /// let terms = schedule::Terms::new("reminders", ["1/1m"])?;
    /// let longest = terms.longest_horizon();
    /// assert_eq!(terms.with_horizon(longest)?.horizon(), longest);
    /// # Ok::<(), LimitError>(())
    /// ```
    #[must_use]
    pub fn longest_horizon(&self) -> Duration {
        Duration::from_micros(self.longest_horizon_us())
    }

    fn longest_horizon_us(&self) -> u64 {
        LONGEST_US.min(self.0.most_us - self.0.tolerance_us)
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

    /// Returns the quotas that a search looks at, each with its index: all that count, and the first
    /// closed times in the place of all of them.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (usize, &Quota)> {
        let quotas = self.quotas().iter().enumerate();
        let closed = self.quotas().iter().position(|quota| !quota.counts());
        quotas.filter(move |(index, quota)| quota.counts() || Some(*index) == closed)
    }

    #[cfg(feature = "calendar")]
    pub(crate) fn closed_times(&self) -> impl Iterator<Item = &super::ClosedTimes> {
        self.quotas().iter().filter_map(Quota::closed_times)
    }

    pub(crate) fn has_calendar(&self) -> bool {
        self.0
            .quotas
            .iter()
            .any(|quota| quota.window_us().is_none())
    }
}

impl Inner {
    /// Returns the most events that a key can hold if events are planned within `ahead_us`: horizon
    /// and tolerance together.
    fn most_events(&self, ahead_us: u64) -> u64 {
        let span = ahead_us + self.retention_us;
        let quotas = self.quotas.iter();
        let most = quotas.filter_map(|quota| quota.most_within(span));
        most.min().unwrap_or(0)
    }

    /// Returns how many of the quotas count events.
    fn counting(&self) -> u64 {
        number(self.quotas.iter().filter(|quota| quota.counts()).count())
    }

    /// Returns how many events a key may hold with this number of quotas.
    fn allowed_events(&self) -> u64 {
        (MAX_LOOKS / self.counting().max(1)).min(MAX_EVENTS)
    }

    /// Returns how long horizon and tolerance may be together, so that a key cannot hold too many
    /// events.
    fn longest(&self) -> u64 {
        let allowed = self.allowed_events();
        let count = self.counting();
        let closed = number(self.quotas.len()) - count;
        let allowed_open = (MAX_OPEN_LOOKS / count.max(1)).min(MAX_OPEN);
        largest(2 * LONGEST_US, |ahead_us| {
            // The first day and the last one are cut off.
            let open = closed * (ahead_us.div_ceil(DAY_US) + 2);
            self.most_events(ahead_us) <= allowed && open <= allowed_open
        })
    }

    /// Returns the horizon beside this tolerance, unless the caller chooses one.
    fn default_horizon(&self) -> u64 {
        DEFAULT_HORIZON_US.min(self.most_us - self.tolerance_us)
    }

    /// Returns the error of quotas that leave no horizon. It names the quota that needs the smallest
    /// change.
    fn too_many(&self) -> LimitError {
        let most = self.allowed_events();
        let span = 1 + self.retention_us;
        let quotas = self.quotas.iter().filter_map(|quota| {
            let amount = most / quota.windows_within(span)?;
            Some((quota, amount))
        });
        // The longest quota has four windows at most.
        let possible = quotas.filter(|(_, amount)| *amount > 0);
        let nearest = possible.min_by_key(|(quota, _)| quota.most_within(span));
        let (quota, amount) = nearest.map_or_else(Default::default, |(quota, amount)| {
            (quota.to_string(), amount)
        });
        LimitError(Problem::TooManyEvents {
            events: self.most_events(1),
            most,
            fewer_quotas: most < MAX_EVENTS,
            quota,
            amount,
        })
    }
}

/// Returns how many quotas these are.
fn number(quotas: usize) -> u64 {
    u64::try_from(quotas).unwrap_or(u64::MAX)
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

/// Returns whole microseconds, unless they exceed `most_us`.
fn within(duration: Duration, most_us: u64) -> Option<u64> {
    let micros = u64::try_from(duration.as_micros()).ok()?;
    (micros <= most_us).then_some(micros)
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
        let most = LimitError(Problem::BadHorizon {
            horizon: longest + MICRO,
            most: longest,
        });
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
    fn horizon_and_tolerance_share_what_is_too_short_for_both() {
        let terms = Terms::new("plans", ["1000/1us"]).unwrap();
        assert_eq!(terms.horizon(), 50 * MICRO);
        assert_eq!(terms.tolerance(), 49 * MICRO);
        let longest = terms.clone().with_tolerance(98 * MICRO).unwrap();
        assert_eq!(longest.horizon(), MICRO);
        let error = terms.with_tolerance(99 * MICRO).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a tolerance of 99µs is too long: choose at most 98µs, a shorter horizon, or smaller amounts"
        );
    }

    /// Nothing could be planned ahead, so there are no such terms; what the error proposes exists.
    #[test]
    fn quotas_that_leave_no_horizon_are_an_error_that_names_the_largest_amount() {
        let bulk = ["50000/1d", "500/1m", "10000/1h"];
        for (quotas, quota, amount) in [
            (&["60000/1d"][..], "60000/1d", 50_000),
            (&["50001/1d"], "50001/1d", 50_000),
            (&["100000/1h"], "100000/1h", 50_000),
            (&["mails=60000/1d", "500/1m"], "mails=60000/1d", 50_000),
            (&bulk, "50000/1d", 33_333),
            (&["5000/1h", "90000/1d"], "5000/1h", 4_000),
            // One event in a window would be too many.
            (&["1/6912s", "90000/12000d"], "90000/12000d", 50_000),
            // 3 * 10^20 events: what does not fit into a number is too much.
            (&["100000/1us", "90000/12000d"], "90000/12000d", 50_000),
        ] {
            let error = Terms::new("plans", quotas.iter().copied()).unwrap_err();
            let LimitError(Problem::TooManyEvents {
                quota: named,
                amount: most,
                ..
            }) = &error
            else {
                panic!("{error}");
            };
            assert_eq!((&**named, *most), (quota, amount));
            let smaller = |amount: u64| {
                let (_, window) = quota.split_once('/').unwrap();
                let with = |text: &&str| match *text == quota {
                    true => format!("{amount}/{window}"),
                    false => (*text).to_owned(),
                };
                Terms::new("plans", quotas.iter().map(with))
            };
            assert!(smaller(amount).unwrap().horizon() > Duration::ZERO);
            assert!(smaller(amount + 1).is_err());
        }
        assert_eq!(
            Terms::new("plans", bulk).unwrap_err().to_string(),
            "with these quotas, a key could hold 100000 events at a time, and at most 66666 are \
             possible: choose at most 33333 for 50000/1d, use fewer quotas, or divide the events among \
             several keys"
        );
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn largest_amount_of_a_calendar_is_named() {
        for (unit, amount) in [("day", 20_000), ("week", 25_000), ("month", 25_000)] {
            let error = Terms::new("plans", [format!("90000/{unit}@UTC")]).unwrap_err();
            let named = format!("choose at most {amount} for 90000/{unit}@UTC,");
            assert!(error.to_string().contains(&named), "{error}");
            assert!(Terms::new("plans", [format!("{amount}/{unit}@UTC")]).is_ok());
            assert!(Terms::new("plans", [format!("{}/{unit}@UTC", amount + 1)]).is_err());
        }
    }

    /// A search may look at every open time for every quota.
    #[cfg(feature = "calendar")]
    #[test]
    fn closed_times_shorten_the_horizon_once_they_leave_many_times_open() {
        for (quotas, rules, days) in [(1, 31, 366), (4, 28, 366), (8, 24, 257), (16, 16, 192)] {
            let closed = (0..rules).map(|rule| format!("closed 00:{rule:02}-00:{rule:02}:30@UTC"));
            let counting = (0..quotas).map(|quota| format!("1/{}h", 3 + quota));
            let terms = Terms::new("plans", counting.chain(closed)).unwrap();
            assert_eq!(terms.horizon().as_secs() / 86_400, days, "{quotas} {rules}");
        }
    }

    /// A bulk sender's quotas: the longer one allows a horizon of a day.
    #[test]
    fn fifty_thousand_a_day_can_be_planned_a_day_ahead() {
        let terms = Terms::new("plans", ["50000/1d", "500/1m"]).unwrap();
        assert_eq!(terms.horizon(), 86_399 * SECOND);
        let ahead_us = terms.horizon_us() + terms.tolerance_us();
        assert_eq!(terms.0.most_events(ahead_us), 100_000);
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
            let found = terms
                .0
                .most_events(terms.horizon_us() + terms.tolerance_us());
            assert!((most - 99..=most).contains(&found), "{found} with {count}");
        }
        assert!(quotas(7, 14_285).is_ok());
        assert!(quotas(7, 14_286).is_err());
    }

    #[test]
    fn terms_have_bounds() {
        assert!(Terms::new("plans", ["100000/1h", "50000/1d"]).is_ok());
        assert!(Terms::new("plans", ["100001/1h", "50000/1d"]).is_err());
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
