//! `Expectation`: what a test says about an expected call.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use tollgate_core::lease::{self, ConcurrencyLimiter, Lease};
use tollgate_core::schedule::{self, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_core::{ErrorKind, Key, RateLimiter, Timestamp, Wait};

use super::MockStore;
use super::answer::{Answer, Reply};
use super::expected::{Call, Expected};
use super::operation::Verb;
use super::received::literal;
use super::times::TimesRange;

/// An expected call; takes effect once it is given an answer.
///
/// What it can be narrowed to, and the answers, depend on whose call it is: that of a
/// [`RateLimiter`], of a [`Schedule`] or of a [`ConcurrencyLimiter`]. The front page of the crate
/// has an example of each.
#[must_use = "an expectation counts once it is given an answer, such as `allow` or `planned`"]
pub struct Expectation<'m, T = RateLimiter<MockStore>> {
    expected: &'m mut Vec<Expected>,
    call: Call,
    times: TimesRange,
    of: PhantomData<fn() -> T>,
}

/// What is the same for all kinds of calls.
impl<'m, T> Expectation<'m, T> {
    pub(super) fn new(
        expected: &'m mut Vec<Expected>,
        verb: Verb,
        name: &str,
        key: Key<'_>,
    ) -> Self {
        let key = [&*key.partition(), key.rest()].concat();
        Self {
            expected,
            call: Call::new(verb, name, &key),
            times: (1..).into(),
            of: PhantomData,
        }
    }

    /// Expects this number of calls, or a range such as `1..=3`. The default is one or more.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn times(mut self, times: impl Into<TimesRange>) -> Self {
        self.times = times.into();
        self
    }

    /// Expects that no such call is made.
    pub fn never(self) {
        self.times(0).fail(ErrorKind::Unknown);
    }

    /// Fails the call with an error of this kind.
    pub fn fail(self, kind: ErrorKind) {
        self.add(format!("fail({kind:?})"), Reply::Fail(kind));
    }

    /// Lets the block or reset succeed.
    pub fn succeed(self) {
        self.answer("succeed()", Reply::Succeed);
    }

    /// Narrows the expectation by `set`; `detail` is the name of the method that does so.
    fn narrowed(mut self, detail: &str, set: impl FnOnce(&mut Call)) -> Self {
        let verb = self.call.verb;
        let has_it = verb.has(detail);
        assert!(has_it, "a {verb} has no {detail}: remove `.{detail}(..)`");
        set(&mut self.call);
        self
    }

    /// Adds the expectation with this answer, which the test wrote as `text`.
    ///
    /// # Panics
    ///
    /// If the operation does not accept this answer.
    fn answer(self, text: impl Into<String>, reply: Reply) {
        let (verb, text) = (self.call.verb, text.into());
        let (name, answers) = (text.split('(').next(), verb.listed_answers());
        let fits = name.is_some_and(|name| verb.answers().contains(&name));
        assert!(fits, "`{text}` answers no {verb}: answer with {answers}");
        self.add(text, reply);
    }

    fn add(self, text: String, reply: Reply) {
        let answer = Answer { text, reply };
        self.expected
            .push(Expected::new(self.call, self.times, answer));
    }
}

/// Calls of limits.
impl Expectation<'_> {
    /// Expects only this cost. The default is any cost.
    ///
    /// # Panics
    ///
    /// If this is a block or a reset, which have no cost.
    pub fn cost(self, cost: u64) -> Self {
        self.narrowed("cost", |call| call.cost = Some(cost))
    }

    /// Allows the call, as a limit from which nothing was consumed would.
    ///
    /// A `take_up_to` call is granted its cost, or the capacity if that is less.
    pub fn allow(self) {
        self.answer("allow()", Reply::Allow(None));
    }

    /// Allows the call and leaves `remaining` in the limit.
    ///
    /// If another limit denies the request, what the call would have consumed remains as well.
    pub fn allow_with_remaining(self, remaining: u64) {
        let text = format!("allow_with_remaining({remaining})");
        self.answer(text, Reply::Allow(Some(remaining)));
    }

    /// Allows the reservation, which starts after `delay`, rounded up to microseconds, and leaves
    /// nothing.
    ///
    /// A request with several limits starts when the slowest of them allows it.
    pub fn delay_by(self, delay: Duration) {
        let delay = rounded_up(delay);
        self.answer(format!("delay_by({delay})"), Reply::Delay(delay));
    }

    /// Denies the call for `retry_after`, rounded up to microseconds and at least one.
    pub fn deny_for(self, retry_after: Duration) {
        let wait = rounded_up(retry_after).max(Wait::from_micros(1));
        self.answer(format!("deny_for({wait})"), Reply::Deny(wait));
    }

    /// Denies the call forever, like one whose cost exceeds the capacity.
    pub fn deny_forever(self) {
        self.answer("deny_forever()", Reply::Deny(Wait::NEVER));
    }

    /// Grants `granted` to a `take_up_to` call; zero denies it for a second.
    ///
    /// A request with several limits is granted the least that any of them grants.
    pub fn grant(self, granted: u64) {
        self.answer(format!("grant({granted})"), Reply::Grant(granted));
    }
}

