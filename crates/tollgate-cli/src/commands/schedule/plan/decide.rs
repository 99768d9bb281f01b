//! Plans messages in their order, in memory or on a server.

use std::sync::{Mutex, PoisonError};

use jiff::tz::TimeZone;
use tollgate_core::schedule::{self, Refusal, Schedule};
use tollgate_core::{StoreError, Timestamp};
use tollgate_memory::MemoryStore;

use super::answer::{Outcome, Way};
use super::messages::{Message, Messages};
use crate::failure::Failure;
use crate::lanes::{Run, Work};
use crate::output::Output;
use crate::progress::Progress;
use crate::store::{Remote, wait_for};
use crate::text::named;
use crate::trace::KeyId;

/// A message and the instant to decide at.
type Item<'m> = (&'m Message, Timestamp);

pub(super) struct Task<'m> {
    pub(super) messages: &'m Messages,
    pub(super) terms: schedule::Terms,
    /// No message is planned later, however far the terms reach from its instant.
    pub(super) until: Timestamp,
    /// The instant at which each message is decided.
    pub(super) instants: Vec<Timestamp>,
    /// The zone of messages without one of their own.
    pub(super) zone: TimeZone,
    /// For how many messages of a key the quota in the way is looked up: that looks at every message
    /// from the wanted time to the planned one, or to the horizon.
    pub(super) most_asked: usize,
}

impl<'m> Task<'m> {
    pub(super) fn in_memory(&self, progress: &Progress) -> Result<Vec<Outcome>, Failure> {
        progress.say("planning");
        // Room for every key: a plan must not fail because the store is full.
        let store = MemoryStore::builder().max_keys(self.messages.keys().max(1));
        let planner = Planner::new(store.build(), self);
        wait_for(async {
            let mut outcomes = Vec::with_capacity(self.messages.len());
            for item in self.items() {
                outcomes.push(planner.plan(item).await?);
                progress.advance(1);
            }
            Ok(outcomes)
        })
    }

    pub(super) fn on_server(
        &self,
        run: &Run,
        output: &Output,
        progress: &Progress,
    ) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::with_capacity(self.messages.len());
        let begin = |store| {
            Ok(OnServer {
                planner: Planner::new(store, self),
                items: self.items().collect(),
            })
        };
        run.finish(begin, output, progress, "planning", |_, outcome| {
            outcomes.push(outcome);
        })?;
        Ok(outcomes)
    }

    fn items(&self) -> impl Iterator<Item = Item<'m>> {
        self.messages.iter().zip(self.instants.iter().copied())
    }
}

/// A schedule, and what a plan has learned about each key.
struct Planner<'t, S> {
    task: &'t Task<'t>,
    schedule: Schedule<S>,
    keys: Mutex<Vec<Known>>,
}

/// What a plan has learned about a key.
#[derive(Clone, Default)]
struct Known {
    /// A time from which there is no room for another message, and the first one that may have room.
    ///
    /// A plan only adds messages, so a time without room never gets any. The next search starts after
    /// it, instead of looking at every message before that again.
    full: Option<[Timestamp; 2]>,
    /// The zone of the messages for which there is no room: days and closed times of another one may
    /// be other times.
    zone: Option<TimeZone>,
    /// For how many messages the quota in the way was looked up.
    asked: usize,
}

impl<'t, S: schedule::Store> Planner<'t, S> {
    fn new(store: S, task: &'t Task<'t>) -> Self {
        Self {
            task,
            schedule: Schedule::with_terms(store, task.terms.clone()),
            keys: Mutex::new(vec![Known::default(); task.messages.keys()]),
        }
    }

