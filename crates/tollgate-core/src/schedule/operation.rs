//! `Operation`: what a request does with a schedule.

use std::fmt;

use crate::schedule::event::Event;
use crate::time::Timestamp;

/// What a request does with the events of a key.
#[derive(Clone)]
#[non_exhaustive]
pub enum Operation<'a> {
    /// Adds all of these events, or none.
    Add(Vec<Event<'a>>),
    /// Moves the event with this id to this time. The event keeps its weight, so this one is 1.
    Reschedule(Event<'a>),
    /// Removes the event with this id.
    Cancel(&'a [u8]),
    /// Finds the first free time for this weight that is not before `from`.
    NextFree {
        /// The earliest time.
        from: Timestamp,
        /// The weight to find room for.
        weight: u64,
    },
    /// Adds this event at the first free time that is not before its own.
    ReserveNext(Event<'a>),
    /// Lists the events from `from` until before `until`.
    List {
        /// The earliest time.
        from: Timestamp,
        /// The time before which events are listed.
        until: Timestamp,
    },
}

/// Shows the lengths of ids only: they may be secrets.
impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(events) => f.debug_tuple("Add").field(events).finish(),
            Self::Reschedule(event) => f.debug_tuple("Reschedule").field(event).finish(),
            Self::Cancel(id) => f
                .debug_struct("Cancel")
                .field("id_bytes", &id.len())
                .finish(),
            Self::NextFree { from, weight } => f
                .debug_struct("NextFree")
                .field("from", from)
                .field("weight", weight)
                .finish(),
            Self::ReserveNext(event) => f.debug_tuple("ReserveNext").field(event).finish(),
            Self::List { from, until } => f
                .debug_struct("List")
                .field("from", from)
                .field("until", until)
                .finish(),
        }
    }
}

/// The time zone that a call brings.
#[cfg(feature = "calendar")]
pub(super) type CallZone = jiff::tz::TimeZone;
/// Without the calendar, no call brings one.
#[cfg(not(feature = "calendar"))]
pub(super) type CallZone = std::convert::Infallible;
