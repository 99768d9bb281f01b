//! `Quota`: one of the quotas of a schedule, with its name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{LimitError, Problem};
use crate::limit::check_name;
#[cfg(feature = "calendar")]
use crate::schedule::{Period, operation::CallZone};
use crate::text::{Reader, from_texts};
use crate::time::MAX_EXACT;
#[cfg(feature = "calendar")]
use crate::time::Timestamp;

/// The largest amount of a schedule's quota.
///
/// Planning one event reads up to twice as many events, so this bounds how long a server works on
/// one call.
pub const MAX_AMOUNT: u64 = 100_000;

/// One of the quotas of a [`Schedule`](crate::schedule::Schedule), with its name.
///
/// There are three kinds:
///
/// - `N` per window `T`: every half-open interval of length `T` holds at most `N` events, wherever
///   it begins.
/// - `N` per local day, week, month or year (with the feature `calendar`): every day of a time zone holds
///   at most `N` events. Days have 23 to 25 hours where clocks change.
/// - Closed local times (with the feature `calendar`): nothing is planned at them. They count
///   nothing, so a schedule needs a quota of another kind beside them.
///
/// As text it is `5/1h`, `10/day@Europe/Berlin` or `closed 22:00-08:00@Europe/Berlin`, optionally
/// with a name before it: `hourly=5/1h`. Without a name, the text is its name. Cloning is cheap.
///
/// # Examples
///
/// ```
/// use tollgate_core::{LimitError, Quota, schedule};
///
/// let hourly = schedule::Quota::new("hourly", Quota::per_hour(5))?;
/// assert_eq!(hourly, "hourly=5/1h".parse()?);
/// assert_eq!("5/1h".parse::<schedule::Quota>()?.name(), "5/1h");
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Quota {
    /// Empty if the quota has no name of its own.
    name: Arc<str>,
    kind: Kind,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Sliding(crate::quota::Quota),
    #[cfg(feature = "calendar")]
    Calendar(super::CalendarQuota),
    #[cfg(feature = "calendar")]
    Closed(super::ClosedTimes),
}

impl Quota {
    /// Returns the quota called `name` of a schedule: `quota` in every window, wherever it begins.
    ///
    /// # Errors
    ///
    /// - [`Name`](crate::LimitErrorKind::Name) unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    /// - [`Amount`](crate::LimitErrorKind::Amount) when the amount exceeds [`MAX_AMOUNT`].
    /// - [`Duration`](crate::LimitErrorKind::Duration) when the window exceeds 35 years.
    pub fn new(name: &str, quota: crate::quota::Quota) -> Result<Self, LimitError> {
        check_name(name)?;
        Self::of(name, Kind::Sliding(quota))
    }

    /// Returns `quota` for every day, week, month or year of a time zone, with this name.
    ///
    /// # Errors
    ///
    /// The same as [`new`](Self::new).
    #[cfg(feature = "calendar")]
    pub fn calendar(name: &str, quota: super::CalendarQuota) -> Result<Self, LimitError> {
        check_name(name)?;
        Self::of(name, Kind::Calendar(quota))
    }

    /// Returns a quota of nothing at these local times, with this name.
    ///
    /// # Errors
    ///
    /// [`Name`](crate::LimitErrorKind::Name) unless `name` is 1 to 64 ASCII letters, digits, `-`, `_` or `.`.
    #[cfg(feature = "calendar")]
    pub fn closed(name: &str, times: super::ClosedTimes) -> Result<Self, LimitError> {
        check_name(name)?;
        Self::of(name, Kind::Closed(times))
    }

    fn of(name: &str, kind: Kind) -> Result<Self, LimitError> {
        let amount = kind.amount();
        if amount > MAX_AMOUNT {
            return Err(LimitError(Problem::AmountTooLarge {
                amount,
                most: MAX_AMOUNT,
            }));
        }
        if let Kind::Sliding(quota) = &kind
            && quota.window_us() > LONGEST_WINDOW_US
        {
            return Err(LimitError(Problem::BadWindow {
                window: quota.window(),
                most: Duration::from_micros(LONGEST_WINDOW_US),
            }));
        }
        Ok(Self {
            name: name.into(),
            kind,
        })
    }