    async fn plan(&self, (message, at): Item<'_>) -> Result<Outcome, StoreError> {
        let (key, id, wanted) = (&message.key.to_bytes()[..], &*message.id, message.wanted);
        let zone = message.zone.as_ref().unwrap_or(&self.task.zone);
        let horizon = at.saturating_add(self.task.terms.horizon());
        let latest = horizon.min(self.task.until);
        let never = Timestamp::saturating_from_micros(latest.as_micros() + 1);
        let (mut from, asks) = self.known(message, zone);
        let asks = asks && wanted <= latest;
        let mut way = Way::NotLookedUp;
        if asks {
            // At its wanted time: if that has no room, the refusal names the quota in the way.
            let call = self.schedule.add(key, id, wanted).zone(zone.clone());
            match call.at(at).await?.permit() {
                Ok(time) => {
                    let planned = Ok(time);
                    return Ok(Outcome { planned, way: None });
                }
                Err(refusal) => {
                    way = self.way(&refusal);
                    from = refusal.next_free().unwrap_or(never);
                }
            }
        }
        let mut time = None;
        if wanted > latest {
            way = Way::Horizon;
        } else if from <= latest {
            let call = self.schedule.reserve_next(key, id, from);
            time = call.zone(zone.clone()).at(at).await?.permit().ok();
            if time.is_some_and(|time| time > latest) {
                self.schedule.cancel(key, id).at(at).await?;
                time = None;
            }
        }
        self.learn(message, time.unwrap_or(never));
        let latest = named(latest, zone);
        let none = format!("no time from the wanted one to {latest} is free");
        let reason = || match way {
            Way::NotLookedUp => none,
            Way::Horizon => {
                format!("the time is beyond the horizon: the latest possible is {latest}")
            }
            Way::Quota(index) => {
                let quota = &self.task.terms.quotas()[index];
                format!("{none}; at the wanted one, {quota} is in the way")
            }
        };
        Ok(Outcome {
            planned: time.ok_or_else(reason),
            way: (time != Some(wanted)).then_some(way),
        })
    }

    /// Returns the quota that a refusal says is in the way.
    fn way(&self, refusal: &Refusal) -> Way {
        let mut quotas = self.task.terms.quotas().iter();
        let index = quotas.position(|quota| Some(quota) == refusal.quota());
        index.map_or(Way::NotLookedUp, Way::Quota)
    }

    /// Returns the first time from the wanted one that may have room, and whether to look up the
    /// quota in the way.
    fn known(&self, message: &Message, zone: &TimeZone) -> (Timestamp, bool) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut keys[message.key.index()];
        if known.zone.as_ref() != Some(zone) {
            known.zone = Some(zone.clone());
            known.full = None;
        }
        let from = match known.full {
            Some([start, end]) if start <= message.wanted => end.max(message.wanted),
            _ => message.wanted,
        };
        (from, known.asked < self.task.most_asked)
    }

    /// Notes that there is no room from the wanted time until before `end`.
    fn learn(&self, message: &Message, end: Timestamp) {
        if end <= message.wanted {
            return;
        }
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut keys[message.key.index()];
        known.asked += 1;
        known.full = Some(match known.full {
            Some([start, full]) if start <= end && message.wanted <= full => {
                [start.min(message.wanted), full.max(end)]
            }
            _ => [message.wanted, end],
        });
    }
}

struct OnServer<'t> {
    planner: Planner<'t, Box<dyn Remote>>,
    items: Vec<Item<'t>>,
}

impl<'t> Work for OnServer<'t> {
    type Item = Item<'t>;
    type Answer = Outcome;

    fn items(&self) -> &[Item<'t>] {
        &self.items
    }

    fn key_of((message, _): &Item<'t>) -> KeyId {
        message.key
    }

    async fn call(&self, item: &Item<'t>) -> Result<Outcome, StoreError> {
        self.planner.plan(*item).await
    }

    fn keys(&self) -> impl Iterator<Item = KeyId> + Clone {
        self.planner.task.messages.key_ids()
    }

