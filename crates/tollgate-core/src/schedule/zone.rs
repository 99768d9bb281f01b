//! `Zone`: the time zone of a calendar quota or of closed times, which a call may bring.

use std::fmt;

use jiff::tz::TimeZone;

use crate::calendar;
use crate::cycle::LOCAL;
use crate::error::LimitError;
use crate::text::Reader;

/// The time zone of a [`CalendarQuota`](super::CalendarQuota) or of
/// [`ClosedTimes`](super::ClosedTimes).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Zone {
    /// This zone, in every call.
    Fixed(TimeZone),
    /// The zone that [the call](crate::schedule::Call::zone) brings: `@local` as text.
    Local,
}

impl Zone {
    /// Reads the name of a zone, or `local`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, LimitError> {
        let at = reader.at();
        match reader.until_comma() {
            LOCAL => Ok(Self::Local),
            name => calendar::zone(name).map(Self::Fixed).ok_or_else(|| {
                let expected = "the name of a time zone, such as Europe/Berlin, or `local`";
                reader.expected(at, expected)
            }),
        }
    }

    /// Returns this zone, or for [`Local`](Self::Local) the one that a call `brought`.
    #[must_use]
    pub fn of_call<'z>(&'z self, brought: Option<&'z TimeZone>) -> Option<&'z TimeZone> {
        match self {
            Self::Fixed(zone) => Some(zone),
            Self::Local => brought,
        }
    }
}

impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Self {
        Self::Fixed(zone)
    }
}

/// Writes the name of the zone, or `local`.
impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(zone) => f.write_str(&calendar::name_of(zone)),
            Self::Local => f.write_str(LOCAL),
        }
    }
}
