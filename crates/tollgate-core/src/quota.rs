//! `Quota`: N units per window.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{LimitError, Problem};
use crate::text::Reader;
use crate::time::MAX_EXACT;

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
const HOUR_US: u64 = 60 * MINUTE_US;
const DAY_US: u64 = 24 * HOUR_US;

/// An amount per time window: `N` units per `T` microseconds.
///
/// An amount of zero is valid and denies every cost above zero.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Quota;
///
/// assert_eq!(Quota::per_minute(5), Quota::new(5, Duration::from_secs(60))?);
/// // Odd and sub-second windows are as exact as round ones.
/// let odd = Quota::new(7, Duration::from_millis(1_300))?;
/// assert_eq!(odd.to_string(), "7/1300ms");
/// assert_eq!("7/1300ms".parse::<Quota>()?, odd);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Quota {
    /// At most [`MAX_EXACT`].
    amount: u64,
    /// From 1 to [`MAX_EXACT`].
    window_us: u64,
}

impl Quota {
    /// Returns `amount` units per `window`.
    ///
    /// # Errors
    ///
    /// [`Amount`](crate::LimitErrorKind::Amount) when `amount` exceeds [`MAX_EXACT`];
    /// [`Duration`](crate::LimitErrorKind::Duration) when `window` is zero, is not whole microseconds, or exceeds
    /// [`MAX_EXACT`] microseconds.
    pub fn new(amount: u64, window: Duration) -> Result<Self, LimitError> {
        if amount > MAX_EXACT {
            return Err(LimitError(Problem::AmountTooLarge {
                amount,
                most: MAX_EXACT,
            }));
        }
        let whole = window.subsec_nanos().is_multiple_of(1_000);
        match u64::try_from(window.as_micros()) {
            Ok(window_us) if whole && (1..=MAX_EXACT).contains(&window_us) => {
                Ok(Self { amount, window_us })
            }
            _ => Err(LimitError(Problem::BadWindow {
                window,
                most: Duration::from_micros(MAX_EXACT),
            })),
        }
    }

    /// Returns another amount in the same window.
    pub(crate) fn with_amount(self, amount: u64) -> Result<Self, LimitError> {
        Self::new(amount, self.window())
    }

    /// Returns `amount` units per second.
    #[must_use]
    pub const fn per_second(amount: u32) -> Self {
        Self::of(amount, SECOND_US)
    }

    /// Returns `amount` units per minute.
    #[must_use]
    pub const fn per_minute(amount: u32) -> Self {
        Self::of(amount, MINUTE_US)
    }

    /// Returns `amount` units per hour.
    #[must_use]
    pub const fn per_hour(amount: u32) -> Self {
        Self::of(amount, HOUR_US)
    }

    /// Returns `amount` units per 24 hours.
    #[must_use]
    pub const fn per_day(amount: u32) -> Self {
        Self::of(amount, DAY_US)
    }

    const fn of(amount: u32, window_us: u64) -> Self {
        Self {
            // A widening cast: `u64::from` cannot be called in a `const fn`.
            amount: amount as u64,
            window_us,
        }
    }

    /// Returns the amount, `N`.
    #[must_use]
    pub const fn amount(self) -> u64 {
        self.amount
    }

    /// Returns the window, `T`.
    #[must_use]
    pub const fn window(self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    /// Returns the window in microseconds.
    #[must_use]
    pub const fn window_us(self) -> u64 {
        self.window_us
    }
}

/// Writes `N/WINDOW` with the window in the largest unit that divides it, as [`FromStr`] reads it.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.amount)?;
        self.write_window(f)
    }
}

/// Largest first, so that the first divisor is the shortest way to write a window.
const UNITS: [(u64, &str); 6] = [
    (DAY_US, "d"),
    (HOUR_US, "h"),
    (MINUTE_US, "m"),
    (SECOND_US, "s"),
    (1_000, "ms"),
    (1, "us"),
];

