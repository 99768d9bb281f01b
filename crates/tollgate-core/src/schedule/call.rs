//! `Call`: a call to a schedule, which does nothing until it is awaited or run.

use std::fmt;
use std::marker::PhantomData;

use crate::error::StoreError;
use crate::key::Key;
use crate::schedule::Schedule;
use crate::schedule::answer::{Answer, BatchPlacement, Placement, PlannedEvent, Refusal};
use crate::schedule::operation::{CallZone, Operation};
use crate::schedule::request::Request;
use crate::schedule::store::{Store, SyncStore};
use crate::store::BoxFuture;
use crate::time::Timestamp;

/// How often a request brings more of a calendar's periods: enough for the longest horizon.
const MOST_WIDENINGS: usize = 24;

/// A pending call to a [`Schedule`], which answers with an `A`, or, if that is [`Move`], with a
/// [`Placement`].
///
/// End it with `.await`, or with [`run`](Self::run) on a store that need not wait.
///
/// # Errors
///
/// Awaiting and running return the store's errors. A refused event is an answer, not an error.
///
/// # Cancel safety
///
/// If the future is dropped before it completes, events may or may not have been planned. Ask again
/// with the same ids: an event is planned once.
#[must_use = "a call does nothing until it is awaited, or ended by `run`"]
pub struct Call<'s, 'k, S, A> {
    schedule: &'s Schedule<S>,
    key: Key<'k>,
    operation: Operation<'k>,
    zone: Option<CallZone>,
    at: Option<Timestamp>,
    answer: PhantomData<fn() -> A>,
}

impl<'s, 'k, S, A> Call<'s, 'k, S, A> {
    pub(super) fn new(schedule: &'s Schedule<S>, key: Key<'k>, operation: Operation<'k>) -> Self {
        Self {
            schedule,
            key,
            operation,
            zone: None,
            at: None,
            answer: PhantomData,
        }
    }

    /// Sets the instant to decide at, instead of the store's own clock. See
    /// [`Request::at`](crate::store::Request::at) for its restrictions.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Converts this call into a request.
    #[must_use]
    pub fn into_request(self) -> Request<'k>
    where
        's: 'k,
    {
        let request = Request::of(self.schedule.terms(), self.key, self.operation, self.zone);
        match self.at {
            Some(now) => request.at(now),
            None => request,
        }
    }
}

impl<S, A: Weighted> Call<'_, '_, S, A> {
    /// Sets the weight, 1 by default: how many events this one counts as.
    ///
    /// A weight above the amount of a quota is always refused. An event that is
    /// [moved](Schedule::reschedule) keeps its weight:
    ///
    /// ```compile_fail,E0599
    /// # use tollgate_core::Timestamp;
    /// # use tollgate_core::schedule::Schedule;
    /// # fn moves<S>(schedule: &Schedule<S>, noon: Timestamp) {
    /// let call = schedule.reschedule("alice", "msg-17", noon).weight(2);
    /// # }
    /// ```
    pub fn weight(mut self, of: u64) -> Self {
        match &mut self.operation {
            Operation::Add(events) => {
                for event in events {
                    *event = event.with_weight(of);
                }
            }
            Operation::ReserveNext(event) | Operation::Reschedule(event) => {
                *event = event.with_weight(of);
            }
            Operation::NextFree { weight, .. } => *weight = of,
            Operation::Cancel(_) | Operation::List { .. } => {}
        }
        self
    }
}

#[cfg(feature = "calendar")]
impl<S, A: Placing> Call<'_, '_, S, A> {
    /// Brings the recipient's time zone, in which quotas and closed times of the zone `@local` count.
    ///
    /// A call without it is an error if a quota is `@local`; if none is, the zone changes nothing.
    /// Calls for one key may bring different zones, when a recipient travels: each is decided by the
    /// days and closed times of its own zone, and all planned events count by their instants.
    ///
    /// # Examples
    ///
    /// ```
    /// use jiff::tz::TimeZone;
    /// use tollgate_core::schedule::{self, Schedule};
    /// use tollgate_core::{StoreError, Timestamp};
    ///
    /// # async fn remind(store: impl schedule::Store, noon: Timestamp) -> Result<(), StoreError> {
    /// let quotas = ["1/1m", "10/day@local", "closed 22:00-08:00@local"];
    /// let schedule = Schedule::new(store, "reminders", quotas).unwrap();
    /// let zone = TimeZone::get("Europe/Berlin").unwrap();
    /// let sent_at = schedule.reserve_next("alice", "msg-18", noon).zone(zone).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn zone(mut self, zone: CallZone) -> Self {
        self.zone = Some(zone);
        self
    }
}

impl<S: SyncStore, A: FromAnswer> Call<'_, '_, S, A> {
    /// Decides this call without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<A::Output, StoreError> {
        let store = self.schedule.store();
        let mut request = self.into_request();
        for _ in 0..MOST_WIDENINGS {
            match store.schedule_now(&request)? {
                Answer::Uncovered(at) => request.widen(at),
                answer => return A::of(answer, &request).ok_or_else(StoreError::another_answer),
            }
        }
        Err(StoreError::another_answer())
    }
}

impl<'s: 'k, 'k, S: Store, A: FromAnswer + 'k> IntoFuture for Call<'s, 'k, S, A> {
    type Output = Result<A::Output, StoreError>;
    type IntoFuture = BoxFuture<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let store = self.schedule.store();
        let mut request = self.into_request();
        Box::pin(async move {
            for _ in 0..MOST_WIDENINGS {
                match store.schedule(request.clone()).await? {
                    Answer::Uncovered(at) => request.widen(at),
                    answer => {
                        return A::of(answer, &request).ok_or_else(StoreError::another_answer);
                    }
                }
            }
            Err(StoreError::another_answer())
        })
    }
}

