//! `Event`: what is planned.

use std::fmt;

use crate::time::Timestamp;

/// The longest id of an event, in bytes.
pub const LONGEST_ID: usize = 200;

/// An event to plan: its id, its time and its weight.
///
/// # Examples
///
/// ```
/// use tollgate_core::schedule::Event;
/// use tollgate_core::Timestamp;
///
/// let noon = Timestamp::from_micros(1_800_000_000_000_000)?;
/// let event = Event::new("msg-17", noon).with_weight(2);
/// assert_eq!(event.id(), b"msg-17");
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Event<'a> {
    id: &'a [u8],
    time: Timestamp,
    weight: u64,
}

impl<'a> Event<'a> {
    /// Returns an event of weight 1.
    #[must_use]
    pub fn new(id: &'a (impl AsRef<[u8]> + ?Sized), time: Timestamp) -> Self {
        Self {
            id: id.as_ref(),
            time,
            weight: 1,
        }
    }

    /// Sets the weight: how many events this one counts as.
    #[must_use]
    pub fn with_weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Returns the id, which is unique within a schedule's key.
    #[must_use]
    pub fn id(&self) -> &'a [u8] {
        self.id
    }

    /// Returns when the event takes place.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Returns the weight.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    pub(crate) fn at(mut self, time: Timestamp) -> Self {
        self.time = time;
        self
    }
}

/// Shows the length of the id only: it may be a secret.
impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("id_bytes", &self.id.len())
            .field("time", &self.time)
            .field("weight", &self.weight)
            .finish()
    }
}