    /// Returns the name, or the text of the quota if it has none.
    #[must_use]
    pub fn name(&self) -> String {
        if self.name.is_empty() {
            self.kind.to_string()
        } else {
            self.name.as_ref().to_owned()
        }
    }

    /// Returns how much weight a window, day, week, month or year may hold: nothing for closed times.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.kind.amount()
    }

    /// Returns the closed times, or `None` for a quota that counts events.
    #[cfg(feature = "calendar")]
    #[must_use]
    pub fn closed_times(&self) -> Option<&super::ClosedTimes> {
        match &self.kind {
            Kind::Closed(times) => Some(times),
            _ => None,
        }
    }

    /// Returns whether this quota counts events, as all but closed times do.
    pub(crate) fn counts(&self) -> bool {
        match &self.kind {
            Kind::Sliding(_) => true,
            #[cfg(feature = "calendar")]
            Kind::Calendar(_) => true,
            #[cfg(feature = "calendar")]
            Kind::Closed(_) => false,
        }
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns whether this quota needs the time zone of a call.
    pub(crate) fn needs_zone(&self) -> bool {
        match &self.kind {
            Kind::Sliding(_) => false,
            #[cfg(feature = "calendar")]
            Kind::Calendar(quota) => *quota.zone() == super::Zone::Local,
            #[cfg(feature = "calendar")]
            Kind::Closed(times) => *times.zone() == super::Zone::Local,
        }
    }

    /// Returns the window in microseconds, or `None` for a calendar's quota or closed times.
    pub(crate) fn window_us(&self) -> Option<u64> {
        match self.kind() {
            Kind::Sliding(quota) => Some(quota.window_us()),
            #[cfg(feature = "calendar")]
            Kind::Calendar(_) | Kind::Closed(_) => None,
        }
    }

    /// Returns for how long after its time an event can affect other events, in microseconds.
    pub(crate) fn reach_us(&self) -> u64 {
        match &self.kind {
            Kind::Sliding(quota) => quota.window_us(),
            #[cfg(feature = "calendar")]
            Kind::Calendar(quota) => quota.longest_us(),
            #[cfg(feature = "calendar")]
            Kind::Closed(_) => 0,
        }
    }

    /// Returns the most weight that events within `span_us` can have, or `None` if this quota does
    /// not bound it.
    pub(crate) fn most_within(&self, span_us: u64) -> Option<u64> {
        let windows = self.windows_within(span_us)?;
        Some(self.amount().saturating_mul(windows))
    }

    /// Returns how many windows, each with the whole amount, can lie in `span_us` or reach into it,
    /// or `None` if this quota does not count.
    pub(crate) fn windows_within(&self, span_us: u64) -> Option<u64> {
        let (length, more) = match &self.kind {
            // As many windows as cover the span.
            Kind::Sliding(quota) => (quota.window_us(), 0),
            #[cfg(feature = "calendar")]
            // The first and the last are cut off.
            Kind::Calendar(quota) => (quota.shortest_us(), 2),
            #[cfg(feature = "calendar")]
            Kind::Closed(_) => return None,
        };
        Some(span_us.div_ceil(length) + more)
    }

    /// Returns the calendar's periods from the one that holds `from` to the one that holds
    /// `until`, or `None` for another quota. `zone` is the one that the call brings.
    #[cfg(feature = "calendar")]
    pub(super) fn periods(
        &self,
        zone: Option<&CallZone>,
        from: Timestamp,
        until: Timestamp,
    ) -> Option<Vec<Period>> {
        let Kind::Calendar(quota) = &self.kind else {
            return None;
        };
        Some(quota.periods(quota.zone().of_call(zone)?, from, until))
    }
}