/// Other names that people write; a day has none, since `day` is one of the calendar in a schedule.
const OTHER_NAMES: [(u64, &str); 8] = [
    (HOUR_US, "hour"),
    (HOUR_US, "hours"),
    (MINUTE_US, "min"),
    (MINUTE_US, "minute"),
    (MINUTE_US, "minutes"),
    (SECOND_US, "sec"),
    (SECOND_US, "second"),
    (SECOND_US, "seconds"),
];

impl FromStr for Quota {
    type Err = LimitError;

    /// Reads `N/WINDOW`, such as `20/1h`. The window's unit is `us`, `ms`, `s`, `m`, `h` or `d`; also
    /// `sec`, `min`, and `second`, `minute` and `hour`, in the plural, too. Without a number, the
    /// window is one unit: `5/min` is `5/1m`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let mut reader = Reader::new(text, 0);
        let quota = Self::read(&mut reader)?;
        if reader.is_at_end() {
            Ok(quota)
        } else {
            Err(reader.expected(reader.at(), "the end"))
        }
    }
}

impl Quota {
    /// Reads a quota, and leaves the text after it unread.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, LimitError> {
        let amount_at = reader.at();
        let amount = reader.number("a whole number and `/WINDOW`, such as `20/1h`")?;
        if !reader.skip('/') {
            return Err(reader.expected(reader.at(), "`/` and a window, such as `/1h`"));
        }
        let start = reader.at();
        match reader.number(WINDOW) {
            Ok(count) => Self::read_unit(reader, (amount, amount_at), (count, start)),
            Err(error) if reader.at() > start || reader.is_at_end() => Err(error),
            Err(_) => Self::read_unit(reader, (amount, amount_at), (1, start)),
        }
    }

    /// Writes the window in the largest unit that divides it.
    pub(crate) fn write_window(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = UNITS
            .into_iter()
            .find(|(unit, _)| self.window_us.is_multiple_of(*unit))
            .unwrap_or((1, "us"));
        write!(f, "{}{name}", self.window_us / unit)
    }

    /// Reads a time as the window of a quota of the largest amount.
    pub(crate) fn read_time(reader: &mut Reader<'_>) -> Result<Self, LimitError> {
        let start = reader.at();
        let count = reader.number(WINDOW)?;
        Self::read_unit(reader, (MAX_EXACT, start), (count, start))
    }

    /// Reads the unit of the window of a quota. With the amount and the number of units comes where
    /// the text says them.
    fn read_unit(
        reader: &mut Reader<'_>,
        (amount, amount_at): (u64, usize),
        (count, start): (u64, usize),
    ) -> Result<Self, LimitError> {
        let window = "a time from `1us` to 2^53 - 1 µs, such as `1h`";
        let unit_at = reader.at();
        let name = reader.word();
        let mut units = UNITS.into_iter().chain(OTHER_NAMES);
        let unit = units.find(|(_, known)| *known == name);
        let (unit, _) = unit.ok_or_else(|| {
            let is_of_calendar = CALENDAR_UNITS.contains(&name.trim_end_matches('s'));
            reader.expected(unit_at, if is_of_calendar { LENGTH } else { UNIT })
        })?;
        let micros = count.checked_mul(unit);
        let micros = micros.ok_or_else(|| reader.expected(start, window))?;
        Self::new(amount, Duration::from_micros(micros)).map_err(|error| {
            let is_window = matches!(error, LimitError(Problem::BadWindow { .. }));
            reader.bad_value(if is_window { start } else { amount_at }, error)
        })
    }
}

const CALENDAR_UNITS: [&str; 4] = ["day", "week", "month", "year"];

/// What an error says was expected instead of a unit, and of one of the calendar.
const UNIT: &str = "a unit: us, ms, s, m, h or d";
const LENGTH: &str = "a unit: us, ms, s, m, h or d, which is 24 hours; or a time zone after a unit of the \
    calendar, as `5/day@UTC` in a schedule, or `fixed-window:5/day@UTC`";

/// What an error says was expected instead of a window.
const WINDOW: &str = "a number and a unit, such as `1m` or `1h`";
