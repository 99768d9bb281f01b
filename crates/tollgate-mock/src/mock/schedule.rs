//! `ScheduleExpectation`: an expected call to a schedule, and its answer.

use std::fmt;

use async_trait::async_trait;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{self, Event, PlannedEvent, Reason, Refusal};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};

use super::MockStore;
use super::expected::{self, TimesRange};
use super::message;
use super::received::{described, joined, literal};
use super::single::{self, Standing};

/// A complete expectation of a call to a schedule.
pub(super) type Expected = expected::Expected<Call, Answer>;

/// An expected call to a [`Schedule`](tollgate_core::schedule::Schedule); takes effect once it is given an
/// answer.
///
/// # Examples
///
/// ```
/// use tollgate_core::schedule::{self, Schedule};
/// use tollgate_core::Timestamp;
/// use tollgate_mock::MockStore;
///
/// /// Returns when the message is sent: at noon, or as soon after it as possible.
/// fn send(schedule: &Schedule<impl schedule::SyncStore>, id: &str, noon: Timestamp) -> Timestamp {
///     match schedule.add("alice", id, noon).run().unwrap().permit() {
///         Ok(time) => time,
///         Err(_) => schedule.reserve_next("alice", id, noon).run().unwrap().permit().unwrap(),
///     }
/// }
///
/// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
/// let later = Timestamp::from_micros(1_800_000_060_000_000)?;
/// let mut store = MockStore::new();
/// store.expect_add("reminders", "alice").id("msg-1").planned();
/// store.expect_add("reminders", "alice").id("msg-2").refused_by("1/1m", Some(later));
/// store.expect_reserve("reminders", "alice").id("msg-2").planned_at(later);
///
/// let schedule = Schedule::new(store, "reminders", ["1/1m"])?;
/// assert_eq!(send(&schedule, "msg-1", noon), noon);
/// assert_eq!(send(&schedule, "msg-2", noon), later);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[must_use = "an expectation counts once it is given an answer, such as `planned`"]
pub struct ScheduleExpectation<'m> {
    expected: &'m mut Vec<Expected>,
    call: Call,
    times: TimesRange,
}

/// The calls that an expectation matches.
#[derive(Debug)]
pub(super) struct Call {
    verb: Verb,
    schedule: String,
    key: Vec<u8>,
    id: Option<Vec<u8>>,
    time: Option<Timestamp>,
}

/// The operation of a call, named like the methods of `Schedule`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Verb {
    Add,
    Cancel,
    LatestFree,
    List,
    NextFree,
    Reschedule,
    Reserve,
    Reset,
}

/// The answer to a call.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    AlreadyPlanned,
    Cancelled(bool),
    Events(Vec<PlannedEvent>),
    Fail(ErrorKind),
    Found(Option<Timestamp>),
    Planned,
    PlannedAt(Timestamp),
    Refused(Refusal),
    RefusedBy(String, Option<Timestamp>),
    Succeed,
}

/// A call of the code under test.
struct ReceivedCall<'r> {
    verb: Verb,
    schedule: &'r str,
    key: Key<'r>,
    events: &'r [Event<'r>],
    id: Option<&'r [u8]>,
    time: Option<Timestamp>,
    until: Option<Timestamp>,
    at: Option<Timestamp>,
}