/// The longest window: an event's time and two windows still fit into 2^53 microseconds.
const LONGEST_WINDOW_US: u64 = MAX_EXACT / 8;

impl Kind {
    fn amount(&self) -> u64 {
        match self {
            Self::Sliding(quota) => quota.amount(),
            #[cfg(feature = "calendar")]
            Self::Calendar(quota) => quota.amount(),
            #[cfg(feature = "calendar")]
            Self::Closed(_) => 0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sliding(quota) => quota.fmt(f),
            #[cfg(feature = "calendar")]
            Self::Calendar(quota) => quota.fmt(f),
            #[cfg(feature = "calendar")]
            Self::Closed(times) => times.fmt(f),
        }
    }
}

/// Writes the text that [`FromStr`] reads.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}=", self.name)?;
        }
        self.kind.fmt(f)
    }
}

impl FromStr for Quota {
    type Err = LimitError;

    /// Reads `[NAME=]N/WINDOW`, such as `hourly=5/1h`, or with the feature `calendar` also
    /// `[NAME=]N/UNIT@ZONE[,OPTION...]`, such as `10/day@Europe/Berlin`, where the unit is `day`, `week`,
    /// `month` or `year` and the options are those of a [fixed window](crate::Algorithm), or
    /// `[NAME=]closed TIMES@ZONE`, such as `closed 22:00-08:00@Europe/Berlin`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        // An `=` after a quota or closed times belongs to an option.
        let named = text
            .split_once('=')
            .filter(|(name, _)| !name.contains(['/', '@']));
        let (name, start) = named.map_or(("", 0), |(name, _)| (name, name.len() + 1));
        let bad = |at, error| Reader::new(text, 0).bad_value(at, error);
        if start > 0 {
            check_name(name).map_err(|error| bad(0, error))?;
        }
        const CLOSED: &str = "closed";
        if text[start..].starts_with(CLOSED) {
            let at = start + CLOSED.len();
            #[cfg(feature = "calendar")]
            {
                let times = super::ClosedTimes::read(text, at)?;
                return Self::of(name, Kind::Closed(times));
            }
            #[cfg(not(feature = "calendar"))]
            return Err(LimitError(Problem::Syntax {
                text: text.to_owned(),
                at,
                expected: "no closed times: they need the feature `calendar`".into(),
            }));
        }
        if let Some(at) = text.find('@') {
            #[cfg(feature = "calendar")]
            {
                let quota = super::CalendarQuota::read(text, start, at)?;
                return Self::of(name, Kind::Calendar(quota)).map_err(|error| bad(start, error));
            }
            #[cfg(not(feature = "calendar"))]
            return Err(LimitError(Problem::Syntax {
                text: text.to_owned(),
                at,
                expected: "no time zone: quotas per local day need the feature `calendar`".into(),
            }));
        }
        let mut reader = Reader::new(text, start);
        let quota = crate::quota::Quota::read(&mut reader)?;
        if !reader.is_at_end() {
            let at = reader.at();
            let expected = match reader.skip(',') {
                true => {
                    "the end of the quota: options need a unit of a time zone, such as `5/day@UTC,at=04:00`"
                }
                false => "the end of the quota, or `@` and a time zone",
            };
            return Err(reader.expected(at, expected));
        }
        Self::of(name, Kind::Sliding(quota)).map_err(|error| {
            let window_at = text.find('/').map_or(start, |slash| slash + 1);
            let is_window = matches!(error, LimitError(Problem::BadWindow { .. }));
            bad(if is_window { window_at } else { start }, error)
        })
    }
}

from_texts!(Quota);

/// Clones the quota, which is cheap.
impl From<&Self> for Quota {
    fn from(quota: &Self) -> Self {
        quota.clone()
    }
}

/// Names the quota after its text.
impl TryFrom<crate::quota::Quota> for Quota {
    type Error = LimitError;

    fn try_from(quota: crate::quota::Quota) -> Result<Self, LimitError> {
        Self::of("", Kind::Sliding(quota))
    }
}
