//! `Placement` and `Refusal`: what a schedule answers.

use std::error::Error;
use std::fmt;

use crate::cover::Uncovered;
use crate::schedule::quota::Quota;
use crate::time::Timestamp;

/// The answer to a request to plan an event: it is planned, or refused.
///
/// # Examples
///
/// ```
/// use tollgate_core::schedule::Placement;
/// use tollgate_core::Timestamp;
///
/// fn send_at(placement: Placement) -> Option<Timestamp> {
///     match placement {
///         Placement::Planned { time, .. } => Some(time),
///         Placement::Refused(refusal) => {
///             println!("{refusal}");
///             refusal.next_free()
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "an event that was refused does not take place"]
#[allow(
    clippy::exhaustive_enums,
    reason = "there is no third answer, and a match need not expect one"
)]
pub enum Placement {
    /// The event is planned.
    Planned {
        /// When it takes place.
        time: Timestamp,
        /// Whether this call changed anything. If not, the event was planned at this time already.
        is_new: bool,
    },
    /// The event was refused, and nothing has changed.
    Refused(Refusal),
}

impl Placement {
    /// Returns the time of the event, or the refusal as an error.
    ///
    /// # Errors
    ///
    /// The refusal, if the event was refused.
    pub fn permit(self) -> Result<Timestamp, Refusal> {
        match self {
            Self::Planned { time, .. } => Ok(time),
            Self::Refused(refusal) => Err(refusal),
        }
    }

    /// Returns whether the event is planned.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        matches!(self, Self::Planned { .. })
    }
}

/// Whether several events were planned: all of them, or none.
///
/// # Examples
///
/// ```
/// use tollgate_core::schedule::{BatchPlacement, BatchRefusal, Reason, Refusal};
///
/// fn plan(placement: BatchPlacement) -> Result<usize, BatchRefusal> {
///     let added = placement.permit()?;
///     Ok(added)
/// }
///
/// let planned = BatchPlacement::Planned { added: 3 };
/// assert!(planned.is_planned());
/// assert_eq!(plan(planned).unwrap(), 3);
///
/// let refusal = Refusal::new(Reason::UnknownId);
/// let error = plan(BatchPlacement::Refused { index: 1, refusal }).unwrap_err();
/// assert_eq!(error.index(), 1);
/// assert!(error.to_string().starts_with("the event at index 1: "));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use = "events that were refused do not take place"]
#[allow(
    clippy::exhaustive_enums,
    reason = "there is no third answer, and a match need not expect one"
)]
pub enum BatchPlacement {
    /// All events are planned.
    Planned {
        /// How many of them are new; the others were planned at the same time already.
        added: usize,
    },
    /// No event was added.
    Refused {
        /// The index of the first event that does not fit, given the events before it.
        index: usize,
        /// Why it does not fit.
        refusal: Refusal,
    },
}

impl BatchPlacement {
    /// Returns how many events are new, or the refusal as an error.
    ///
    /// # Errors
    ///
    /// The refusal, if the events were refused.
    pub fn permit(self) -> Result<usize, BatchRefusal> {
        match self {
            Self::Planned { added } => Ok(added),
            Self::Refused { index, refusal } => Err(BatchRefusal { index, refusal }),
        }
    }

    /// Returns whether the events are planned.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        matches!(self, Self::Planned { .. })
    }
}

/// Why several events were refused: the first that does not fit, and its refusal.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the event at index {index}: {refusal}")]
pub struct BatchRefusal {
    index: usize,
    refusal: Refusal,
}

impl BatchRefusal {
    /// Returns the index of the first event that does not fit, given the events before it.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns why it does not fit.
    #[must_use]
    pub fn refusal(&self) -> &Refusal {
        &self.refusal
    }
}

/// Why an event was refused, and when it could take place instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    pub(crate) reason: Reason,
    pub(crate) next_free: Option<Timestamp>,
    is_too_heavy: bool,
}