impl MockStore {
    /// Expects a call that adds events to `schedule` for `key`, one or several.
    pub fn expect_add(&mut self, schedule: &str, key: impl AsRef<[u8]>) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::Add, schedule, key)
    }

    /// Expects a call that moves an event of `schedule` for `key`.
    pub fn expect_reschedule(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::Reschedule, schedule, key)
    }

    /// Expects a `reserve_next` in `schedule` for `key`.
    pub fn expect_reserve(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::Reserve, schedule, key)
    }

    /// Expects a call that cancels an event of `schedule` for `key`.
    pub fn expect_cancel(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::Cancel, schedule, key)
    }

    /// Expects a search for the next free time of `schedule` for `key`.
    pub fn expect_next_free(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::NextFree, schedule, key)
    }

    /// Expects a search for the latest free time of `schedule` for `key`.
    pub fn expect_latest_free(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::LatestFree, schedule, key)
    }

    /// Expects a list of the events of `schedule` for `key`.
    pub fn expect_list(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::List, schedule, key)
    }

    /// Expects a reset of `schedule` for `key`.
    pub fn expect_reset_schedule(
        &mut self,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        self.expect_of(Verb::Reset, schedule, key)
    }

    fn expect_of(
        &mut self,
        verb: Verb,
        schedule: &str,
        key: impl AsRef<[u8]>,
    ) -> ScheduleExpectation<'_> {
        ScheduleExpectation {
            expected: &mut self.expectations().of_schedules,
            call: Call {
                verb,
                schedule: schedule.to_owned(),
                key: key.as_ref().to_owned(),
                id: None,
                time: None,
            },
            times: (1..).into(),
        }
    }

    /// Counts a call, and returns its answer.
    ///
    /// # Panics
    ///
    /// If the call is unexpected; it is then not counted.
    fn ask_of(&self, received: &ReceivedCall<'_>) -> Answer {
        let mut expectations = self.lock();
        let answer = single::answer(
            &mut expectations.of_schedules,
            |call| call.is_of(received),
            |call| call.matches(received),
        );
        let standing = match answer {
            Ok(answer) => return answer,
            Err(standing) => standing,
        };
        let told = standing.told("this schedule", "event or time");
        let line = format!("{}: {told}", received.line());
        let text = message::unexpected_call(
            &received.verb,
            received.at,
            [line],
            &expectations.listed(),
            &received.advice(standing),
        );
        panic!("{text}");
    }
}

impl ScheduleExpectation<'_> {
    /// Expects only this event. Of several events that are added at once, one must have this id.
    /// The default is any event.
    ///
    /// # Panics
    ///
    /// If the call is about no event.
    pub fn id(mut self, id: impl AsRef<[u8]>) -> Self {
        let (verb, has_id) = (self.call.verb, self.call.verb.has_id());
        assert!(has_id, "a {verb} is about no event: remove `.id(..)`");
        self.call.id = Some(id.as_ref().to_owned());
        self
    }

    /// Expects only this time: of the event, or where a search or a list begins. The default is any
    /// time.
    ///
    /// # Panics
    ///
    /// If the call has no time.
    pub fn time(mut self, time: Timestamp) -> Self {
        let (verb, has_time) = (self.call.verb, self.call.verb.has_time());
        assert!(has_time, "a {verb} has no time: remove `.time(..)`");
        self.call.time = Some(time);
        self
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
        self.times(0).answer(Answer::Fail(ErrorKind::Unknown));
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

    /// Fails the call with an error of this kind.
    pub fn fail(self, kind: ErrorKind) {
        self.answer(Answer::Fail(kind));
    }

    /// Lets the reset succeed.
    pub fn succeed(self) {
        self.answer(Answer::Succeed);
    }

    /// Adds the expectation.
    ///
    /// # Panics
    ///
    /// If the operation does not accept this answer.
    fn answer(self, answer: Answer) {
        use Verb::{Add, Cancel, LatestFree, List, NextFree, Reschedule, Reserve, Reset};
        let verb = self.call.verb;
        let fits = match &answer {
            Answer::Planned
            | Answer::AlreadyPlanned
            | Answer::Refused(_)
            | Answer::RefusedBy(..) => matches!(verb, Add | Reschedule | Reserve),
            Answer::PlannedAt(_) => verb == Reserve,
            Answer::Cancelled(_) => verb == Cancel,
            Answer::Found(_) => matches!(verb, NextFree | LatestFree),
            Answer::Events(_) => verb == List,
            Answer::Fail(_) => true,
            Answer::Succeed => verb == Reset,
        };
        let answers = verb.answers();
        assert!(fits, "`{answer}` answers no {verb}: answer with {answers}");
        self.expected
            .push(Expected::new(self.call, self.times, answer));
    }
}

