//! `Request`: one operation on a schedule, as data for a store.

use crate::cover::{Cover, Period};
use crate::error::{ErrorKind, StoreError};
use crate::key::Key;
use crate::schedule::event::{Event, LONGEST_ID};
use crate::schedule::operation::{CallZone, Operation};
use crate::schedule::quota::Quota;
use crate::schedule::terms::Terms;
use crate::time::Timestamp;

/// The most events that one call adds, which bounds how long a server works on it.
pub const MAX_EVENTS_PER_CALL: usize = 100;

/// One operation on the events of a key in a schedule.
///
/// [`Schedule`](crate::schedule::Schedule) makes these; a [`Store`](crate::schedule::Store) decides
/// them.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    terms: &'a Terms,
    key: Key<'a>,
    operation: Operation<'a>,
    at: Option<Timestamp>,
    /// The recipient's time zone.
    pub(super) zone: Option<CallZone>,
    /// For each quota that a search looks at, in order, its periods if it is a calendar's, or the open
    /// times.
    pub(super) cover: Cover,
}

impl<'a> Request<'a> {
    /// Returns a request to apply `operation` to the events of `key`.
    #[must_use]
    pub fn new(terms: &'a Terms, key: impl Into<Key<'a>>, operation: Operation<'a>) -> Self {
        Self::of(terms, key.into(), operation, None)
    }

    pub(super) fn of(
        terms: &'a Terms,
        key: Key<'a>,
        operation: Operation<'a>,
        zone: Option<CallZone>,
    ) -> Self {
        let mut request = Self {
            terms,
            key,
            operation,
            at: None,
            zone,
            cover: Cover::default(),
        };
        request.bring_periods();
        request
    }

    /// Sets the recipient's time zone: see [`Call::zone`](crate::schedule::Call::zone).
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn zone(mut self, zone: CallZone) -> Self {
        self.zone = Some(zone);
        self.bring_periods();
        self
    }

    /// Sets the instant to decide at, instead of the store's own clock: see
    /// [`Request::at`](crate::store::Request::at).
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.at = Some(now);
        self
    }

    /// Returns the schedule's name, quotas, horizon and tolerance.
    #[must_use]
    pub fn terms(&self) -> &'a Terms {
        self.terms
    }

    /// Returns the key whose events this is about.
    #[must_use]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> &Operation<'a> {
        &self.operation
    }

    /// Returns the caller's instant, or `None` to use the store's clock.
    #[must_use]
    pub fn caller_time(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns each quota that a search looks at, with its index and its periods, which are empty for a
    /// sliding window.
    pub(crate) fn searched(&self) -> impl Iterator<Item = (usize, &'a Quota, &[Period])> {
        let quotas = self.terms.searched().enumerate();
        quotas.map(|(place, (index, quota))| (index, quota, self.cover.periods(place)))
    }

    /// Returns an error if this request is not valid. Stores call this before they decide.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Malformed`] when no event is added or more than [`MAX_EVENTS_PER_CALL`], when
    /// two events have one id, when an id is empty or longer than [`LONGEST_ID`] bytes, when
    /// a weight is zero, when an event to move has a weight other than 1, or when a quota is
    /// `@local` and the request looks for room without a time zone, or in one in which the closed times
    /// leave nothing open for a year before and after the time that is asked for.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.zone.is_none() && self.span().is_some() && self.terms.needs_zone() {
            return malformed(
                "a quota of this schedule counts in the zone `@local`, which is that of the call: \
                 add the recipient's time zone with `zone`",
            );
        }
        #[cfg(feature = "calendar")]
        if self.is_never_open() {
            return malformed(
                "in the time zone of this call, the closed times leave no time open for a year: \
                 shorten one of them, or use another zone",
            );
        }
        let id = |id: &[u8]| {
            if (1..=LONGEST_ID).contains(&id.len()) {
                return Ok(());
            }
            malformed(format!(
                "an event's id has {} bytes: use 1 to {LONGEST_ID}, a hash of it for example",
                id.len()
            ))
        };
        let weight = |weight: u64| match weight {
            0 => malformed("an event of weight 0 would count nowhere: use a weight of at least 1"),
            _ => Ok(()),
        };
        match &self.operation {
            Operation::Add(events) => {
                if events.is_empty() || events.len() > MAX_EVENTS_PER_CALL {
                    return malformed(format!(
                        "{} events in one call: add 1 to {MAX_EVENTS_PER_CALL}",
                        events.len()
                    ));
                }
                for event in events {
                    id(event.id())?;
                    weight(event.weight())?;
                }
                let mut ids: Vec<_> = events.iter().map(Event::id).collect();
                ids.sort_unstable();
                if ids.windows(2).any(|pair| pair[0] == pair[1]) {
                    return malformed("two events of one call have the same id: give each its own");
                }
                Ok(())
            }
            Operation::Reschedule(event) => {
                id(event.id())?;
                if event.weight() != 1 {
                    return malformed(
                        "an event that is moved keeps its weight: leave the weight out, or cancel \
                         the event and add it with another one",
                    );
                }
                Ok(())
            }
            Operation::ReserveNext(event) => {
                id(event.id())?;
                weight(event.weight())
            }
            Operation::Cancel(event) => id(event),
            Operation::NextFree { weight: of, .. } => weight(*of),
            Operation::List { .. } => Ok(()),
        }
    }
}

fn malformed<T>(message: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Malformed, message))
}