    async fn forget(&self, key: KeyId) -> Result<(), StoreError> {
        self.planner.schedule.reset(&key.to_bytes()[..]).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Plan;
    use super::*;
    use crate::commands::schedule::terms;
    use crate::text::rfc3339;

    fn messages(text: &str) -> Messages {
        let messages = Messages::parse("test".to_owned(), text.as_bytes());
        messages.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Plans `text` within `days`, with `most_asked` questions for each key.
    fn check(text: &str, quotas: &[&str], days: u64, most_asked: usize, is_short: bool) -> String {
        let messages = messages(text);
        let quotas = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
        let horizon = std::time::Duration::from_secs(days * 86_400);
        let (terms, _) = terms::reaching(quotas, horizon).unwrap_or_else(|f| panic!("{f}"));
        let task = Task {
            messages: &messages,
            terms,
            until: Timestamp::MAX,
            instants: messages.instants(is_short),
            zone: TimeZone::UTC,
            most_asked,
        };
        let found = task.in_memory(&Progress::new(false));
        let found = found.unwrap_or_else(|failure| panic!("{failure}"));
        let schedule = Schedule::with_terms(MemoryStore::new(), task.terms.clone());
        let mut asked = vec![0; messages.keys()];
        for ((message, at), outcome) in task.items().zip(&found) {
            let (key, id) = (&message.key.to_bytes()[..], &*message.id);
            let zone = message.zone.clone().unwrap_or(TimeZone::UTC);
            let wanted = schedule.add(key, id, message.wanted).zone(zone.clone());
            let wanted = wanted.at(at).run().unwrap();
            let first = schedule.reserve_next(key, id, message.wanted).zone(zone);
            let first = first.at(at).run().unwrap().permit();
            assert_eq!(outcome.planned.as_ref().ok(), first.as_ref().ok());
            let refusal = wanted.permit().err();
            let quota = refusal.as_ref().map(Refusal::quota);
            let asked: &mut usize = &mut asked[message.key.index()];
            match (&outcome.way, quota) {
                (None, None) | (Some(Way::Horizon), Some(None)) => continue,
                (Some(Way::Quota(index)), Some(Some(quota))) => {
                    assert_eq!(&task.terms.quotas()[*index], quota);
                }
                (Some(Way::NotLookedUp), Some(Some(_))) => assert!(*asked >= most_asked),
                (way, quota) => panic!("{way:?} instead of {quota:?}"),
            }
            *asked += 1;
        }
        Plan::new(&task, found).to_text(None, false)
    }

    #[test]
    fn times_that_are_passed_over_have_no_room() {
        let mut text = "key,id,time,time_zone\n".to_owned();
        for id in 0..300_u64 {
            // In no order, and some of them close together.
            let (key, second) = (id * 7 % 3, id * id * 7_919 % 86_400);
            let second = 20_000 * 86_400 + second;
            let at = Timestamp::saturating_from_micros(second * 1_000_000);
            let zone = if id % 5 == 0 { "Asia/Tokyo" } else { "" };
            text += &format!("{key},{id},{},{zone}\n", rfc3339(at));
        }
        for quotas in [
            &["1/1m", "5/1h", "10/1d"][..],
            &["2/20m"],
            &["2/1h", "3/day@local"],
        ] {
            for (days, is_short) in [(1, true), (3, false), (40, false), (40, true)] {
                for most_asked in [0, 10, usize::MAX] {
                    check(&text, quotas, days, most_asked, is_short);
                }
            }
        }
    }

    #[test]
    fn a_message_that_would_be_planned_too_late_takes_no_room() {
        // In Berlin, the first free time is 07:00, half a second after the end.
        let text = "key,id,time,time_zone\n\
                    a,1,2026-01-01T06:59:59.5Z,Asia/Tokyo\n\
                    a,2,2026-01-03T06:00:00Z,Europe/Berlin\n\
                    a,3,2026-01-03T06:59:59.5Z,Asia/Tokyo\n";
        let messages = messages(text);
        let quotas = ["1/1s", "closed 22:00-08:00@local"].map(|quota| quota.parse().unwrap());
        let horizon = std::time::Duration::from_secs(2 * 86_400);
        let (terms, is_short) = terms::reaching(quotas.into(), horizon).unwrap();
        for most_asked in [0, 10] {
            let task = Task {
                messages: &messages,
                terms: terms.clone(),
                until: messages.span().0.saturating_add(horizon),
                instants: messages.instants(is_short),
                zone: TimeZone::UTC,
                most_asked,
            };
            let found = task.in_memory(&Progress::new(false)).unwrap();
            let planned = found.iter().map(|outcome| outcome.planned.is_ok());
            let planned: Vec<_> = planned.collect();
            assert_eq!(planned, [true, false, true], "{most_asked}");
        }
    }

    /// What is not counted for a quota is counted beside them.
    #[test]
    fn the_table_counts_what_is_beyond_the_horizon_and_what_was_not_looked_up() {
        let mut text = "key,id,time\n".to_owned();
        for id in 0..13 {
            text += &format!("alice,{id},2026-03-01T08:00:00Z\n");
        }
        text += "alice,late,2026-03-03T08:00:00Z\n";
        let rows = "1/1s                 10        0\n\
                    the horizon           0        1\n\
                    not looked up         2        0\n\n";
        let text = check(&text, &["1/1s"], 1, 10, false);
        assert!(text.contains(rows), "{text}");
    }
}
