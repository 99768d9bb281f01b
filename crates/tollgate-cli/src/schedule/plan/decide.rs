//! Plans messages in their order, in memory or on a server.

use tollgate_core::{Placement, Reason, Schedule, StoreError, Terms, Timestamp};
use tollgate_memory::MemoryStore;

use super::answer::Outcome;
use super::messages::{Message, Messages};
use crate::failure::Failure;
use crate::lanes::{Run, Work};
use crate::output::Output;
use crate::progress::Progress;
use crate::schedule::events;
use crate::store::Remote;
use crate::text::rfc3339;
use crate::trace::KeyId;

/// Fewer messages are planned so quickly in memory that they get no bar.
const MANY: usize = 10_000;

/// A message and the instant to decide at.
pub(super) type Item<'m> = (&'m Message, Timestamp);

/// Plans each of `messages` in memory, at its instant.
pub(super) fn in_memory(
    terms: &Terms,
    messages: &Messages,
    instants: &[Timestamp],
    progress: &Progress,
) -> Result<Vec<Outcome>, Failure> {
    if messages.len() >= MANY {
        progress.start_deciding(messages.len(), "planning");
    }
    // Room for every key: a plan must not fail because the store is full.
    let store = MemoryStore::builder().max_keys(messages.keys().max(1));
    let schedule = Schedule::with_terms(store.build(), terms.clone());
    let mut outcomes = Vec::with_capacity(messages.len());
    for (message, at) in items(messages, instants) {
        let key = message.key.to_bytes();
        let call = schedule.reserve_next(&key[..], message.wanted, &*message.id);
        outcomes.push(outcome(terms, at, call.at(at).run()?));
        progress.advance(1);
    }
    Ok(outcomes)
}

/// Plans each of `messages` on the server of `run`, at its instant.
pub(super) fn on_server(
    run: &Run,
    terms: &Terms,
    messages: &Messages,
    instants: &[Timestamp],
    watched: (&Output, &Progress),
) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::with_capacity(messages.len());
    let begin = |store| {
        Ok(OnServer {
            schedule: Schedule::with_terms(store, terms.clone()),
            items: items(messages, instants).collect(),
            messages,
        })
    };
    run.finish(begin, watched, "planning", |(_, at), placement| {
        outcomes.push(outcome(terms, *at, placement));
    })?;
    Ok(outcomes)
}

fn items<'m>(messages: &'m Messages, instants: &'m [Timestamp]) -> impl Iterator<Item = Item<'m>> {
    messages.iter().zip(instants.iter().copied())
}

/// A plan on a server.
struct OnServer<'m> {
    schedule: Schedule<Box<dyn Remote>>,
    items: Vec<Item<'m>>,
    messages: &'m Messages,
}

impl<'m> Work for OnServer<'m> {
    type Item = Item<'m>;
    type Answer = Placement;

    fn items(&self) -> &[Item<'m>] {
        &self.items
    }

    fn key_of((message, _): &Item<'m>) -> KeyId {
        message.key
    }

    async fn call(&self, (message, at): &Item<'m>) -> Result<Placement, StoreError> {
        let key = message.key.to_bytes();
        let call = self
            .schedule
            .reserve_next(&key[..], message.wanted, &*message.id);
        call.at(*at).await
    }

    fn keys(&self) -> impl Iterator<Item = KeyId> {
        self.messages.key_ids()
    }

    async fn forget(&self, key: KeyId) -> Result<(), StoreError> {
        self.schedule.reset(&key.to_bytes()[..]).await
    }
}

/// Returns the outcome of a message that was planned at the instant `at`.
fn outcome(terms: &Terms, at: Timestamp, placement: Placement) -> Outcome {
    match placement.permit() {
        Ok(time) => Outcome::Planned(time),
        Err(refusal) => Outcome::Refused(match refusal.reason() {
            Reason::Quota(quota) => {
                let horizon = at.saturating_add(terms.horizon());
                format!("the quota {quota} has no room up to {}", rfc3339(horizon))
            }
            _ => events::reason(&refusal),
        }),
    }
}
