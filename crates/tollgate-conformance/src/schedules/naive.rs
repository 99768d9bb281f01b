//! `NaiveSchedule`: the second definition of schedules. It keeps every event for ever, and tries
//! every window and every time. It shares no code with the machine.

use jiff::tz::TimeZone;
use tollgate_core::schedule::{self, Event, Period, PlannedEvent, Reason};
use tollgate_core::{Quota, Timestamp};

use super::closed::ClosedRule;

/// How many microseconds are tried one by one; of more, only the ends of what is full.
const TRIED: u64 = 400;

/// An event: id, time and weight.
type Held = (Vec<u8>, u64, u64);

/// The events of one key.
#[derive(Debug, Default)]
pub(crate) struct NaiveSchedule {
    events: Vec<Held>,
    latest: u64,
}

/// A quota, as far as this definition needs it.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    Sliding(Quota),
    Calendar(u64, Vec<Period>),
    /// The times at which it may begin or end to close come with it.
    Closed(ClosedRule, TimeZone, Vec<u64>),
}

/// What a request is checked against.
struct Scene<'r> {
    quotas: &'r [schedule::Quota],
    rules: &'r [Rule],
    earliest: u64,
    latest: u64,
}

impl NaiveSchedule {
    /// Decides `request` at `now`. `rules` are its quotas, calendars with all their periods, and
    /// `forgotten` is how long an event is kept.
    pub(crate) fn decide(
        &mut self,
        request: &schedule::Request<'_>,
        rules: &[Rule],
        now: Timestamp,
    ) -> schedule::Answer {
        let now = now.as_micros().max(self.latest);
        let micros = |duration: std::time::Duration| u64::try_from(duration.as_micros()).unwrap();
        let terms = request.terms();
        let tolerance = micros(terms.tolerance());
        let scene = Scene {
            quotas: terms.quotas(),
            rules,
            earliest: now.saturating_sub(tolerance),
            latest: now + micros(terms.horizon()),
        };
        // Events so old that they affect no time that can be planned are as good as forgotten.
        let reach = rules.iter().map(Rule::reach).max().unwrap();
        let kept =
            |event: &&Held| i128::from(event.1) > i128::from(now) - i128::from(tolerance + reach);
        let visible: Vec<Held> = self.events.iter().filter(kept).cloned().collect();
        let find = |id: &[u8]| visible.iter().find(|event| event.0 == id).cloned();
        match request.operation() {
            schedule::Operation::Add(events) => {
                let mut next = visible.clone();
                let mut added = 0;
                for (index, event) in events.iter().enumerate() {
                    match find(event.id()) {
                        Some((_, time, weight))
                            if (time, weight) == (event.time().as_micros(), event.weight()) => {}
                        Some((_, time, _)) => return taken(index, time),
                        None => {
                            if let Some(refused) =
                                scene.refusal(&next, event, event.weight(), index)
                            {
                                return refused;
                            }
                            next.push((
                                event.id().to_vec(),
                                event.time().as_micros(),
                                event.weight(),
                            ));
                            added += 1;
                        }
                    }
                }
                if added > 0 {
                    self.replace(next, now);
                }
                schedule::Answer::Added(added)
            }
            schedule::Operation::Reschedule(event) => {
                let Some((_, time, weight)) = find(event.id()) else {
                    return refused(0, Reason::UnknownId, None);
                };
                if time == event.time().as_micros() {
                    return planned(time, false);
                }
                let others = visible.iter().filter(|held| held.0 != event.id());
                let others: Vec<Held> = others.cloned().collect();
                if let Some(refused) = scene.refusal(&others, event, weight, 0) {
                    return refused;
                }
                let mut next = others;
                next.push((event.id().to_vec(), event.time().as_micros(), weight));
                self.replace(next, now);
                planned(event.time().as_micros(), true)
            }
            schedule::Operation::ReserveNext(event) => {
                match find(event.id()) {
                    Some((_, time, weight)) if weight == event.weight() => {
                        return planned(time, false);
                    }
                    Some((_, time, _)) => return taken(0, time),
                    None => {}
                }
                let from = event.time().as_micros().max(scene.earliest);
                if from > scene.latest {
                    return refused(0, Reason::BeyondHorizon(stamp(scene.latest)), None);
                }
                let Some(time) = scene.next_free(&visible, from, event.weight()) else {
                    let quota = scene.in_the_way(&visible, (from, event.time()), event.weight());
                    let quota = quota.unwrap();
                    return refused(0, Reason::Quota(quota), None);
                };
                let mut next = visible;
                next.push((event.id().to_vec(), time, event.weight()));
                self.replace(next, now);
                planned(time, true)
            }
            schedule::Operation::Cancel(id) => {
                let found = find(id).is_some();
                self.events.retain(|held| held.0 != *id || !found);
                if self.events.is_empty() {
                    self.latest = 0;
                }
                schedule::Answer::Cancelled(found)
            }
            schedule::Operation::NextFree { from, weight } => {
                let from = from.as_micros().max(scene.earliest);
                schedule::Answer::Found(scene.next_free(&visible, from, *weight).map(stamp))
            }
            schedule::Operation::List { from, until } => {
                let mut listed: Vec<Held> = visible
                    .iter()
                    .filter(|(_, time, _)| (from.as_micros()..until.as_micros()).contains(time))
                    .cloned()
                    .collect();
                listed.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
                let event = |(id, time, weight): Held| PlannedEvent::new(id, stamp(time), weight);
                schedule::Answer::Events(listed.into_iter().map(event).collect())
            }
            other => panic!("no naive definition of {other:?}"),
        }
    }