impl Refusal {
    /// Returns a refusal for this reason, without free times: for stores and mocks.
    #[must_use]
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            next_free: None,
            is_too_heavy: false,
        }
    }

    /// Says so if a quota never has room for an event of this weight.
    pub(super) fn of_weight(mut self, weight: u64, quotas: &[Quota]) -> Self {
        let counting = quotas.iter().filter(|quota| quota.counts());
        let smallest = counting.min_by_key(|quota| quota.amount());
        if let (Reason::Quota(quota), Some(smallest)) = (&mut self.reason, smallest)
            && smallest.amount() < weight
        {
            *quota = smallest.clone();
            self.is_too_heavy = true;
        }
        self
    }

    /// Sets the first free time.
    #[must_use]
    pub fn with_next_free(mut self, time: Option<Timestamp>) -> Self {
        self.next_free = time;
        self
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }

    /// Returns the quota in the way, if that is the reason.
    #[must_use]
    pub fn quota(&self) -> Option<&Quota> {
        match &self.reason {
            Reason::Quota(quota) => Some(quota),
            _ => None,
        }
    }

    /// Returns whether the event can never take place, because its weight exceeds the amount of the
    /// [quota](Self::quota).
    ///
    /// For an event that was to be moved, whose weight the caller does not give, it is `false`.
    #[must_use]
    pub fn is_too_heavy(&self) -> bool {
        self.is_too_heavy
    }

    /// Returns the first free time that is not before the time that was asked for, or `None` if
    /// there is none up to the horizon, or the time is not what was refused.
    #[must_use]
    pub fn next_free(&self) -> Option<Timestamp> {
        self.next_free
    }
}

/// Why an event was refused.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// This quota has no room, or the time is closed by it. If several have none, it is the one that
    /// has room again last.
    Quota(Quota),
    /// The time lies further in the past than the tolerance allows. This is the earliest that is
    /// allowed.
    Past(Timestamp),
    /// The time lies beyond the horizon. This is the latest that is allowed.
    BeyondHorizon(Timestamp),
    /// The id is taken: its event is planned at this time, and differs in time or weight.
    IdTaken(Timestamp),
    /// No event has this id, so there is none to move.
    UnknownId,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Quota(quota) if self.is_too_heavy => write!(
                f,
                "the quota {quota} never has room for this event: choose a weight of at most {}",
                quota.amount()
            )?,
            Reason::Quota(quota) if quota.counts() => {
                write!(f, "the quota {quota} has no room at this time")?;
            }
            Reason::Quota(closed) => write!(f, "nothing can be planned at this time: {closed}")?,
            Reason::Past(earliest) => {
                write!(
                    f,
                    "this time is in the past: the earliest possible is {earliest}"
                )?;
            }
            Reason::BeyondHorizon(latest) => {
                write!(
                    f,
                    "this time is beyond the horizon: the latest possible is {latest}"
                )?;
            }
            Reason::IdTaken(time) => write!(
                f,
                "another event with this id is planned at {time}: move it with `reschedule`, or \
                 choose another id"
            )?,
            Reason::UnknownId => f.write_str("no event with this id is planned: add it instead")?,
        }
        match (self.next_free, &self.reason) {
            (Some(next), _) => write!(f, "; the next free time is {next}"),
            (None, Reason::Quota(_)) if !self.is_too_heavy => {
                f.write_str("; no later time up to the horizon is free")
            }
            _ => Ok(()),
        }
    }
}

impl Error for Refusal {}

/// An event that is planned.
#[derive(Clone, Eq, PartialEq)]
pub struct PlannedEvent {
    pub(crate) id: Box<[u8]>,
    pub(crate) time: Timestamp,
    pub(crate) weight: u64,
}

impl PlannedEvent {
    /// Returns an event with this id, time and weight: for stores and mocks.
    #[must_use]
    pub fn new(id: impl Into<Box<[u8]>>, time: Timestamp, weight: u64) -> Self {
        Self {
            id: id.into(),
            time,
            weight,
        }
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Returns when the event takes place.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the weight: how many events this one counts as.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

/// Shows the length of the id only: it may be a secret.
impl fmt::Debug for PlannedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlannedEvent")
            .field("id_bytes", &self.id.len())
            .field("time", &self.time)
            .field("weight", &self.weight)
            .finish()
    }
}

/// What a store answers to a [`Request`](crate::schedule::Request).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// To `Add`: all events are planned. How many of them are new.
    Added(usize),
    /// To `Reschedule` and `ReserveNext`: the event is planned.
    Planned {
        /// When it takes place.
        time: Timestamp,
        /// Whether anything has changed.
        is_new: bool,
    },
    /// To `Add`, `Reschedule` and `ReserveNext`: nothing has changed.
    Refused {
        /// The index of the event, if there are several.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
    /// To `Cancel`: whether there was such an event.
    Cancelled(bool),
    /// To `NextFree`: the free time, if there is one.
    Found(Option<Timestamp>),
    /// To `List`: the events, by time, then by id.
    Events(Vec<PlannedEvent>),
    /// The request brings no period that holds this time. [Widen](crate::schedule::Request::widen) it
    /// and ask again. Nothing has changed.
    Uncovered(Uncovered),
}
