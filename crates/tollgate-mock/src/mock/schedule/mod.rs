//! Expected calls to schedules, and the answers to them.

mod reply;

use async_trait::async_trait;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{
    self, Event, Operation, PlannedEvent, Reason, Refusal, Schedule, Terms,
};
use tollgate_core::{Key, StoreError, Timestamp};

use super::answer::Answer;
use super::received::{Detail, Received, literal, unsupported};
use super::verb::Verb;
use super::{Expectation, MockStore};

impl MockStore {
    /// Expects a call that adds events to `schedule` for `key`, one or several.
    pub fn expect_add(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::Add, schedule, key)
    }

    /// Expects a call that moves an event of `schedule` for `key`.
    pub fn expect_reschedule(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::Reschedule, schedule, key)
    }

    /// Expects a `reserve_next` in `schedule` for `key`.
    pub fn expect_reserve_next(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::ReserveNext, schedule, key)
    }

    /// Expects a call that cancels an event of `schedule` for `key`.
    pub fn expect_cancel(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::Cancel, schedule, key)
    }

    /// Expects a search for the next free time of `schedule` for `key`.
    pub fn expect_next_free(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::NextFree, schedule, key)
    }

    /// Expects a search for the latest free time of `schedule` for `key`.
    pub fn expect_latest_free(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::LatestFree, schedule, key)
    }

    /// Expects a list of the events of `schedule` for `key`.
    pub fn expect_list(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::List, schedule, key)
    }

    /// Expects a reset of `schedule` for `key`.
    pub fn expect_reset_schedule(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> Expectation<'_, Schedule<Self>> {
        self.expect(Verb::ResetSchedule, schedule, key)
    }
}

impl Expectation<'_, Schedule<MockStore>> {
    /// Expects only this event. Of several events that are added at once, one must have this id.
    /// The default is any event.
    ///
    /// # Panics
    ///
    /// If the call is about no event.
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.only_id(id.as_ref())
    }

    /// Expects only this time: of the event, or where a search or a list begins. The default is any
    /// time.
    ///
    /// # Panics
    ///
    /// If the call has no time.
    pub fn time(mut self, time: Timestamp) -> Self {
        let verb = self.call.verb;
        assert!(verb.has_time(), "a {verb} has no time: remove `.time(..)`");
        self.call.time = Some(time);
        self
    }

    /// Plans the events at the time of the call.
    pub fn planned(self) {
        self.answer(Answer::Planned);
    }

    /// Plans the event of a `reserve_next` at this time.
    pub fn planned_at(self, time: Timestamp) {
        self.answer(Answer::PlannedAt(time));
    }

    /// Answers that the events are planned already, at the time of the call.
    pub fn already_planned(self) {
        self.answer(Answer::AlreadyPlanned);
    }

    /// Refuses the event because of the quota called `quota`, and names the next free time.
    ///
    /// A quota without a name is called as it is written, such as `1/1m`.
    pub fn refused_by(self, quota: &str, next_free: Option<Timestamp>) {
        self.answer(Answer::RefusedBy(quota.to_owned(), next_free));
    }

    /// Refuses the event because its time is before `earliest`, the earliest that is possible.
    pub fn past(self, earliest: Timestamp) {
        self.refused(Refusal::new(Reason::Past(earliest)));
    }

    /// Refuses the event because its time is after `latest`, the latest that is possible.
    pub fn beyond_horizon(self, latest: Timestamp) {
        self.refused(Refusal::new(Reason::BeyondHorizon(latest)));
    }

    /// Refuses the event for any reason, with any free times.
    pub fn refused(self, refusal: Refusal) {
        self.answer(Answer::Refused(refusal));
    }

    /// Answers a `cancel`: whether there was such an event.
    pub fn cancelled(self, was_planned: bool) {
        self.answer(Answer::Cancelled(was_planned));
    }

    /// Answers a search with this free time, or with none.
    pub fn found(self, time: Option<Timestamp>) {
        self.answer(Answer::Found(time));
    }

    /// Answers a list with these events.
    pub fn events(self, events: impl IntoIterator<Item = PlannedEvent>) {
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by(|a, b| (a.time(), a.id()).cmp(&(b.time(), b.id())));
        self.answer(Answer::Events(events));
    }
}

#[async_trait]
impl schedule::Store for MockStore {
    async fn schedule<'a>(
        &self,
        request: &schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.schedule_now(request)
    }

    async fn reset_schedule<'a>(&self, terms: &'a Terms, key: Key<'a>) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl schedule::SyncStore for MockStore {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let received = received(request).ok_or_else(unsupported)?;
        let answer = self.ask_one(&received)?;
        Ok(reply::reply(request, &received, &answer))
    }

    fn reset_schedule_now(&self, terms: &Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = Received::reset(Verb::ResetSchedule, terms.name(), key);
        self.ask(&received).map(drop)
    }
}

/// Converts `request`, or returns `None` if the mock does not know its operation.
fn received<'r>(request: &'r schedule::Request<'r>) -> Option<Received<'r>> {
    let detail = |id, time| Detail {
        cost: None,
        id,
        time,
    };
    let of_event = |event: &Event<'r>| detail(Some(event.id()), Some(event.time()));
    let of_time = |time: &Timestamp| vec![detail(None, Some(*time))];
    let (verb, details, more) = match request.operation() {
        Operation::Add(events) => {
            let details = events.iter().map(of_event).collect();
            (Verb::Add, details, events.iter().map(shown).collect())
        }
        Operation::Cancel(id) => {
            let more = format!(", event {}", literal(id));
            (Verb::Cancel, vec![detail(Some(id), None)], more)
        }
        Operation::LatestFree { until, .. } => {
            (Verb::LatestFree, of_time(until), format!(", until {until}"))
        }
        Operation::List { from, until } => {
            let more = format!(", from {from} until {until}");
            (Verb::List, of_time(from), more)
        }
        Operation::NextFree { from, .. } => {
            (Verb::NextFree, of_time(from), format!(", from {from}"))
        }
        Operation::Reschedule(event) => (Verb::Reschedule, vec![of_event(event)], shown(event)),
        Operation::ReserveNext(event) => (Verb::ReserveNext, vec![of_event(event)], shown(event)),
        _ => return None,
    };
    let terms = request.terms();
    let (call, key) = ((verb, request.caller_time()), request.key());
    Some(Received::of_one(call, terms.name(), key, details, &more))
}

fn shown(event: &Event<'_>) -> String {
    let (id, at) = (literal(event.id()), event.time());
    match event.weight() {
        1 => format!(", event {id} at {at}"),
        weight => format!(", event {id} of weight {weight} at {at}"),
    }
}
