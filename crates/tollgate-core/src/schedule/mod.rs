//! Schedules: events at times to come, as many around each other as quotas allow.

mod answer;
#[cfg(feature = "calendar")]
mod calendar;
mod call;
#[cfg(feature = "calendar")]
mod closed;
mod cover;
mod event;
mod events;
mod operation;
mod quota;
mod request;
mod search;
mod store;
pub(crate) mod terms;
#[cfg(feature = "calendar")]
mod zone;

use std::fmt;
use std::sync::Arc;

use crate::error::LimitError;
use crate::key::Key;
use crate::time::Timestamp;

pub use crate::cover::Period;
pub use answer::{Answer, BatchPlacement, BatchRefusal, Placement, PlannedEvent, Reason, Refusal};
#[cfg(feature = "calendar")]
pub use calendar::CalendarQuota;
#[cfg(feature = "calendar")]
pub use call::Placing;
pub use call::{Call, FromAnswer, Move, Reset, Weighted};
#[cfg(feature = "calendar")]
pub use closed::ClosedTimes;
pub use event::{Event, LONGEST_ID};
pub use events::State;
pub use operation::Operation;
pub use quota::{MAX_AMOUNT, Quota};
pub use request::{MAX_EVENTS_PER_CALL, Request};
pub use store::{Store, SyncStore};
pub use terms::{MAX_EVENTS, Terms};
#[cfg(feature = "calendar")]
pub use zone::Zone;

/// Plans events for later, so that no window ever holds more of them than its quota.
///
/// A rate limiter counts what happens now; a schedule counts what will happen. With the quotas
/// `1/1m`, `5/1h` and `10/1d`, no minute, no hour and no 24 hours ever hold more events, wherever
/// they begin: past midnight, and whether an event is added before or after its neighbors.
///
/// Every event has an id of the caller's, unique for its key. Adding the same id at the same time
/// again changes nothing, so a caller who does not know whether a call arrived repeats it.
///
/// Each operation is atomic, and one round trip on a server. A schedule limits the times that are
/// planned: if events may start late, by up to `J`, plan them with windows longer by `J`.
///
/// # Examples
///
/// ```
/// use tollgate_core::schedule::{self, Placement, Schedule};
/// use tollgate_core::{StoreError, Timestamp};
///
/// # async fn remind(store: impl schedule::Store, noon: Timestamp) -> Result<(), StoreError> {
/// let schedule = Schedule::new(store, "reminders", ["1/1m", "5/1h", "10/1d"]).unwrap();
/// match schedule.add("alice", "msg-17", noon).await? {
///     Placement::Planned { time, .. } => println!("planned at {time:?}"),
///     Placement::Refused(refusal) => println!("{refusal}"),
/// }
/// // Finds the first free time, and takes it, in one step.
/// let sent_at = schedule.reserve_next("alice", "msg-18", noon).await?.permit();
/// # Ok(())
/// # }
/// ```
///
/// Clones are cheap and share the store and the quotas.
pub struct Schedule<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    terms: Terms,
    store: S,
}

impl<S> Schedule<S> {
    /// Returns a schedule called `name` with these quotas on `store`, each a
    /// [`schedule::Quota`](Quota), a [`Quota`](crate::Quota) or its text.
    ///
    /// # Errors
    ///
    /// The same as [`Terms::new`], which also says what the horizon and the tolerance are. To
    /// choose them, use [`with_terms`](Self::with_terms).
    pub fn new<Q>(
        store: S,
        name: &str,
        quotas: impl IntoIterator<Item = Q>,
    ) -> Result<Self, LimitError>
    where
        Q: TryInto<Quota>,
        LimitError: From<Q::Error>,
    {
        Ok(Self::with_terms(store, Terms::new(name, quotas)?))
    }

    /// Returns a schedule with these terms on `store`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::LimitError;
    /// use tollgate_core::schedule::{self, Schedule};
    ///
    /// # fn example<S>(store: S) -> Result<(), LimitError> {
    /// let week = Duration::from_secs(7 * 86_400);
    /// let terms = schedule::Terms::new("reminders", ["1/1m", "10/1d"])?.with_horizon(week)?;
    /// let schedule = Schedule::with_terms(store, terms);
    /// assert_eq!(schedule.terms().horizon(), week);
    /// # Ok(())
    /// # }
    /// # example(()).unwrap();
    /// ```
    pub fn with_terms(store: S, terms: Terms) -> Self {
        Self {
            shared: Arc::new(Shared { terms, store }),
        }
    }

