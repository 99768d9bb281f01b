//! `CalendarWindow`: counts calls per day, week, month or year of a time zone.

use super::{Brought, Machine, Outcome, Remembered, Status};
use crate::bytes::{Reader, Writer};
use crate::calendar::{Bounds, Calendar};
use crate::cover::Period;
use crate::cycle::{CalendarCycle, CalendarUnit};
use crate::error::{LimitError, LimitErrorKind, Problem};
use crate::quota::Quota;
use crate::time::{MAX_EXACT, Timestamp, Wait};

/// Counts calls per day, week, month or year of a time zone.
///
/// Each period admits at most `N` units, so a span around a boundary can admit `2N`. A period begins
/// at midnight by the clocks of the zone, or when a [`CalendarCycle`] says: where clocks change, a day has
/// 23 or 25 hours. If midnight comes twice, the first one counts; if clocks skip it, the end of the gap.
///
/// The zone's name is one of the database of time zones, which is the system's, or else a copy in the
/// program; it is read when the first limit of a zone is made. The store's clock decides which period
/// a call is in. If it is a server's, that knows no zones: the caller sends the periods around its own
/// clock. As long as the two clocks differ by less than half a period, a decision takes one round
/// trip; otherwise it takes two.
///
/// The zone `local` is [that of each call](crate::RateLimiter::in_zone), and so is the
/// [day](crate::RateLimiter::on_day) of [`with_local_day`](Self::with_local_day).
///
/// # Examples
///
/// ```
/// use tollgate_core::store::{Check, Request, State};
/// use tollgate_core::{Algorithm, CalendarUnit, CalendarWindow, Limit, Timestamp};
///
/// let monthly = CalendarWindow::new(10_000, CalendarUnit::Month, "Europe/Berlin")?;
/// assert_eq!(Algorithm::from(monthly), "fixed-window:10000/month@Europe/Berlin".parse()?);
///
/// let limit = Limit::new("bill", monthly)?;
/// let mut state = State::default();
/// // The last hour of 1970 in Berlin, which is an hour ahead of UTC.
/// let now = Timestamp::from_micros((365 * 24 - 2) * 3_600_000_000)?;
/// let decision = Request::consume(Check::new(&limit, "alice", 4_000)).decide_on(&mut state, now);
/// assert_eq!(decision.remaining(), 6_000);
/// assert_eq!(decision.reset_after().as_secs_ceil(), Some(60 * 60));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CalendarWindow {
    quota: Quota,
    calendar: &'static Calendar,
    /// The quota's amount, or nothing before a call has brought the zone and the day.
    capacity: u64,
}

/// The last period in which a call was counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct State {
    /// When it began, by the database of time zones at the time of the call.
    pub(crate) start: u64,
    /// How long it is, likewise.
    pub(crate) length: u64,
    /// What was counted and not given back.
    pub(crate) kept: u64,
}

impl Remembered for State {}

impl CalendarWindow {
    /// Returns `amount` units per `cycle` of the time zone called `zone`, such as `Europe/Berlin`, or
    /// `local` for the zone [of each call](crate::RateLimiter::in_zone). The cycle may be a
    /// [`CalendarUnit`].
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when `amount` exceeds 2^53 - 1; [`Name`](crate::LimitErrorKind::Name) when
    /// the database of time zones has no such name.
    pub fn new(
        amount: u64,
        cycle: impl Into<CalendarCycle>,
        zone: &str,
    ) -> Result<Self, LimitError> {
        let cycle = cycle.into();
        let calendar = Calendar::of(cycle, zone).ok_or_else(|| {
            LimitError(Problem::UnknownZone {
                zone: zone.to_owned(),
            })
        })?;
        let quota = Quota::new(amount, cycle.unit().length())?;
        Ok(Self::of(quota, calendar))
    }

    /// Returns the same window, whose months begin on the day [of each call](crate::RateLimiter::on_day):
    /// as text, it has the option `day=local`.
    ///
    /// # Errors
    ///
    /// [`Day`](crate::LimitErrorKind::Day) unless the unit is a month.
    pub fn with_local_day(self) -> Result<Self, LimitError> {
        let cycle = self.cycle().on_local_day().ok_or_else(|| {
            let message = "only months can begin on the day of each call";
            LimitError::new(LimitErrorKind::Day, message)
        })?;
        Self::new(self.quota.amount(), cycle, self.zone())
    }

    fn of(quota: Quota, calendar: &'static Calendar) -> Self {
        let capacity = if calendar.is_local() {
            0
        } else {
            quota.amount()
        };
        Self {
            quota,
            calendar,
            capacity,
        }
    }

    /// Returns the unit of the calendar.
    #[must_use]
    pub fn unit(&self) -> CalendarUnit {
        self.cycle().unit()
    }

    /// Returns the unit, and when it begins.
    #[must_use]
    pub fn cycle(&self) -> CalendarCycle {
        self.calendar.cycle()
    }