/// Calls of schedules.
impl Expectation<'_, Schedule<MockStore>> {
    /// Expects only this event. Of several events that are added at once, one must have this id.
    /// The default is any event.
    ///
    /// # Panics
    ///
    /// If the call is about no event.
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.narrowed("id", |call| call.id = Some(id.as_ref().to_owned()))
    }

    /// Expects only this time: of the event, or where a search or a list begins. The default is any
    /// time.
    ///
    /// # Panics
    ///
    /// If the call has no time.
    pub fn time(self, time: Timestamp) -> Self {
        self.narrowed("time", |call| call.time = Some(time))
    }

    /// Plans the events at the time of the call.
    pub fn planned(self) {
        let (at, is_new) = (None, true);
        self.answer("planned()", Reply::Planned { at, is_new });
    }

    /// Plans the event of a `reserve_next` at this time.
    pub fn planned_at(self, time: Timestamp) {
        let (at, is_new) = (Some(time), true);
        self.answer(format!("planned_at({time})"), Reply::Planned { at, is_new });
    }

    /// Answers that the events are planned already, at the time of the call.
    pub fn already_planned(self) {
        let (at, is_new) = (None, false);
        self.answer("already_planned()", Reply::Planned { at, is_new });
    }

    /// Refuses the event because of the quota called `quota`, and names the next free time.
    ///
    /// A quota without a name is called as it is written, such as `1/1m`.
    pub fn refused_by(self, quota: &str, next_free: Option<Timestamp>) {
        let text = format!("refused_by({quota:?}, {})", option(next_free));
        self.answer(text, Reply::RefusedBy(quota.to_owned(), next_free));
    }

    /// Refuses the event because its time is before `earliest`, the earliest that is possible.
    pub fn past(self, earliest: Timestamp) {
        let refusal = Refusal::new(Reason::Past(earliest));
        self.answer(format!("past({earliest})"), Reply::Refused(refusal));
    }

    /// Refuses the event because its time is after `latest`, the latest that is possible.
    pub fn beyond_horizon(self, latest: Timestamp) {
        let refusal = Refusal::new(Reason::BeyondHorizon(latest));
        self.answer(format!("beyond_horizon({latest})"), Reply::Refused(refusal));
    }

    /// Refuses the event for any reason, with any free times.
    pub fn refused(self, refusal: Refusal) {
        let text = format!("refused({:?})", refusal.reason());
        self.answer(text, Reply::Refused(refusal));
    }

    /// Answers a `cancel`: whether there was such an event.
    pub fn cancelled(self, was_planned: bool) {
        let reply = schedule::Answer::Cancelled(was_planned);
        self.answer(format!("cancelled({was_planned})"), Reply::Scheduled(reply));
    }

    /// Answers a search with this free time, or with none.
    pub fn found(self, time: Option<Timestamp>) {
        let reply = schedule::Answer::Found(time);
        self.answer(format!("found({})", option(time)), Reply::Scheduled(reply));
    }

    /// Answers a list with these events.
    pub fn events(self, events: impl IntoIterator<Item = PlannedEvent>) {
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by(|a, b| (a.time(), a.id()).cmp(&(b.time(), b.id())));
        let text = format!("events({} events)", events.len());
        self.answer(text, Reply::Scheduled(schedule::Answer::Events(events)));
    }
}

/// Calls of concurrency limiters.
impl Expectation<'_, ConcurrencyLimiter<MockStore>> {
    /// Expects only the lease with this id. The default is any lease.
    ///
    /// # Panics
    ///
    /// If the call is about no lease.
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.narrowed("id", |call| call.id = Some(id.as_ref().to_owned()))
    }

    /// Grants this lease, which has the id and the weight of the call.
    pub fn granted(self, lease: Lease) {
        self.answer(of_lease("granted", &lease), Reply::Granted(lease));
    }

    /// Grants a lease with the id and the weight of the call, whatever they are: from `now` for the
    /// time to live, with this token.
    pub fn granted_at(self, now: Timestamp, token: u64) {
        let text = format!("granted_at({now}, {token})");
        self.answer(text, Reply::GrantedAt(now, token));
    }

    /// Answers that this lease is held already: a call before acquired it, with the same id.
    pub fn already_held(self, lease: Lease) {
        self.answer(of_lease("already_held", &lease), Reply::AlreadyHeld(lease));
    }

    /// Denies the lease: `held` are held, and without renewals there is room within this time.
    ///
    /// A weight above the amount is denied forever: [`Wait::NEVER`].
    pub fn denied(self, held: u64, ends_within: Wait) {
        // Exactly, since it may be refused for a microsecond.
        let wait = ends_within.as_micros().map(Duration::from_micros);
        let wait = wait.map_or_else(|| ends_within.to_string(), |wait| format!("{wait:?}"));
        let text = format!("denied({held}, {wait})");
        self.answer(text, Reply::Denied(held, ends_within));
    }

    /// Renews the lease, which has the id and the token of the call.
    pub fn renewed(self, lease: Lease) {
        self.answer(of_lease("renewed", &lease), Reply::Renewed(lease));
    }

    /// Answers a renewal that the lease is no longer held.
    pub fn lost(self) {
        self.answer("lost()", Reply::Leased(lease::Answer::Renewed(None)));
    }

    /// Answers a release: whether the lease was still held.
    pub fn released(self, was_held: bool) {
        let reply = lease::Answer::Released(was_held);
        self.answer(format!("released({was_held})"), Reply::Leased(reply));
    }

    /// Answers a peek: how much is held.
    pub fn occupied(self, held: u64) {
        self.answer(format!("occupied({held})"), Reply::Occupied(held));
    }
}

/// Returns `duration`, rounded up to microseconds.
fn rounded_up(duration: Duration) -> Wait {
    let micros = duration.as_nanos().div_ceil(1_000);
    u64::try_from(micros).map_or(Wait::NEVER, Wait::from_micros)
}

fn option(time: Option<Timestamp>) -> String {
    time.map_or_else(|| "None".to_owned(), |time| format!("Some({time})"))
}

fn of_lease(method: &str, lease: &Lease) -> String {
    let (id, token) = (literal(lease.id()), lease.token());
    format!("{method}({id} with token {token})")
}

impl<T> fmt::Debug for Expectation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expectation({})", self.call)
    }
}