impl Call {
    fn is_of(&self, received: &ReceivedCall<'_>) -> bool {
        (self.verb, &self.schedule[..]) == (received.verb, received.schedule)
            && self.key == joined(received.key)
    }

    fn matches(&self, received: &ReceivedCall<'_>) -> bool {
        if !received.events.is_empty() {
            return received.events.iter().any(|event| self.is_about(event));
        }
        self.id.as_deref().is_none_or(|id| Some(id) == received.id)
            && self.time.is_none_or(|time| Some(time) == received.time)
    }

    fn is_about(&self, event: &Event<'_>) -> bool {
        self.id.as_deref().is_none_or(|id| id == event.id())
            && self.time.is_none_or(|time| time == event.time())
    }
}

impl<'r> ReceivedCall<'r> {
    /// Converts `request`, or returns `None` if the mock does not know its operation.
    fn of(request: &'r schedule::Request<'r>) -> Option<Self> {
        let received = |verb| Self {
            verb,
            schedule: request.terms().name(),
            key: request.key(),
            events: &[],
            id: None,
            time: None,
            until: None,
            at: request.caller_time(),
        };
        let of_event = |verb, event: &'r Event<'r>| Self {
            events: std::slice::from_ref(event),
            ..received(verb)
        };
        let from = |verb, time: &Timestamp| Self {
            time: Some(*time),
            ..received(verb)
        };
        Some(match request.operation() {
            schedule::Operation::Add(events) => Self {
                events,
                ..received(Verb::Add)
            },
            schedule::Operation::Reschedule(event) => of_event(Verb::Reschedule, event),
            schedule::Operation::ReserveNext(event) => of_event(Verb::Reserve, event),
            schedule::Operation::Cancel(id) => Self {
                id: Some(id),
                ..received(Verb::Cancel)
            },
            schedule::Operation::NextFree { from: time, .. } => from(Verb::NextFree, time),
            schedule::Operation::LatestFree { until: time, .. } => from(Verb::LatestFree, time),
            schedule::Operation::List { from: time, until } => Self {
                until: Some(*until),
                ..from(Verb::List, time)
            },
            _ => return None,
        })
    }

    /// Returns the line of a message that describes the call.
    fn line(&self) -> String {
        let mut line = format!("schedule `{}` for {}", self.schedule, described(self.key));
        let events: Vec<_> = self.events.iter().map(shown).collect();
        if !events.is_empty() {
            line += &format!(", event {}", events.join(", event "));
        }
        if let Some(id) = self.id {
            line += &format!(", event {}", literal(id));
        }
        if let Some(time) = self.time {
            let word = match self.verb {
                Verb::LatestFree => "until",
                _ => "from",
            };
            line += &format!(", {word} {time}");
        }
        if let Some(until) = self.until {
            line += &format!(" until {until}");
        }
        line
    }

    /// Returns how to expect the call.
    fn advice(&self, standing: Standing) -> String {
        let (verb, schedule) = (self.verb.method(), self.schedule);
        let key = literal(&joined(self.key));
        let mut call = format!("store.expect_{verb}(\"{schedule}\", {key})");
        let what = match standing {
            Standing::Other => {
                let first = self.events.first();
                if let Some(id) = self.id.or_else(|| first.map(Event::id)) {
                    call += &format!(".id({})", literal(id));
                }
                if self.id.is_none() && first.is_none() {
                    call += ".time(..)";
                }
                "this, add"
            }
            Standing::UsedUp => "another call, raise `.times(..)`, or add",
            Standing::NotNamed => "this call, add",
        };
        let answer = match self.verb {
            Verb::Add | Verb::Reschedule | Verb::Reserve => "planned()",
            Verb::Cancel => "cancelled(true)",
            Verb::LatestFree | Verb::NextFree => "found(None)",
            Verb::List => "events([])",
            Verb::Reset => "succeed()",
        };
        format!("to expect {what} `{call}` with an answer, such as `.{answer}`")
    }
}