    fn replace(&mut self, events: Vec<Held>, now: u64) {
        self.events = events;
        self.latest = now;
    }
}

impl Scene<'_> {
    /// Returns whether all windows and periods that hold `time` have room for `weight`.
    fn has_room(&self, events: &[Held], time: u64, weight: u64) -> bool {
        self.rules
            .iter()
            .all(|rule| rule.has_room(events, time, weight))
    }

    fn next_free(&self, events: &[Held], from: u64, weight: u64) -> Option<u64> {
        self.rules_next(self.rules, events, from, weight)
    }

    fn rules_next(&self, rules: &[Rule], events: &[Held], from: u64, weight: u64) -> Option<u64> {
        let free = |time: &u64| {
            rules
                .iter()
                .all(|rule| rule.has_room(events, *time, weight))
        };
        if self.latest.saturating_sub(from) <= TRIED {
            return (from..=self.latest).find(free);
        }
        let mut times: Vec<u64> = rules.iter().flat_map(|rule| rule.ends(events)).collect();
        times.push(from);
        times.sort_unstable();
        let within = |time: &u64| (from..=self.latest).contains(time);
        times.into_iter().filter(within).find(free)
    }

    /// Returns the quota that alone would have room again last. All closed times are one, in the place
    /// of the first. The search is from a time on, for an event at another.
    fn in_the_way(
        &self,
        events: &[Held],
        (from, time): (u64, Timestamp),
        weight: u64,
    ) -> Option<schedule::Quota> {
        let is_closed = |index: &usize| matches!(self.rules[*index], Rule::Closed(..));
        let (closed, counting): (Vec<usize>, Vec<usize>) =
            (0..self.rules.len()).partition(is_closed);
        let mut groups: Vec<_> = counting.into_iter().map(|index| vec![index]).collect();
        groups.extend((!closed.is_empty()).then_some(closed));
        groups.sort_unstable();
        let mut worst: Option<(u64, Vec<usize>)> = None;
        for group in groups {
            let rules = group.iter().map(|index| self.rules[*index].clone());
            let rules: Vec<_> = rules.collect();
            let free = self.rules_next(&rules, events, from, weight);
            // Beyond the horizon, it does not matter how far.
            let free = free.unwrap_or(self.latest + 1);
            if free > from && worst.as_ref().is_none_or(|(worst, _)| free > *worst) {
                worst = Some((free, group));
            }
        }
        let (_, group) = worst?;
        // Of closed times, those that alone open last; beyond 40 days, it does not matter how far.
        let opens = |index: &&usize| {
            self.rules[**index].opens_within(time.as_micros(), 40 * 86_400_000_000)
        };
        let index = group.iter().rev().max_by_key(opens)?;
        Some(self.quotas[*index].clone())
    }

    fn refusal(
        &self,
        events: &[Held],
        event: &Event<'_>,
        weight: u64,
        index: usize,
    ) -> Option<schedule::Answer> {
        let time = event.time().as_micros();
        if time > self.latest {
            let reason = Reason::BeyondHorizon(stamp(self.latest));
            return Some(refused(index, reason, None));
        }
        if time < self.earliest {
            let next = self.next_free(events, self.earliest, weight);
            return Some(refused(index, Reason::Past(stamp(self.earliest)), next));
        }
        if self.has_room(events, time, weight) {
            return None;
        }
        let quota = self.in_the_way(events, (time, event.time()), weight);
        let next = self.next_free(events, time, weight);
        Some(refused(index, Reason::Quota(quota.unwrap()), next))
    }
}

