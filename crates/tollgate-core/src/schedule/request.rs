//! `Request`: one operation on a schedule, as data for a store.

use std::time::Duration;

use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::schedule::event::{Event, LONGEST_ID};
use crate::schedule::operation::Operation;
use crate::schedule::period::Period;
use crate::schedule::quota::{Kind, Quota};
use crate::schedule::terms::Terms;
#[cfg(feature = "calendar")]
use crate::schedule::{Zone, closed};
use crate::time::Timestamp;

/// The most events that one call adds, which bounds how long a server works on it.
pub const MAX_EVENTS_PER_CALL: usize = 100;

/// One operation on the events of a key in a schedule.
///
/// [`Schedule`](crate::schedule::Schedule) makes these; a [`Store`](crate::schedule::Store) decides
/// them.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    terms: &'a Terms,
    key: Key<'a>,
    operation: Operation<'a>,
    wants_latest: bool,
    at: Option<Timestamp>,
    /// The recipient's time zone.
    zone: Option<CallZone>,
    /// For each quota that a search looks at, in order, its periods if it is a calendar's, or the open
    /// times.
    periods: Vec<Option<Vec<Period>>>,
}

/// The time zone that a call brings.
#[cfg(feature = "calendar")]
pub(super) type CallZone = jiff::tz::TimeZone;
/// Without the calendar, no call brings one.
#[cfg(not(feature = "calendar"))]
pub(super) type CallZone = std::convert::Infallible;

/// How far ahead the first request brings a calendar's periods.
const FIRST_SPAN: Duration = Duration::from_secs(40 * 86_400);

impl<'a> Request<'a> {
    /// Returns a request to apply `operation` to the events of `key`.
    #[must_use]
    pub fn new(terms: &'a Terms, key: impl Into<Key<'a>>, operation: Operation<'a>) -> Self {
        Self::of(terms, key.into(), operation, false, None)
    }

    pub(super) fn of(
        terms: &'a Terms,
        key: Key<'a>,
        operation: Operation<'a>,
        wants_latest: bool,
        zone: Option<CallZone>,
    ) -> Self {
        let mut request = Self {
            terms,
            key,
            operation,
            wants_latest,
            at: None,
            zone,
            periods: Vec::new(),
        };
        request.cover();
        request
    }

    /// Asks that a refusal also names the last free time before the time that was asked for.
    #[must_use]
    pub fn with_latest(mut self) -> Self {
        self.wants_latest = true;
        self.cover();
        self
    }

    /// Sets the recipient's time zone: see [`Call::zone`](crate::schedule::Call::zone).
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn zone(mut self, zone: CallZone) -> Self {
        self.zone = Some(zone);
        self.cover();
        self
    }

    /// Sets the instant to decide at, instead of the store's own clock: see
    /// [`Request::at`](crate::store::Request::at).
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Brings the periods that most answers need.
    fn cover(&mut self) {
        if self.terms.has_calendar()
            && let Some((from, until)) = self.span()
        {
            // Times further apart cannot all be planned, so the store asks for what it needs.
            let until = match until.saturating_duration_since(from) > self.reach() {
                true => from,
                false => until,
            };
            let looks_back =
                self.wants_latest || matches!(self.operation, Operation::LatestFree { .. });
            let from = if looks_back {
                before(from, FIRST_SPAN)
            } else {
                from
            };
            self.periods = self.periods_within(from, until.saturating_add(FIRST_SPAN));
        }
    }

    /// Adds calendar periods to this request: those around `at`, and twice as many as before.
    ///
    /// For a store that answered [`Answer::Uncovered`](crate::schedule::Answer).
    pub fn widen(&mut self, at: Timestamp) {
        // What all calendars cover: one of months reaches further than one of days.
        let lists = || self.periods.iter().flatten();
        let starts = lists().filter_map(|list| list.first().map(|first| first.start()));
        let ends = lists().filter_map(|list| list.last().map(|last| last.end()));
        let (start, end) = (starts.max().unwrap_or(at), ends.min().unwrap_or(at));
        let reach = self.reach();
        // Periods that are further from it are of times that cannot be planned.
        let (start, end) = match at < before(start, reach) || at > end.saturating_add(reach) {
            true => (at, at),
            false => (start, end),
        };
        let length = end.saturating_duration_since(start).max(FIRST_SPAN);
        self.periods = if at < start {
            self.periods_within(before(at, length), end)
        } else {
            self.periods_within(start, at.max(end).saturating_add(length))
        };
    }

    /// Returns how far apart two times are at most that can be planned now.
    fn reach(&self) -> Duration {
        self.terms.horizon().saturating_add(self.terms.tolerance())
    }

