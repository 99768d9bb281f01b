//! Closed times as text, such as `closed 22:00-08:00@Europe/Berlin`.

use std::fmt;

use jiff::civil::Date;

use super::{ClosedTimes, DAY, EVERY_DAY, end_of_day, weekdays};
use crate::error::LimitError;
use crate::schedule::Zone;
use crate::text::Reader;

const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl ClosedTimes {
    /// Reads `closed [DAYS] [FROM-UNTIL]@ZONE` from the byte `start` of `text`, behind the first word.
    pub(in crate::schedule) fn read(text: &str, start: usize) -> Result<Self, LimitError> {
        const WHEN: &str = "a space, and days such as `sat,sun` or `2026-12-24`, or times such as \
                            `22:00-08:00`";
        let mut reader = Reader::new(text, start);
        if !reader.skip(' ') {
            return Err(reader.expected(start, WHEN));
        }
        let (mut days, mut dates) = (0, Vec::new());
        let has_times = if is_time(text, reader.at()) {
            days = EVERY_DAY;
            true
        } else {
            loop {
                read_days(&mut reader, &mut days, &mut dates)?;
                if !reader.skip(',') {
                    break;
                }
            }
            reader.skip(' ')
        };
        let times = if has_times {
            let from = read_time(&mut reader, DAY - 1)?;
            if !reader.skip('-') {
                return Err(
                    reader.expected(reader.at(), "`-` and the time of the end, without a space")
                );
            }
            (from, end_of_day(read_time(&mut reader, DAY)?))
        } else {
            (0, DAY)
        };
        if !reader.skip('@') {
            return Err(reader.expected(
                reader.at(),
                match has_times {
                    true => "`@` and a time zone",
                    false => "`,` and more days, a space and times, or `@` and a time zone",
                },
            ));
        }
        let mut closed = Self::of(days, dates, Zone::read(text, reader.at())?);
        (closed.from, closed.until) = times;
        Ok(closed)
    }
}

/// Writes `closed [DAYS] [FROM-UNTIL]@ZONE`.
impl fmt::Display for ClosedTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed ")?;
        let is_daily = self.weekdays == EVERY_DAY;
        let mut separator = "";
        let has_day = |day: &usize| !is_daily && self.weekdays >> day & 1 == 1;
        let mut days = (0..WEEKDAYS.len()).filter(has_day).peekable();
        while let Some(first) = days.next() {
            let mut last = first;
            while days.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{}", WEEKDAYS[first])?;
            if last > first {
                let mark = if last == first + 1 { "," } else { "-" };
                write!(f, "{mark}{}", WEEKDAYS[last])?;
            }
            separator = ",";
        }
        for (first, last) in &*self.dates {
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "..{last}")?;
            }
            separator = ",";
        }
        if is_daily || (self.from, self.until) != (0, DAY) {
            f.write_str(if is_daily { "" } else { " " })?;
            for (time, mark) in [(self.from, "-"), (self.until, "")] {
                write!(f, "{:02}:{:02}", time / 3_600, time / 60 % 60)?;
                if time % 60 > 0 {
                    write!(f, ":{:02}", time % 60)?;
                }
                f.write_str(mark)?;
            }
        }
        write!(f, "@{}", self.zone)
    }
}

/// Returns whether an hour is at the byte `at`.
fn is_time(text: &str, at: usize) -> bool {
    let mut reader = Reader::new(text, at);
    reader.number("").is_ok() && reader.skip(':')
}

/// Reads a weekday, a date, or a range of either.
fn read_days(
    reader: &mut Reader<'_>,
    days: &mut u8,
    dates: &mut Vec<(Date, Date)>,
) -> Result<(), LimitError> {
    if let Some(first) = read_weekday(reader) {
        let mut last = first;
        if reader.skip('-') {
            let at = reader.at();
            last = read_weekday(reader).ok_or_else(|| {
                reader.expected(at, "a weekday: mon, tue, wed, thu, fri, sat or sun")
            })?;
        }
        *days |= weekdays(first, last);
        return Ok(());
    }
    let first = read_date(
        reader,
        "a weekday such as `sat`, a date such as `2026-12-24`, or times such as `22:00-08:00`",
    )?;
    let mut last = first;
    if reader.skip('.') {
        if !reader.skip('.') {
            return Err(reader.expected(reader.at(), "`..` and the last date"));
        }
        let at = reader.at();
        last = read_date(reader, "the last date, such as `2026-12-26`")?;
        if last < first {
            return Err(reader.expected(at, "a date that is not before the first one"));
        }
    }
    dates.push((first, last));
    Ok(())
}

fn read_weekday(reader: &mut Reader<'_>) -> Option<usize> {
    WEEKDAYS.iter().position(|day| reader.skip_word(day))
}

fn read_date(reader: &mut Reader<'_>, expected: &'static str) -> Result<Date, LimitError> {
    let at = reader.at();
    let year = i16::try_from(reader.number(expected)?).ok();
    let mut next = || {
        let number = reader.skip('-').then(|| reader.number("").ok());
        i8::try_from(number.flatten()?).ok()
    };
    let (month, day) = (next(), next());
    let date = year.zip(month).zip(day);
    date.and_then(|((year, month), day)| Date::new(year, month, day).ok())
        .ok_or_else(|| {
            reader.expected(
                at,
                "a date such as `2026-12-24`, or times such as `22:00-08:00`",
            )
        })
}

/// Reads a time of the day, in seconds up to `most`.
fn read_time(reader: &mut Reader<'_>, most: u32) -> Result<u32, LimitError> {
    let at = reader.at();
    let hour = reader.number("a time such as `22:00`")?;
    if !reader.skip(':') {
        return Err(reader.expected(reader.at(), "`:` and minutes"));
    }
    let minute = reader.number("minutes, in two digits")?;
    let second = match reader.skip(':') {
        true => reader.number("seconds, in two digits")?,
        false => 0,
    };
    let time = 3_600 * u128::from(hour) + 60 * u128::from(minute) + u128::from(second);
    match u32::try_from(time) {
        Ok(time) if minute < 60 && second < 60 && time <= most => Ok(time),
        _ if most == DAY => Err(reader.expected(at, "a time from 00:00 to 24:00")),
        _ => Err(reader.expected(at, "a time from 00:00 to 23:59")),
    }
}
