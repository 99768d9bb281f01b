//! Which periods of calendars, and which open times, a request brings.

use std::time::Duration;

use crate::cover::{Cover, Uncovered};
use crate::schedule::event::Event;
use crate::schedule::operation::Operation;
use crate::schedule::request::Request;
#[cfg(feature = "calendar")]
use crate::schedule::{Quota, Zone, closed};
use crate::time::Timestamp;

/// How far ahead the first request brings a calendar's periods.
const FIRST_SPAN: Duration = Duration::from_secs(40 * 86_400);

impl Request<'_> {
    /// Brings the periods that most answers need.
    pub(super) fn bring_periods(&mut self) {
        if self.terms().has_calendar()
            && let Some((from, until)) = self.span()
        {
            // Times further apart cannot all be planned, so the store asks for what it needs.
            let until = match until.saturating_duration_since(from) > self.reach() {
                true => from,
                false => until,
            };
            self.cover = self.cover_within(from, until.saturating_add(FIRST_SPAN));
        }
    }

    /// Adds calendar periods to this request: those around the instant that has none, and twice as many as
    /// before.
    ///
    /// For a store that answered [`Answer::Uncovered`](crate::schedule::Answer).
    pub fn widen(&mut self, uncovered: Uncovered) {
        let Uncovered(at) = uncovered;
        // What all calendars cover: one of months reaches further than one of days.
        let (start, end) = self.cover.span().unwrap_or((at, at));
        let reach = self.reach();
        // Periods that are further from it are of times that cannot be planned.
        let (start, end) = match at < before(start, reach) || at > end.saturating_add(reach) {
            true => (at, at),
            false => (start, end),
        };
        let length = end.saturating_duration_since(start).max(FIRST_SPAN);
        self.cover = if at < start {
            self.cover_within(before(at, length), end)
        } else {
            self.cover_within(start, at.max(end).saturating_add(length))
        };
    }

    /// Returns how far apart two times are at most that can be planned now.
    fn reach(&self) -> Duration {
        let terms = self.terms();
        terms.horizon().saturating_add(terms.tolerance())
    }

    #[cfg(feature = "calendar")]
    fn cover_within(&self, from: Timestamp, until: Timestamp) -> Cover {
        let (terms, zone) = (self.terms(), self.zone.as_ref());
        let periods = |(_, quota): (_, &Quota)| match quota.counts() {
            true => quota.periods(zone, from, until),
            false => closed::open_times(terms.closed_times(), zone, from, until),
        };
        Cover::new(terms.searched().map(periods))
    }

    /// Without the calendar, no quota has periods.
    #[cfg(not(feature = "calendar"))]
    fn cover_within(&self, _: Timestamp, _: Timestamp) -> Cover {
        Cover::default()
    }

    /// Returns the times between which this request asks for room, if it does.
    pub(super) fn span(&self) -> Option<(Timestamp, Timestamp)> {
        match self.operation() {
            Operation::Add(events) => {
                let times = || events.iter().map(Event::time);
                Some((times().min()?, times().max()?))
            }
            Operation::Reschedule(event) | Operation::ReserveNext(event) => {
                Some((event.time(), event.time()))
            }
            Operation::NextFree { from: at, .. } => Some((*at, *at)),
            Operation::Cancel(_) | Operation::List { .. } => None,
        }
    }
}

#[cfg(feature = "calendar")]
impl<'a> Request<'a> {
    /// Returns whether the zone of this call leaves no time open around those that it asks for. Closed
    /// times of fixed zones are together open at some time.
    pub(super) fn is_never_open(&self) -> bool {
        const YEAR: Duration = Duration::from_secs(366 * 86_400);
        let closed: Vec<_> = self.terms().closed_times().collect();
        closed.iter().any(|rule| *rule.zone() == Zone::Local)
            && self.span().is_some_and(|(first, last)| {
                [first, last].into_iter().all(|at| {
                    let (from, until) = (before(at, YEAR), at.saturating_add(YEAR));
                    !closed::are_open(&closed, self.zone.as_ref(), from, until)
                })
            })
    }

    /// Returns, of the closed times, those that alone are open again last after `time`, or that stay closed
    /// for 40 days.
    pub(super) fn last_to_open(&self, time: Timestamp) -> Option<&'a Quota> {
        let until = time.saturating_add(FIRST_SPAN);
        let opens = |quota: &&Quota| {
            let times = quota.closed_times()?;
            let zone = times.zone().of_call(self.zone.as_ref())?;
            let mut open = times.open_times(zone, time, until).into_iter();
            open.find(|open| open.start() < open.end())
                .map_or(Some(Timestamp::END), |open| Some(open.start()))
        };
        let quotas = self.terms().quotas().iter();
        let closed = quotas.rev().filter(|quota| !quota.counts());
        closed.max_by_key(opens)
    }
}

/// Returns `time` less `by`, or the epoch.
fn before(time: Timestamp, by: Duration) -> Timestamp {
    let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
    Timestamp::saturating_from_micros(time.as_micros().saturating_sub(by))
}

#[cfg(all(test, feature = "calendar"))]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use crate::schedule::{Answer, State, Terms};

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
            let mut request = Request::new(&terms, "alice", add);
            assert!(days(&request) < 100, "{}", days(&request));
            request.widen(Uncovered(now));
            assert!(days(&request) < 200, "{}", days(&request));
            request.widen(Uncovered(now.saturating_add(300 * DAY)));
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
        let mut decide =
            |operation| Request::new(&terms, "alice", operation).decide_on(&mut state, now);
        let ids = ["a", "b", "c"];
        let events = [3, 1, 2].map(later);
        let events = ids
            .iter()
            .zip(events)
            .map(|(id, time)| Event::new(id, time));
        let answer = decide(Operation::Add(events.collect()));
        assert_eq!(answer, Answer::Added(3));
        let add = Operation::Add(vec![Event::new("d", later(2))]);
        let Answer::Refused { refusal, .. } = decide(add) else {
            panic!("two events on a day");
        };
        assert!(refusal.next_free() > Some(later(3)));
        let (from, weight) = (later(1), 1);
        let answer = decide(Operation::NextFree { from, weight });
        assert_eq!(answer, Answer::Found(refusal.next_free()));
        let reserve = Operation::ReserveNext(Event::new("e", later(1)));
        assert!(matches!(decide(reserve), Answer::Planned { .. }));
        let moved = Operation::Reschedule(Event::new("a", later(9)));
        assert!(matches!(decide(moved), Answer::Planned { .. }));
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
            assert_eq!(request.cover.span().is_some(), has_calendar);
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
            request.widen(Uncovered(at));
            assert_eq!(days(&request), expected, "{at}");
        }
    }
}