    #[cfg(feature = "calendar")]
    fn periods_within(&self, from: Timestamp, until: Timestamp) -> Vec<Option<Vec<Period>>> {
        let zone = self.zone.as_ref();
        let periods = |(_, quota): (_, &Quota)| match quota.counts() {
            true => quota.periods(zone, from, until),
            false => closed::open_times(self.terms.closed_times(), zone, from, until),
        };
        self.terms.searched().map(periods).collect()
    }

    /// Without the calendar, no quota has periods.
    #[cfg(not(feature = "calendar"))]
    fn periods_within(&self, _: Timestamp, _: Timestamp) -> Vec<Option<Vec<Period>>> {
        Vec::new()
    }

    /// Returns whether the zone of this call leaves no time open around those that it asks for. Closed
    /// times of fixed zones are together open at some time.
    #[cfg(feature = "calendar")]
    fn is_never_open(&self) -> bool {
        const YEAR: Duration = Duration::from_secs(366 * 86_400);
        let closed: Vec<_> = self.terms.closed_times().collect();
        closed.iter().any(|rule| *rule.zone() == Zone::Local)
            && self.span().is_some_and(|(first, last)| {
                [first, last].into_iter().all(|at| {
                    let (from, until) = (before(at, YEAR), at.saturating_add(YEAR));
                    !closed::are_open(&closed, self.zone.as_ref(), from, until)
                })
            })
    }

    /// Returns the quota to name for what a search found in the way at `index`, of an event at `time`: of
    /// several closed times, those that alone are open again last, or that stay closed for 40 days.
    #[cfg_attr(
        not(feature = "calendar"),
        allow(unused_variables, reason = "no times are closed")
    )]
    pub(crate) fn in_the_way(&self, index: usize, time: Timestamp) -> Option<&'a Quota> {
        let quotas = self.terms.quotas();
        let found = quotas.get(index)?;
        #[cfg(feature = "calendar")]
        if !found.counts() {
            let until = time.saturating_add(FIRST_SPAN);
            let opens = |quota: &&Quota| {
                let times = quota.closed_times()?;
                let zone = times.zone().of_call(self.zone.as_ref())?;
                let mut open = times.open_times(zone, time, until).into_iter();
                open.find(|open| open.start() < open.end())
                    .map_or(Some(Timestamp::END), |open| Some(open.start()))
            };
            let closed = quotas.iter().rev().filter(|quota| !quota.counts());
            return closed.max_by_key(opens);
        }
        Some(found)
    }

    /// Returns the times between which this request asks for room, if it does.
    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        match &self.operation {
            Operation::Add(events) => {
                let times = || events.iter().map(Event::time);
                Some((times().min()?, times().max()?))
            }
            Operation::Reschedule(event) | Operation::ReserveNext(event) => {
                Some((event.time(), event.time()))
            }
            Operation::NextFree { from: at, .. } | Operation::LatestFree { until: at, .. } => {
                Some((*at, *at))
            }
            Operation::Cancel(_) | Operation::List { .. } => None,
        }
    }

    /// Returns the schedule's name, quotas, horizon and tolerance.
    #[must_use]
    pub fn terms(&self) -> &'a Terms {
        self.terms
    }

    /// Returns the key whose events this is about.
    #[must_use]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> &Operation<'a> {
        &self.operation
    }

    /// Returns whether a refusal names the last free time, too.
    #[must_use]
    pub fn wants_latest(&self) -> bool {
        self.wants_latest
    }

    /// Returns the caller's instant, or `None` to use the store's clock.
    #[must_use]
    pub fn caller_time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns each quota that a search looks at, with its index and its periods, which are empty for a
    /// sliding window.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (usize, &'a Quota, &[Period])> {
        let periods = self
            .periods
            .iter()
            .map(|periods| periods.as_deref().unwrap_or(&[]));
        let quotas = self.terms.searched();
        quotas
            .zip(periods.chain(std::iter::repeat(&[][..])))
            .map(|((index, quota), periods)| (index, quota, periods))
    }

    /// Returns an error if this request is not valid. Stores call this before they decide.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when no event is added or more than [`MAX_EVENTS_PER_CALL`], when
    /// two events have one id, when an id is empty or longer than [`LONGEST_ID`] bytes, when
    /// a weight is zero, when an event to move has a weight other than 1, or when a quota is
    /// `@local` and the request looks for room without a time zone, or in one in which the closed times
    /// leave nothing open for a year before and after the time that is asked for.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.zone.is_none() && self.span().is_some() && self.terms.needs_zone() {
            return malformed(
                "a quota of this schedule counts in the zone `@local`, which is that of the call: \
                 add the recipient's time zone with `zone`",
            );
        }
        #[cfg(feature = "calendar")]
        if self.is_never_open() {
            return malformed(
                "in the time zone of this call, the closed times leave no time open for a year: \
                 shorten one of them, or use another zone",
            );
        }
        let id = |id: &[u8]| {
            if (1..=LONGEST_ID).contains(&id.len()) {
                return Ok(());
            }
            malformed(format!(
                "an event's id has {} bytes: use 1 to {LONGEST_ID}, a hash of it for example",
                id.len()
            ))
        };
        let weight = |weight: u64| match weight {
            0 => malformed("an event of weight 0 would count nowhere: use a weight of at least 1"),
            _ => Ok(()),
        };
        match &self.operation {
            Operation::Add(events) => {
                if events.is_empty() || events.len() > MAX_EVENTS_PER_CALL {
                    return malformed(format!(
                        "{} events in one call: add 1 to {MAX_EVENTS_PER_CALL}",
                        events.len()
                    ));
                }
                for event in events {
                    id(event.id())?;
                    weight(event.weight())?;
                }
                let mut ids: Vec<_> = events.iter().map(Event::id).collect();
                ids.sort_unstable();
                if ids.windows(2).any(|pair| pair[0] == pair[1]) {
                    return malformed("two events of one call have the same id: give each its own");
                }
                Ok(())
            }
            Operation::Reschedule(event) => {
                id(event.id())?;
                if event.weight() != 1 {
                    return malformed(
                        "an event that is moved keeps its weight: leave the weight out, or cancel \
                         the event and add it with another one",
                    );
                }
                Ok(())
            }
            Operation::ReserveNext(event) => {
                id(event.id())?;
                weight(event.weight())
            }
            Operation::Cancel(event) => id(event),
            Operation::NextFree { weight: of, .. } | Operation::LatestFree { weight: of, .. } => {
                weight(*of)
            }
            Operation::List { .. } => Ok(()),
        }
    }
}