impl<S, A> fmt::Debug for Call<'_, '_, S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("schedule", &self.schedule.terms().name())
            .field("key", &self.key)
            .field("operation", &self.operation)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// A pending reset, made by [`Schedule::reset`]. End it with `.await` or [`run`](Self::run).
///
/// # Errors
///
/// Awaiting and running return the store's errors. After
/// [`Unknown`](crate::ErrorKind::Unknown), reset again.
#[must_use = "a reset does nothing until it is awaited, or ended by `run`"]
pub struct Reset<'s, 'k, S> {
    schedule: &'s Schedule<S>,
    key: Key<'k>,
}

impl<'s, 'k, S> Reset<'s, 'k, S> {
    pub(super) fn new(schedule: &'s Schedule<S>, key: Key<'k>) -> Self {
        Self { schedule, key }
    }
}

impl<S: SyncStore> Reset<'_, '_, S> {
    /// Runs this reset without waiting.
    ///
    /// # Errors
    ///
    /// Returns the store's errors.
    pub fn run(self) -> Result<(), StoreError> {
        let terms = self.schedule.terms();
        self.schedule.store().reset_schedule_now(terms, self.key)
    }
}

impl<'s: 'k, 'k, S: Store> IntoFuture for Reset<'s, 'k, S> {
    type Output = Result<(), StoreError>;
    type IntoFuture = BoxFuture<'k, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let terms = self.schedule.terms();
        self.schedule.store().reset_schedule(terms, self.key)
    }
}

impl<S> fmt::Debug for Reset<'_, '_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reset")
            .field("schedule", &self.schedule.terms().name())
            .field("key", &self.key)
            .finish()
    }
}

/// The answers of calls to a schedule: the type `A` of a [`Call`].
///
/// A [`Placement`], a [`Move`], a [`BatchPlacement`], a time (`Option<Timestamp>`), whether there was
/// an event (`bool`), or events.
#[doc(hidden)]
pub trait FromAnswer: Sized + Send {
    /// What the call returns: the same, but for a [`Move`] a [`Placement`].
    type Output: Send;

    /// Converts the store's answer to `request`, if it is of the right kind.
    #[doc(hidden)]
    fn of(answer: Answer, request: &Request<'_>) -> Option<Self::Output>;
}

/// Stands for the [`Placement`] of an event that is [moved](Schedule::reschedule): such a call has no
/// weight, because the event keeps its own.
#[derive(Debug)]
#[non_exhaustive]
pub enum Move {}

impl FromAnswer for Move {
    type Output = Placement;

    fn of(answer: Answer, request: &Request<'_>) -> Option<Placement> {
        Placement::of(answer, request)
    }
}

/// Answers of calls that look for room, in the recipient's time zone if they bring one.
#[cfg(feature = "calendar")]
#[doc(hidden)]
pub trait Placing: FromAnswer {}

#[cfg(feature = "calendar")]
impl Placing for Placement {}
#[cfg(feature = "calendar")]
impl Placing for Move {}
#[cfg(feature = "calendar")]
impl Placing for BatchPlacement {}
#[cfg(feature = "calendar")]
impl Placing for Option<Timestamp> {}

/// Answers of calls that take a weight.
#[doc(hidden)]
pub trait Weighted: FromAnswer {}

impl FromAnswer for Placement {
    type Output = Self;

    fn of(answer: Answer, request: &Request<'_>) -> Option<Self> {
        match (answer, request.operation()) {
            (Answer::Added(added), Operation::Add(events)) => Some(Self::Planned {
                time: events.first()?.time(),
                is_new: added > 0,
            }),
            (Answer::Planned { time, is_new }, _) => Some(Self::Planned { time, is_new }),
            (Answer::Refused { index, refusal }, _) => {
                Some(Self::Refused(told(refusal, index, request)))
            }
            _ => None,
        }
    }
}

impl Weighted for Placement {}

impl FromAnswer for BatchPlacement {
    type Output = Self;

    fn of(answer: Answer, request: &Request<'_>) -> Option<Self> {
        match answer {
            Answer::Added(added) => Some(Self::Planned { added }),
            Answer::Refused { index, refusal } => {
                let refusal = told(refusal, index, request);
                Some(Self::Refused { index, refusal })
            }
            _ => None,
        }
    }
}

/// Returns the refusal of the event at `index`, which says so if the event can never take place.
fn told(refusal: Refusal, index: usize, request: &Request<'_>) -> Refusal {
    let event = match request.operation() {
        Operation::Add(events) => events.get(index),
        Operation::ReserveNext(event) => Some(event),
        // An event that is moved keeps a weight that the request does not say.
        _ => None,
    };
    match event {
        Some(event) => refusal.of_weight(event.weight(), request.terms().quotas()),
        None => refusal,
    }
}

macro_rules! from_answer {
    ($($answer:ident => $type:ty,)+) => {$(
        impl FromAnswer for $type {
            type Output = Self;

            fn of(answer: Answer, _: &Request<'_>) -> Option<Self> {
                match answer {
                    Answer::$answer(found) => Some(found),
                    _ => None,
                }
            }
        }
    )+};
}

from_answer! {
    Cancelled => bool,
    Events => Vec<PlannedEvent>,
    Found => Option<Timestamp>,
}

impl Weighted for Option<Timestamp> {}
