//! `CalendarUnit` and `CalendarCycle`: days, weeks, months and years, and when they begin.

use std::time::Duration;
use std::{fmt, iter};

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Span, ToSpan};

use crate::error::{LimitError, LimitErrorKind};
use crate::text::{Forms, Options, Reader, WEEKDAYS, write_time};
use crate::time::Timestamp;

const HOUR_US: u64 = 3_600_000_000;

/// In the place of a zone's name, or of a day: it is that of the call.
pub(crate) const LOCAL: &str = "local";

/// A unit of the calendar.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// From one midnight to the next.
    Day,
    /// From the beginning of a Monday to the beginning of the next.
    Week,
    /// From the beginning of the first day of a month to the beginning of the next month.
    Month,
    /// From the beginning of the first of January to the beginning of the next year.
    Year,
}

impl CalendarUnit {
    const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// What an error says was expected instead of a unit.
    pub(crate) const EXPECTED: &'static str = "`day`, `week`, `month` or `year` before `@`";

    /// Returns the unit called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    fn days(self) -> u64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 31,
            Self::Year => 366,
        }
    }

    /// Returns how long the longest unit lasts where no clocks change.
    pub(crate) fn length(self) -> Duration {
        Duration::from_micros(24 * HOUR_US * self.days())
    }

    /// Returns the unit of this [length](Self::length).
    pub(crate) fn of_length(length: Duration) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }

    /// Returns a length that no unit exceeds, in microseconds.
    ///
    /// Where a zone crosses the date line, it repeats or skips a day.
    pub(crate) fn longest_us(self) -> u64 {
        HOUR_US * (24 * self.days() + 26)
    }

    /// Returns how far the beginnings of two units are apart at least, in microseconds, but for days
    /// that a zone skips.
    pub(crate) fn shortest_us(self) -> u64 {
        HOUR_US
            * match self {
                Self::Day => 22,
                Self::Week => 6 * 24 - 2,
                Self::Month => 27 * 24 - 2,
                Self::Year => 364 * 24 - 2,
            }
    }

    /// Returns the first day of the unit that contains `date`.
    pub(crate) fn first_day(self, date: Date) -> Result<Date, jiff::Error> {
        match self {
            Self::Day => Ok(date),
            Self::Week => {
                date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
            }
            Self::Month => Ok(date.first_of_month()),
            Self::Year => Ok(date.first_of_year()),
        }
    }

    pub(crate) fn span(self) -> Span {
        match self {
            Self::Day => 1.day(),
            Self::Week => 1.week(),
            Self::Month => 1.month(),
            Self::Year => 1.year(),
        }
    }
}

/// Days, weeks, months or years, and when they begin: at midnight of their first day, unless this says
/// otherwise.
///
/// | value | text | begins |
/// |---|---|---|
/// | `CalendarCycle::monthly(15)?` | `month@ZONE,day=15` | on the 15th of each month |
/// | `CalendarCycle::weekly(Weekday::Sunday)` | `week@ZONE,start=sunday` | on each Sunday |
/// | `CalendarCycle::yearly(4, 6)?` | `year@ZONE,month=4,day=6` | on each 6th of April |
/// | `CalendarCycle::daily().at(time(4, 0, 0, 0))` | `day@ZONE,at=04:00` | at four in the morning |
///
/// In a month without the day, it is the last one: the 31st is the 30th in April. A time that clocks
/// skip is the end of the gap, and one that they repeat is the first of the two. So the periods of a zone
/// follow each other without a gap, and none overlap.
///
/// # Examples
///
/// ```
/// use jiff::civil::time;
/// use tollgate_core::{Algorithm, CalendarCycle, CalendarWindow, LimitErrorKind};
///
/// let cycle = CalendarCycle::monthly(15)?.at(time(4, 0, 0, 0));
/// let monthly = CalendarWindow::new(10_000, cycle, "Europe/Berlin")?;
/// let text = "fixed-window:10000/month@Europe/Berlin,day=15,at=04:00";
/// assert_eq!(Algorithm::from(monthly), text.parse()?);
///
/// assert_eq!(CalendarCycle::monthly(32).unwrap_err().kind(), LimitErrorKind::Day);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CalendarCycle {
    unit: CalendarUnit,
    /// The month in which a year begins.
    month: i8,
    /// The day on which a month or year begins, or a week: Monday is 1. Zero is the day of the call.
    day: i8,
    /// In seconds of the day.
    at: u32,
}