/// Returns `time` less `by`, or the epoch.
fn before(time: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
    Timestamp::saturating_from_micros(time.as_micros().saturating_sub(by))
}

impl Quota {
    /// Returns the window in microseconds, or `None` for a calendar's quota or closed times.
    pub(crate) fn window_us(&self) -> Option<u64> {
        match self.kind() {
            Kind::Sliding(quota) => Some(quota.window_us()),
            #[cfg(feature = "calendar")]
            Kind::Calendar(_) | Kind::Closed(_) => None,
        }
    }
}

fn malformed<T>(message: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Malformed, message))
}

#[cfg(all(test, feature = "calendar"))]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::schedule::{Answer, State};

    const DAY: Duration = Duration::from_secs(86_400);
    const MICRO: Duration = Duration::from_micros(1);

    /// Returns the beginning of this day, counted from the epoch, in UTC.
    fn day(number: u32) -> Timestamp {
        Timestamp::UNIX_EPOCH.saturating_add(number * DAY)
    }

    fn after(time: Timestamp) -> Timestamp {
        time.saturating_add(MICRO)
    }

    /// However far from now a time is that cannot be planned, few days are computed and sent.
    #[test]
    fn no_request_brings_more_days_than_can_be_planned() {
        let terms = Terms::new("plans", ["1/day@Europe/Berlin"]).unwrap();
        let now = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
        let far = [Timestamp::UNIX_EPOCH, Timestamp::MAX];
        let days = |request: &Request<'_>| -> usize {
            request
                .searched()
                .map(|(_, _, periods)| periods.len())
                .sum()
        };
        for [first, second] in [
            far,
            [far[1], far[0]],
            [far[0]; 2],
            [far[1]; 2],
            [far[1], now],
        ] {
            let events = vec![Event::new("a", first), Event::new("b", second)];
            let add = Operation::Add(events);
            let mut request = Request::new(&terms, "alice", add).with_latest();
            assert!(days(&request) < 100, "{}", days(&request));
            request.widen(now);
            assert!(days(&request) < 200, "{}", days(&request));
            request.widen(now.saturating_add(Duration::from_secs(300 * 86_400)));
            assert!(days(&request) < 600, "{}", days(&request));
        }
    }

    /// A request brings the days that its answer needs, so that no second round trip is needed.
    #[test]
    fn a_request_brings_the_days_that_it_needs() {
        let terms = Terms::new("plans", ["1/day@Europe/Berlin"]).unwrap();
        let now = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
        let day = Duration::from_secs(86_400);
        let later = |days: u32| now.saturating_add(days * day);
        let mut state = State::default();
        let mut decide = |operation, wants_latest| {
            let request = Request::new(&terms, "alice", operation);
            let request = if wants_latest {
                request.with_latest()
            } else {
                request
            };
            request.decide_on(&mut state, now)
        };
        let ids = ["a", "b", "c"];
        let events = [3, 1, 2].map(later);
        let events = ids
            .iter()
            .zip(events)
            .map(|(id, time)| Event::new(id, time));
        let answer = decide(Operation::Add(events.collect()), false);
        assert_eq!(answer, Answer::Added(3));
        let add = Operation::Add(vec![Event::new("d", later(2))]);
        let Answer::Refused { refusal, .. } = decide(add, true) else {
            panic!("two events on a day");
        };
        assert!(refusal.next_free() > Some(later(3)));
        assert!(refusal.latest_free() < Some(later(1)) && refusal.latest_free().is_some());
        let (until, weight) = (later(3), 1);
        let answer = decide(Operation::LatestFree { until, weight }, false);
        assert_eq!(answer, Answer::Found(refusal.latest_free()));
        let from = later(1);
        let answer = decide(Operation::NextFree { from, weight }, false);
        assert_eq!(answer, Answer::Found(refusal.next_free()));
        let reserve = Operation::ReserveNext(Event::new("e", later(1)));
        assert!(matches!(decide(reserve, false), Answer::Planned { .. }));
        let moved = Operation::Reschedule(Event::new("a", later(9)));
        assert!(matches!(decide(moved, false), Answer::Planned { .. }));
        assert_eq!(state.len(), 4);
    }

    /// Returns the days from the epoch between which `request` brings all days of UTC.
    fn days(request: &Request<'_>) -> [u64; 2] {
        let (_, _, periods) = request.searched().next().unwrap();
        let day = |at: Timestamp| at.as_micros() / 86_400_000_000;
        let [first, .., last] = periods else {
            panic!("{periods:?}");
        };
        let days = [day(first.start()), day(last.end())];
        assert_eq!(u64::try_from(periods.len()).unwrap(), days[1] - days[0]);
        days
    }

    #[test]
    fn a_request_brings_forty_days_and_earlier_ones_only_to_look_back() {
        let terms = Terms::new("plans", ["1/day@UTC"]).unwrap();
        let at = day(20_000);
        let weight = 1;
        let latest = Operation::LatestFree { until: at, weight };
        let next = Operation::NextFree { from: at, weight };
        let latest = Request::new(&terms, "k", latest);
        let next = Request::new(&terms, "k", next);
        assert!(!next.wants_latest());
        assert_eq!(days(&next), [20_000, 20_041]);
        assert_eq!(days(&latest), [19_960, 20_041]);
        let next = next.with_latest();
        assert!(next.wants_latest());
        assert_eq!(days(&next), [19_960, 20_041]);
    }

    #[test]
    fn a_request_about_windows_alone_brings_no_periods() {
        for (quotas, has_calendar) in [
            (&["1/1m"][..], false),
            (&["1/1m", "1/day@UTC"], true),
            (&["1/day@UTC"], true),
        ] {
            let terms = Terms::new("plans", quotas.iter().copied()).unwrap();
            assert_eq!(terms.has_calendar(), has_calendar);
            let reserve = Operation::ReserveNext(Event::new("a", day(20_000)));
            let request = Request::new(&terms, "k", reserve);
            assert_eq!(!request.periods.is_empty(), has_calendar);
        }
    }

    #[test]
    fn a_widened_request_brings_twice_as_many_days_up_to_those_that_can_be_planned() {
        // Times that can be planned are at most 300 days apart.
        let terms = Terms::new("plans", ["1/day@UTC"]).unwrap();
        let terms = terms.with_horizon(290 * DAY).unwrap();
        let terms = terms.with_tolerance(10 * DAY).unwrap();
        for (at, expected) in [
            // The days are those from 20,000 until before 20,041.
            (day(20_010), [20_000, 20_083]),
            (day(20_040), [20_000, 20_083]),
            (day(20_050), [20_000, 20_092]),
            (day(20_341), [20_000, 20_383]),
            (day(19_999), [19_958, 20_042]),
            (day(19_700), [19_659, 20_042]),
            // Further away, only the days from there on are brought.
            (after(day(20_341)), [20_341, 20_382]),
            (before(day(19_700), MICRO), [19_699, 19_740]),
        ] {
            let (from, weight) = (day(20_000), 1);
            let next = Operation::NextFree { from, weight };
            let mut request = Request::new(&terms, "k", next);
            assert_eq!(days(&request), [20_000, 20_041]);
            request.widen(at);
            assert_eq!(days(&request), expected, "{at}");
        }
    }
}