impl Verb {
    /// Returns what follows `expect_` in the name of the method that expects this operation.
    fn method(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Cancel => "cancel",
            Self::LatestFree => "latest_free",
            Self::List => "list",
            Self::NextFree => "next_free",
            Self::Reschedule => "reschedule",
            Self::Reserve => "reserve",
            Self::Reset => "reset_schedule",
        }
    }

    fn has_id(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Cancel | Self::Reschedule | Self::Reserve
        )
    }

    fn has_time(self) -> bool {
        !matches!(self, Self::Cancel | Self::Reset)
    }

    /// Returns the names of the answers that an expectation of this operation accepts.
    fn answers(self) -> &'static str {
        match self {
            Self::Add | Self::Reschedule => {
                "`planned`, `already_planned`, `refused_by`, `past`, `beyond_horizon`, `refused` \
                 or `fail`"
            }
            Self::Reserve => {
                "`planned`, `planned_at`, `already_planned`, `refused_by`, `beyond_horizon`, \
                 `refused` or `fail`"
            }
            Self::Cancel => "`cancelled` or `fail`",
            Self::LatestFree | Self::NextFree => "`found` or `fail`",
            Self::List => "`events` or `fail`",
            Self::Reset => "`succeed` or `fail`",
        }
    }
}

/// Returns the answer to `request` that `answer` says.
///
/// # Panics
///
/// If no store could give this answer to this request.
fn replied(
    request: &schedule::Request<'_>,
    received: &ReceivedCall<'_>,
    answer: &Answer,
) -> Result<schedule::Answer, StoreError> {
    let refuse = |why: &str| -> ! {
        let (verb, line) = (received.verb, received.line());
        panic!("no store answers `{answer}` to this {verb}:\n  {line}\n{why}")
    };
    let planned = |time: Timestamp, is_new: bool| match received.verb {
        Verb::Add => schedule::Answer::Added(if is_new { received.events.len() } else { 0 }),
        _ => schedule::Answer::Planned { time, is_new },
    };
    // The time of the event, or where a search begins.
    let time = match received.events {
        [event] => event.time(),
        _ => received.time.unwrap_or(Timestamp::UNIX_EPOCH),
    };
    let refused = |refusal: Refusal| {
        let (reason, next) = (refusal.reason(), refusal.next_free());
        // A time that it found would have been reserved.
        if received.verb == Verb::Reserve && (next.is_some() || matches!(reason, Reason::Past(_))) {
            refuse("it reserves a free time, however late: answer with `.planned_at`");
        }
        let has_reason = |event: &Event<'_>| match reason {
            Reason::Past(earliest) => event.time() < *earliest,
            Reason::BeyondHorizon(latest) => event.time() > *latest,
            Reason::UnknownId => received.verb == Verb::Reschedule,
            Reason::IdTaken(_) => received.verb != Verb::Reschedule,
            _ => true,
        };
        let is_refused =
            |event: &Event<'_>| has_reason(event) && next.is_none_or(|next| next > event.time());
        let mut events = received.events.iter();
        match events.position(is_refused) {
            Some(index) => schedule::Answer::Refused { index, refusal },
            None if received.events.iter().any(has_reason) => {
                refuse("a free time after a refused one is later: name a later one")
            }
            None => refuse("this is no reason to refuse the call: answer with another"),
        }
    };
    Ok(match answer {
        Answer::Planned => planned(time, true),
        Answer::AlreadyPlanned => planned(time, false),
        Answer::PlannedAt(at) if *at < time => refuse("it reserves no earlier time: name a later"),
        Answer::PlannedAt(at) => planned(*at, true),
        Answer::Refused(refusal) => refused(refusal.clone()),
        Answer::RefusedBy(name, next) => {
            let mut quotas = request.terms().quotas().iter();
            match quotas.find(|quota| quota.name() == *name) {
                Some(quota) => {
                    let refusal = Refusal::new(Reason::Quota(quota.clone()));
                    refused(refusal.with_next_free(*next))
                }
                None => refuse(&format!(
                    "the schedule has no quota of this name: {}",
                    names(request.terms())
                )),
            }
        }
        Answer::Cancelled(was_planned) => schedule::Answer::Cancelled(*was_planned),
        Answer::Found(found) => {
            let is_behind = |found: &Timestamp| match received.verb {
                Verb::LatestFree => *found > time,
                _ => *found < time,
            };
            if found.as_ref().is_some_and(is_behind) {
                refuse("the search goes the other way: name another time");
            }
            schedule::Answer::Found(*found)
        }
        Answer::Events(events) => {
            let range = time..received.until.unwrap_or(Timestamp::MAX);
            if !events.iter().all(|event| range.contains(&event.time())) {
                refuse("not all of these events are between the times of the list");
            }
            schedule::Answer::Events(events.clone())
        }
        Answer::Fail(kind) => return Err(single::failed(*kind)),
        Answer::Succeed => refuse("only a reset succeeds"),
    })
}