impl CalendarCycle {
    /// The options of the text, with the form of their values.
    pub(crate) const OPTIONS: Forms = &[
        ("month", "MONTH"),
        ("day", "DAY"),
        ("start", "WEEKDAY"),
        ("at", "HH:MM"),
    ];

    /// Returns days.
    #[must_use]
    pub fn daily() -> Self {
        CalendarUnit::Day.into()
    }

    /// Returns weeks that begin on `first`.
    #[must_use]
    pub fn weekly(first: Weekday) -> Self {
        Self {
            day: first.to_monday_one_offset(),
            ..CalendarUnit::Week.into()
        }
    }

    /// Returns months that begin on `day`, or on the last day of a month that is shorter.
    ///
    /// # Errors
    ///
    /// [`Day`](LimitErrorKind::Day) unless `day` is 1 to 31.
    pub fn monthly(day: u8) -> Result<Self, LimitError> {
        Ok(Self {
            day: within(day, 31, "a day of the month")?,
            ..CalendarUnit::Month.into()
        })
    }

    /// Returns years that begin on `day` of `month`, or on the last day of this month if it is shorter.
    ///
    /// # Errors
    ///
    /// [`Day`](LimitErrorKind::Day) unless `month` is 1 to 12 and `day` is 1 to 31.
    pub fn yearly(month: u8, day: u8) -> Result<Self, LimitError> {
        Ok(Self {
            month: within(month, 12, "a month")?,
            unit: CalendarUnit::Year,
            ..Self::monthly(day)?
        })
    }

    /// Sets the time of the day at which periods begin. Fractions of a second are cut off.
    #[must_use]
    pub fn at(mut self, time: Time) -> Self {
        self.at = seconds(time);
        self
    }

    /// Returns the unit.
    #[must_use]
    pub fn unit(self) -> CalendarUnit {
        self.unit
    }

    /// Returns whether months begin on the day of the call.
    pub(crate) fn needs_day(self) -> bool {
        self.day == 0
    }

    /// Returns months that begin on the day of the call, or `None` of another unit.
    pub(crate) fn on_local_day(self) -> Option<Self> {
        (self.unit == CalendarUnit::Month).then_some(Self { day: 0, ..self })
    }

    /// Returns the same months, from the `day` that a call brings.
    pub(crate) fn on_day(self, day: u8) -> Result<Self, LimitError> {
        let Self { day, .. } = Self::monthly(day)?;
        Ok(Self { day, ..self })
    }

    /// Reads the value of one of the [`OPTIONS`](Self::OPTIONS).
    pub(crate) fn read_value(reader: &mut Reader<'_>, option: &str) -> Result<u64, LimitError> {
        let at = reader.at();
        let (most, expected) = match option {
            "at" => return reader.time(86_399).map(u64::from),
            "start" => {
                let day = reader.weekday();
                let day = day.ok_or_else(|| reader.expected(at, "a weekday, such as `sunday`"))?;
                return Ok(u64::from(day) + 1);
            }
            "day" if reader.skip_word(LOCAL) => return Ok(0),
            "month" => (12, "a month, from 1 to 12"),
            _ => (31, "a day of the month, from 1 to 31"),
        };
        let number = reader.number(expected)?;
        if (1..=most).contains(&number) {
            Ok(number)
        } else {
            Err(reader.expected(at, expected))
        }
    }

    /// Returns the cycle of `unit` with these options.
    pub(crate) fn read(unit: CalendarUnit, options: &Options<'_>) -> Result<Self, LimitError> {
        let mut cycle = Self::from(unit);
        let (own, expected) = match unit {
            CalendarUnit::Day => (&[][..], "the option of a day: `at=HH:MM`"),
            CalendarUnit::Week => (
                &["start"][..],
                "an option of a week: `start=WEEKDAY` or `at=HH:MM`",
            ),
            CalendarUnit::Month => (
                &["day"][..],
                "an option of a month: `day=DAY` or `at=HH:MM`",
            ),
            CalendarUnit::Year => (
                &["month", "day"][..],
                "an option of a year: `month=MONTH`, `day=DAY` or `at=HH:MM`",
            ),
        };
        for (option, _) in Self::OPTIONS {
            let Some(number) = options.number(option) else {
                continue;
            };
            let small = i8::try_from(number).unwrap_or(i8::MAX);
            match *option {
                "at" => cycle.at = u32::try_from(number).unwrap_or(0),
                option if !own.contains(&option) => return Err(options.wrong(option, expected)),
                "day" if number == 0 && unit != CalendarUnit::Month => {
                    return Err(
                        options.wrong(option, "a day from 1 to 31: months alone have `day=local`")
                    );
                }
                "month" => cycle.month = small,
                _ => cycle.day = small,
            }
        }
        Ok(cycle)
    }

