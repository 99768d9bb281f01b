//! Plans messages in their order, in memory or on a server.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::tz::TimeZone;
use tollgate_core::schedule::{self, Placement, Reason, Schedule};
use tollgate_core::{StoreError, Timestamp};
use tollgate_memory::MemoryStore;

use super::answer::Outcome;
use super::full::Full;
use super::messages::{Message, Messages};
use crate::commands::schedule::refusal::reason;
use crate::failure::Failure;
use crate::lanes::{Run, Work};
use crate::output::Output;
use crate::progress::Progress;
use crate::store::Remote;
use crate::text::named;
use crate::trace::KeyId;

/// Fewer messages are planned so quickly in memory that they get no bar.
const MANY: usize = 10_000;

/// A message and the instant to decide at.
type Item<'m> = (&'m Message, Timestamp);

/// Plans each of `messages` in memory, at its instant.
pub(super) fn in_memory(
    terms: &schedule::Terms,
    messages: &Messages,
    instants: &[Timestamp],
    zone: &TimeZone,
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    if messages.len() >= MANY {
        progress.start_deciding(messages.len(), "planning");
    }
    // Room for every key: a plan must not fail because the store is full.
    let store = MemoryStore::builder().max_keys(messages.keys().max(1));
    let planner = Planner::new(store.build(), terms, messages, zone);
    let mut outcomes = Vec::with_capacity(messages.len());
    for item in items(messages, instants) {
        let key = item.0.key.to_bytes();
        let mut asked = planner.first(item);
        outcomes.push(loop {
            match asked {
                Continue(ask) => {
                    let placement = planner.call(&key, item, &ask).run()?;
                    asked = planner.next(item, ask, placement);
                }
                Break(outcome) => break outcome,
            }
        });
        progress.advance(1);
    }
    Ok(outcomes)
}

/// Plans each of `messages` on the server of `run`, at its instant.
pub(super) fn on_server(
    run: &Run,
    terms: &schedule::Terms,
    messages: &Messages,
    instants: &[Timestamp],
    zone: &TimeZone,
    watched: (&Output, &Progress),
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::with_capacity(messages.len());
    let begin = |store| {
        Ok(OnServer {
            planner: Planner::new(store, terms, messages, zone),
            items: items(messages, instants).collect(),
            messages,
        })
    };
    run.finish(begin, watched, "planning", |_, outcome| {
        outcomes.push(outcome);
    })?;
    Ok(outcomes)
}

fn items<'m>(messages: &'m Messages, instants: &'m [Timestamp]) -> impl Iterator<Item = Item<'m>> {
    messages.iter().zip(instants.iter().copied())
}

/// A schedule, and what a plan has learned about the times of each key.
struct Planner<S> {
    schedule: Schedule<S>,
    full: Mutex<Vec<Full>>,
    zone: TimeZone,
}

/// What to ask the store about a message.
enum Ask {
    /// To plan it at its wanted time. If that has no room, the refusal names the quota in the way.
    Wanted,
    /// To plan it at the first free time from `from`. This `quota` was in the way at the wanted time, if
    /// that was asked.
    From {
        from: Timestamp,
        quota: Option<schedule::Quota>,
    },
}

impl<S> Planner<S> {
    fn new(store: S, terms: &schedule::Terms, messages: &Messages, zone: &TimeZone) -> Self {
        Self {
            schedule: Schedule::with_terms(store, terms.clone()),
            full: Mutex::new(messages.key_ids().map(|_| Full::default()).collect()),
            zone: zone.clone(),
        }
    }

    /// Returns what to ask first about a message, or why there is no room for it.
    fn first(&self, (message, at): Item<'_>) -> ControlFlow<Outcome, Ask> {
        let full = &mut self.full()[message.key.index()];
        full.bring(self.zone_of(message));
        if full.asks() {
            return Continue(Ask::Wanted);
        }
        let from = full.first_from(message.wanted);
        let latest = self.latest(at);
        if message.wanted <= latest && from > latest {
            return Break(self.no_room(message, None, latest));
        }
        Continue(Ask::From { from, quota: None })
    }