fn names(terms: &schedule::Terms) -> String {
    let names: Vec<_> = terms
        .quotas()
        .iter()
        .map(|quota| format!("`{}`", quota.name()))
        .collect();
    format!("it has {}", names.join(", "))
}

fn shown(event: &Event<'_>) -> String {
    let (id, at) = (literal(event.id()), event.time());
    match event.weight() {
        1 => format!("{id} at {at}"),
        weight => format!("{id} of weight {weight} at {at}"),
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

    async fn reset_schedule<'a>(
        &self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl schedule::SyncStore for MockStore {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        request.validate()?;
        let received = ReceivedCall::of(request).ok_or_else(single::unsupported)?;
        let answer = self.ask_of(&received);
        replied(request, &received, &answer)
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Result<(), StoreError> {
        let received = ReceivedCall {
            verb: Verb::Reset,
            schedule: terms.name(),
            key,
            events: &[],
            id: None,
            time: None,
            until: None,
            at: None,
        };
        match self.ask_of(&received) {
            Answer::Fail(kind) => Err(single::failed(kind)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reserve => "reserve_next",
            Self::Reset => "reset",
            other => other.method(),
        })
    }
}

/// Formats the call as messages list it.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, schedule, key) = (self.verb, &self.schedule, literal(&self.key));
        write!(f, "{verb} of schedule `{schedule}` for key {key}")?;
        match &self.id {
            Some(id) => write!(f, ", event {}", literal(id))?,
            None if verb.has_id() => f.write_str(", any event")?,
            None => {}
        }
        match self.time {
            Some(time) => write!(f, " at {time}"),
            None if verb.has_time() => f.write_str(" at any time"),
            None => Ok(()),
        }
    }
}

/// Formats the answer as it is written in a test.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = |time: &Option<Timestamp>| match time {
            Some(time) => format!("Some({time})"),
            None => "None".to_owned(),
        };
        match self {
            Self::AlreadyPlanned => f.write_str("already_planned()"),
            Self::Cancelled(was_planned) => write!(f, "cancelled({was_planned})"),
            Self::Events(events) => write!(f, "events({} events)", events.len()),
            Self::Fail(kind) => write!(f, "fail({kind:?})"),
            Self::Found(time) => write!(f, "found({})", option(time)),
            Self::Planned => f.write_str("planned()"),
            Self::PlannedAt(time) => write!(f, "planned_at({time})"),
            Self::Refused(refusal) => match refusal.reason() {
                Reason::Past(time) => write!(f, "past({time})"),
                Reason::BeyondHorizon(time) => write!(f, "beyond_horizon({time})"),
                reason => write!(f, "refused({reason:?})"),
            },
            Self::RefusedBy(quota, next) => write!(f, "refused_by({quota:?}, {})", option(next)),
            Self::Succeed => f.write_str("succeed()"),
        }
    }
}

impl fmt::Debug for ScheduleExpectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScheduleExpectation")
            .field(&self.call)
            .finish()
    }
}