impl Rule {
    /// Returns for how long an event is kept.
    fn reach(&self) -> u64 {
        match self {
            Self::Sliding(quota) => quota.window_us(),
            // Long enough for a day that a zone repeats.
            Self::Calendar(..) => 50 * 3_600_000_000,
            Self::Closed(..) => 0,
        }
    }

    /// Returns the first time from `from` at which these closed times are open, or a time after all
    /// others if that is later by more than `span`.
    fn opens_within(&self, from: u64, span: u64) -> u64 {
        let Self::Closed(rule, zone, edges) = self else {
            return from;
        };
        let times = edges.iter().copied().chain([from]);
        let open = times.filter(|time| (from..=from + span).contains(time));
        let open = open.filter(|time| !rule.is_closed(zone, *time));
        open.min().unwrap_or(u64::MAX)
    }

    fn has_room(&self, events: &[Held], time: u64, weight: u64) -> bool {
        let held = |start: u64, end: u64| -> u64 {
            let within = events.iter();
            let within = within.filter(|event| (start..end).contains(&event.1));
            within.map(|event| event.2).sum()
        };
        match self {
            Self::Sliding(quota) => {
                let length = quota.window_us();
                // A fullest window begins with an event, or with the new one.
                let starts = events.iter().map(|event| event.1).chain([time]);
                starts
                    .filter(|start| (*start..start + length).contains(&time))
                    .all(|start| held(start, start + length) + weight <= quota.amount())
            }
            Self::Calendar(amount, periods) => {
                let period = periods
                    .iter()
                    .find(|period| {
                        (period.start().as_micros()..period.end().as_micros()).contains(&time)
                    })
                    .expect("the test brings all periods");
                held(period.start().as_micros(), period.end().as_micros()) + weight <= *amount
            }
            Self::Closed(rule, zone, _) => !rule.is_closed(zone, time),
        }
    }

    /// Returns the times at which something that is full can end.
    fn ends(&self, events: &[Held]) -> Vec<u64> {
        match self {
            Self::Sliding(quota) => events
                .iter()
                .map(|event| event.1 + quota.window_us())
                .collect(),
            Self::Calendar(_, periods) => periods
                .iter()
                .map(|period| period.end().as_micros())
                .collect(),
            Self::Closed(_, _, edges) => edges.clone(),
        }
    }
}

fn planned(time: u64, is_new: bool) -> schedule::Answer {
    schedule::Answer::Planned {
        time: stamp(time),
        is_new,
    }
}

fn taken(index: usize, time: u64) -> schedule::Answer {
    refused(index, Reason::IdTaken(stamp(time)), None)
}

fn refused(index: usize, reason: Reason, next_free: Option<u64>) -> schedule::Answer {
    let refusal = schedule::Refusal::new(reason).with_next_free(next_free.map(stamp));
    schedule::Answer::Refused { index, refusal }
}

fn stamp(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}