    fn call<'a>(
        &'a self,
        key: &'a [u8],
        (message, at): Item<'a>,
        ask: &Ask,
    ) -> schedule::Call<'a, 'a, S, Placement> {
        let id = &*message.id;
        let call = match ask {
            Ask::Wanted => self.schedule.add(key, id, message.wanted),
            Ask::From { from, .. } => self.schedule.reserve_next(key, id, *from),
        };
        call.zone(self.zone_of(message).clone()).at(at)
    }

    /// Returns what to ask after this answer, or what became of the message.
    fn next(
        &self,
        (message, at): Item<'_>,
        ask: Ask,
        placement: Placement,
    ) -> ControlFlow<Outcome, Ask> {
        let full = &mut self.full()[message.key.index()];
        let (from, quota) = match ask {
            Ask::Wanted => (message.wanted, None),
            Ask::From { from, quota } => (from, quota),
        };
        let refusal = match placement.permit() {
            Ok(time) => {
                full.add(from, time);
                return Break(Outcome::Planned { time, quota });
            }
            Err(refusal) => refusal,
        };
        let Reason::Quota(in_the_way) = refusal.reason() else {
            return Break(Outcome::Refused {
                reason: reason(&refusal, self.zone_of(message)),
                quota: None,
                is_beyond: true,
            });
        };
        if let (true, Some(next)) = (full.asks(), refusal.next_free()) {
            full.count_question();
            full.add(from, next);
            let quota = Some(in_the_way.clone());
            return Continue(Ask::From { from: next, quota });
        }
        let latest = self.latest(at);
        full.add(
            from,
            Timestamp::saturating_from_micros(latest.as_micros() + 1),
        );
        let in_the_way = full.asks().then_some(in_the_way);
        full.count_question();
        Break(self.no_room(message, in_the_way, latest))
    }

    fn full(&self) -> MutexGuard<'_, Vec<Full>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time zone of a message.
    fn zone_of<'a>(&'a self, message: &'a Message) -> &'a TimeZone {
        message.zone.as_ref().unwrap_or(&self.zone)
    }

    /// Returns the end of the horizon at the instant `at`.
    fn latest(&self, at: Timestamp) -> Timestamp {
        at.saturating_add(self.schedule.terms().horizon())
    }

    fn no_room(
        &self,
        message: &Message,
        quota: Option<&schedule::Quota>,
        latest: Timestamp,
    ) -> Outcome {
        let latest = named(latest, self.zone_of(message));
        let mut reason = format!("no time from the wanted one to {latest} is free");
        if let Some(quota) = quota {
            reason += &format!("; at the wanted one, {quota} is in the way");
        }
        Outcome::Refused {
            reason,
            quota: quota.cloned(),
            is_beyond: false,
        }
    }
}

/// A plan on a server.
struct OnServer<'m> {
    planner: Planner<Box<dyn Remote>>,
    items: Vec<Item<'m>>,
    messages: &'m Messages,
}

impl<'m> Work for OnServer<'m> {
    type Item = Item<'m>;
    type Answer = Outcome;

    fn items(&self) -> &[Item<'m>] {
        &self.items
    }

    fn key_of((message, _): &Item<'m>) -> KeyId {
        message.key
    }

    async fn call(&self, item: &Item<'m>) -> Result<Outcome, StoreError> {
        let (planner, key) = (&self.planner, item.0.key.to_bytes());
        let mut asked = planner.first(*item);
        loop {
            match asked {
                Continue(ask) => {
                    let placement = planner.call(&key, *item, &ask).await?;
                    asked = planner.next(*item, ask, placement);
                }
                Break(outcome) => return Ok(outcome),
            }
        }
    }

    fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.messages.key_ids()
    }

    async fn forget(&self, key: KeyId) -> Result<(), StoreError> {
        self.planner.schedule.reset(&key.to_bytes()[..]).await
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::schedule::Refusal;

    use super::*;
    use crate::commands::schedule::terms;
    use crate::text::rfc3339;

    /// Numbers that look random.
    struct Mixed(u64);

    impl Mixed {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    #[test]
    fn times_that_are_passed_over_have_no_room() {
        const SECOND: u64 = 1_000_000;
        let mut mixed = Mixed(7);
        for quotas in [
            &["1/1m", "5/1h", "10/1d"][..],
            &["3/1m"],
            &["2/1h", "3/day@Europe/Berlin"],
        ] {
            for days in [1, 3, 40] {
                let mut text = "key,id,time\n".to_owned();
                for id in 0..300 {
                    let (key, second) = (mixed.below(3), mixed.below(86_400));
                    let at = Timestamp::saturating_from_micros((20_000 * 86_400 + second) * SECOND);
                    text += &format!("{key},{id},{}\n", rfc3339(at));
                }
                let messages = Messages::parse("test".to_owned(), text.as_bytes());
                let messages = messages.unwrap_or_else(|failure| panic!("{failure}"));
                let quotas = quotas.iter().map(|quota| quota.parse().unwrap()).collect();
                let horizon = std::time::Duration::from_secs(days * 86_400);
                let (terms, _) = terms::reaching(quotas, horizon).unwrap_or_else(|f| panic!("{f}"));
                let instants = messages.instants(mixed.below(2) == 1);
                let progress = Progress::new(false);
                let found = in_memory(&terms, &messages, &instants, &TimeZone::UTC, &progress);
                let found = found.unwrap_or_else(|failure| panic!("{failure}"));
                let schedule = Schedule::with_terms(MemoryStore::new(), terms);
                for ((message, at), outcome) in items(&messages, &instants).zip(found) {
                    let key = message.key.to_bytes();
                    let wanted = schedule.add(&key[..], &*message.id, message.wanted);
                    let wanted = wanted.at(at).run().unwrap().permit();
                    let call = schedule.reserve_next(&key[..], &*message.id, message.wanted);
                    let expected = call.at(at).run().unwrap().permit().ok();
                    match outcome {
                        Outcome::Planned { time, .. } => assert_eq!(Some(time), expected),
                        Outcome::Refused { .. } => assert_eq!(None, expected),
                    }
                    let refusal = wanted.err();
                    let in_the_way = refusal.as_ref().and_then(Refusal::quota);
                    assert_eq!(outcome.quota(), in_the_way);
                }
            }
        }
    }
}