    /// Returns the name of the time zone, or `local`.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.calendar.zone()
    }

    /// Returns the period that a call at `now` is counted in: if the clock stepped back out of the
    /// last period, still that one.
    #[inline]
    fn period(&self, state: &State, now: u64) -> Bounds {
        if now < state.start {
            (state.start, state.start + state.length)
        } else {
            self.calendar.period(now)
        }
    }

    /// Returns what is used of this period: what was counted, if its own period began in this one.
    ///
    /// A new database of time zones may move boundaries. What was counted then stays in the period in
    /// which its own began.
    #[inline]
    fn used(state: &State, (start, _): Bounds) -> u64 {
        if state.start >= start { state.kept } else { 0 }
    }

    #[inline]
    fn wait_in(&self, state: &State, period: Bounds, now: u64, cost: u64) -> Wait {
        if Self::used(state, period) + cost <= self.capacity {
            Wait::ZERO
        } else {
            Wait::from_micros(period.1 - now)
        }
    }

    #[inline]
    fn status_in(&self, state: &State, period: Bounds, now: u64) -> Status {
        let used = Self::used(state, period);
        Status {
            remaining: self.capacity.saturating_sub(used),
            reset_after: Wait::from_micros(if used > 0 { period.1 - now } else { 0 }),
        }
    }

    #[inline]
    fn commit_in(state: &mut State, period: Bounds, now: u64, cost: u64) -> u64 {
        let at = now.max(state.start);
        let used = Self::used(state, period);
        if used == 0 {
            state.start = period.0;
        }
        state.length = period.1 - state.start;
        state.kept = used.saturating_add(cost).min(MAX_EXACT);
        at
    }
}

impl Machine for CalendarWindow {
    const NAME: &'static str = "calendar-window";
    const KIND: u64 = 6;
    const BY_CALENDAR: bool = true;

    fn write_state(state: &State, to: &mut Writer) -> u64 {
        to.numbers(&[state.kept, state.length]);
        state.start
    }

    fn read_state(&self, start: u64, from: &mut Reader<'_>) -> Option<State> {
        let kept = from.exact()?;
        let length = from.number(1..=self.longest_window_us())?;
        // The last period ends after the last instant.
        (start + length <= MAX_EXACT + 1).then_some(State {
            start,
            length,
            kept,
        })
    }

    /// Returns the quota with the longest period where no clocks change: 24 hours, 7, 31 or 366 days.
    #[inline]
    fn quota(&self) -> Quota {
        self.quota
    }

    fn longest_window_us(&self) -> u64 {
        self.unit().longest_us()
    }

    fn needs_zone(&self) -> bool {
        self.calendar.needs_zone()
    }

    fn needs_day(&self) -> bool {
        self.cycle().needs_day()
    }

    fn bring(&self, brought: Brought<'_>) -> Result<Self, LimitError> {
        let (amount, cycle) = (self.quota.amount(), self.cycle());
        match brought {
            Brought::Zone(name) if self.needs_zone() => Self::new(amount, cycle, name),
            Brought::Day(day) if self.needs_day() => {
                Self::new(amount, cycle.on_day(day)?, self.zone())
            }
            _ => Ok(*self),
        }
    }

    /// Without the zone or the day that it needs, no call fits.
    #[inline]
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn periods(&self, around: Timestamp) -> Option<Vec<Period>> {
        Some(self.calendar.around(around))
    }

    fn with_amount(&self, amount: u64) -> Result<Self, LimitError> {
        Ok(Self::of(self.quota.with_amount(amount)?, self.calendar))
    }

    fn shape(&self) -> String {
        let mut options = String::new();
        // A string takes everything.
        let _ = self.cycle().write_options(&mut options);
        // Colons divide the parts of a key.
        let options = options.replace(':', ".");
        let (unit, zone) = (self.unit().name(), self.zone());
        format!("{}-{unit}-{zone}{options}", Self::NAME)
    }

    #[inline(never)]
    fn wait(&self, state: &State, now: u64, cost: u64) -> Wait {
        self.wait_in(state, self.period(state, now), now, cost)
    }

    #[inline]
    fn status(&self, state: &State, now: u64) -> Status {
        self.status_in(state, self.period(state, now), now)
    }

    fn owed(&self, state: &State, now: u64) -> u64 {
        Self::used(state, self.period(state, now)).saturating_sub(self.capacity)
    }

    #[inline]
    fn commit(&self, state: &mut State, now: u64, cost: u64) -> u64 {
        let period = self.period(state, now);
        Self::commit_in(state, period, now, cost)
    }

    fn lasts(&self, within: u64, _at: u64, reset_after: Wait) -> u64 {
        within.min(reset_after.as_micros().unwrap_or(0))
    }

    fn refund(&self, state: &mut State, now: u64, at: u64, amount: u64) {
        let period = self.period(state, now);
        if Self::used(state, period) > 0 && state.start <= at && at < period.1 {
            state.kept = state.kept.saturating_sub(amount);
        }
    }

    fn givable(&self, state: &State, now: u64) -> u64 {
        Self::used(state, self.period(state, now))
    }

    fn give(&self, state: &mut State, _now: u64, amount: u64) {
        state.kept -= amount;
    }

    /// Looks up the period once.
    // Not inlined, so that the decisions of other algorithms keep their registers.
    #[inline(never)]
    fn consume(&self, state: &mut State, now: u64, cost: u64) -> Outcome {
        let period = self.period(state, now);
        let wait = self.wait_in(state, period, now, cost);
        let at = if wait.is_zero() {
            Self::commit_in(state, period, now, cost)
        } else {
            now
        };
        Outcome {
            wait,
            at,
            left: self.status_in(state, period, now).into(),
        }
    }
}

#[cfg(test)]
mod tests;
mod text;
#[cfg(feature = "__twins")]
mod twin;