    /// Writes the options that differ from their defaults, each after a comma.
    pub(crate) fn write_options(self, to: &mut dyn fmt::Write) -> fmt::Result {
        let plain = Self::from(self.unit);
        if self.month != plain.month {
            write!(to, ",month={}", self.month)?;
        }
        match self.unit {
            _ if self.day == plain.day => {}
            CalendarUnit::Week => {
                let day = usize::try_from(self.day - 1).unwrap_or(0);
                write!(to, ",start={}", WEEKDAYS[day % 7])?;
            }
            _ if self.needs_day() => write!(to, ",day={LOCAL}")?,
            _ => write!(to, ",day={}", self.day)?,
        }
        if self.at != plain.at {
            to.write_str(",at=")?;
            write_time(to, self.at)?;
        }
        Ok(())
    }

    /// Returns where the periods in `zone` begin, in microseconds, from one at or before `at` on. Where a
    /// zone skips a whole period, a beginning comes twice.
    pub(crate) fn beginnings(self, zone: &TimeZone, at: Timestamp) -> impl Iterator<Item = u64> {
        let date = jiff::Timestamp::from(at).to_zoned(zone.clone()).date();
        let span = self.unit.span();
        // The one of this date may begin later.
        let first = self.unit.first_day(date);
        let first = first.and_then(|first| first.checked_sub(span)).ok();
        let all = iter::successors(first, move |first| first.checked_add(span).ok());
        all.map_while(move |first| self.beginning(zone, first))
    }

    /// Returns where the period begins whose unit begins with the day `first`.
    fn beginning(self, zone: &TimeZone, first: Date) -> Option<u64> {
        let day = match self.unit {
            CalendarUnit::Day => first,
            CalendarUnit::Week => first.checked_add((self.day - 1).days()).ok()?,
            CalendarUnit::Month | CalendarUnit::Year => {
                let month = first.checked_add((self.month - 1).months()).ok()?;
                let day = self.day.clamp(1, month.days_in_month());
                Date::new(month.year(), month.month(), day).ok()?
            }
        };
        let time = Time::MIN.wrapping_add(Duration::from_secs(self.at.into()));
        first_instant(zone, day.to_datetime(time))
    }
}

/// Begins at midnight: weeks on Mondays, months on their first day, and years on the first of January.
impl From<CalendarUnit> for CalendarCycle {
    fn from(unit: CalendarUnit) -> Self {
        Self {
            unit,
            month: 1,
            day: 1,
            at: 0,
        }
    }
}

/// Returns the second of the day at which `time` is.
pub(crate) fn seconds(time: Time) -> u32 {
    let [hour, minute, second] =
        [time.hour(), time.minute(), time.second()].map(|number| u32::from(number.unsigned_abs()));
    3_600 * hour + 60 * minute + second
}

fn within(number: u8, most: i8, what: &str) -> Result<i8, LimitError> {
    let small = i8::try_from(number).ok();
    small
        .filter(|small| (1..=most).contains(small))
        .ok_or_else(|| {
            let message = format!("{number} is not {what}: choose 1 to {most}");
            LimitError::new(LimitErrorKind::Day, message)
        })
}

/// Returns the first instant at this local time, or after it if clocks skip it, in microseconds; before the
/// epoch, that of the epoch.
fn first_instant(zone: &TimeZone, at: DateTime) -> Option<u64> {
    let local = zone.to_ambiguous_timestamp(at);
    let is_skipped = matches!(local.offset(), AmbiguousOffset::Gap { .. });
    // Of a time that is skipped, this is before the gap.
    let mut instant = local.earlier().ok()?;
    if is_skipped {
        instant = zone.following(instant).next()?.timestamp();
    }
    Some(u64::try_from(instant.as_microsecond()).unwrap_or(0))
}