    /// Returns the name, the quotas, the horizon and the tolerance.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.shared.terms
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Plans the event `id` of `key` at `time`, if every quota has room.
    ///
    /// If the id is planned at this time already, with the same weight, this changes nothing and
    /// says so. If it is planned at another time, the event is refused: move it with
    /// [`reschedule`](Self::reschedule).
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::schedule::{self, Schedule};
    /// # use tollgate_core::{StoreError, Timestamp};
    /// # async fn remind(schedule: &Schedule<impl schedule::Store>, noon: Timestamp) -> Result<(), StoreError> {
    /// let placement = schedule.add("alice", "msg-17", noon).weight(2).await?;
    /// if let Err(refusal) = placement.permit() {
    ///     println!("the next free time: {:?}", refusal.next_free());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn add<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        id: &'k (impl AsRef<[u8]> + ?Sized),
        time: Timestamp,
    ) -> Call<'s, 'k, S, Placement> {
        let event = Event::new(id, time);
        self.call(key.into(), Operation::Add(vec![event]))
    }

    /// Plans all of `events`, up to [`MAX_EVENTS_PER_CALL`], or none of them.
    ///
    /// Events that are planned already, at the same time and with the same weight, stay as they
    /// are.
    pub fn add_all<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        events: impl IntoIterator<Item = Event<'k>>,
    ) -> Call<'s, 'k, S, BatchPlacement> {
        let events = events.into_iter().collect();
        self.call(key.into(), Operation::Add(events))
    }

    /// Moves the event `id` to `time`, if every quota has room there once the event has left its
    /// old time. If the new time is refused, the event stays where it is. It keeps its weight.
    pub fn reschedule<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        id: &'k (impl AsRef<[u8]> + ?Sized),
        time: Timestamp,
    ) -> Call<'s, 'k, S, Move> {
        let event = Event::new(id, time);
        self.call(key.into(), Operation::Reschedule(event))
    }

    /// Removes the event `id`, and returns whether there was one.
    pub fn cancel<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        id: &'k (impl AsRef<[u8]> + ?Sized),
    ) -> Call<'s, 'k, S, bool> {
        self.call(key.into(), Operation::Cancel(id.as_ref()))
    }

    /// Returns the first free time that is neither before `from` nor in the past, or `None` if
    /// there is none up to the horizon. It reserves nothing.
    pub fn next_free<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        from: Timestamp,
    ) -> Call<'s, 'k, S, Option<Timestamp>> {
        self.call(key.into(), Operation::NextFree { from, weight: 1 })
    }

    /// Plans the event `id` at the first free time that is neither before `from` nor in the past.
    ///
    /// If the id is planned already, with the same weight, this changes nothing and returns its
    /// time.
    pub fn reserve_next<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        id: &'k (impl AsRef<[u8]> + ?Sized),
        from: Timestamp,
    ) -> Call<'s, 'k, S, Placement> {
        let event = Event::new(id, from);
        self.call(key.into(), Operation::ReserveNext(event))
    }

    /// Lists the events of `key` from `from` until before `until`, by time.
    ///
    /// Events are forgotten once they are so long past that they affect no other event.
    pub fn list<'s, 'k>(
        &'s self,
        key: impl Into<Key<'k>>,
        from: Timestamp,
        until: Timestamp,
    ) -> Call<'s, 'k, S, Vec<PlannedEvent>> {
        self.call(key.into(), Operation::List { from, until })
    }

    /// Forgets all events of `key`, those planned at the store's clock and at callers' instants.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tollgate_core::schedule::{self, Schedule};
    /// # use tollgate_core::{StoreError, Timestamp};
    /// # fn forget(schedule: &Schedule<impl schedule::SyncStore>, noon: Timestamp) -> Result<(), StoreError> {
    /// schedule.reset("alice").run()?;
    /// assert!(schedule.list("alice", Timestamp::UNIX_EPOCH, Timestamp::MAX).run()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reset<'s, 'k>(&'s self, key: impl Into<Key<'k>>) -> Reset<'s, 'k, S> {
        Reset::new(self, key.into())
    }

    fn call<'s, 'k, A>(&'s self, key: Key<'k>, operation: Operation<'k>) -> Call<'s, 'k, S, A> {
        Call::new(self, key, operation)
    }
}

impl<S> Clone for Schedule<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Shows the terms; a store, such as a `dyn Store`, need not implement `Debug`.
impl<S> fmt::Debug for Schedule<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule")
            .field("terms", self.terms())
            .finish_non_exhaustive()
    }
}
