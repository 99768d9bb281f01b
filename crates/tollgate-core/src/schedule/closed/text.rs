//! Closed times as text, such as `closed 22:00-08:00@Europe/Berlin`.

use std::fmt;

use jiff::civil::Date;

use super::{
    ClosedTimes, DAY, EACH_MONTH, EACH_YEAR, EVERY_DAY, end_of_day, over_new_year, weekdays,
};
use crate::error::LimitError;
use crate::schedule::Zone;
use crate::text::{Reader, WEEKDAYS, write_time};

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
            let from = reader.time(DAY - 1)?;
            if !reader.skip('-') {
                return Err(
                    reader.expected(reader.at(), "`-` and the time of the end, without a space")
                );
            }
            (from, end_of_day(reader.time(DAY)?))
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
        let zone = Zone::read(&mut reader)?;
        if !reader.is_at_end() {
            return Err(reader.expected(reader.at(), "the end: closed times have no options"));
        }
        let mut closed = Self::of(days, dates, zone);
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
            write!(f, "{separator}{}", &WEEKDAYS[first][..3])?;
            if last > first {
                let mark = if last == first + 1 { "," } else { "-" };
                write!(f, "{mark}{}", &WEEKDAYS[last][..3])?;
            }
            separator = ",";
        }
        for (first, last) in &*self.dates {
            f.write_str(separator)?;
            write_date(f, *first)?;
            if last > first {
                f.write_str("..")?;
                write_date(f, *last)?;
            }
            separator = ",";
        }
        if is_daily || (self.from, self.until) != (0, DAY) {
            f.write_str(if is_daily { "" } else { " " })?;
            for (time, mark) in [(self.from, "-"), (self.until, "")] {
                write_time(f, time)?;
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
    if let Some(first) = reader.weekday() {
        let mut last = first;
        if reader.skip('-') {
            let at = reader.at();
            last = reader.weekday().ok_or_else(|| {
                reader.expected(at, "a weekday: mon, tue, wed, thu, fri, sat or sun")
            })?;
        }
        *days |= weekdays(first.into(), last.into());
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
        if first.year().min(1) != last.year().min(1) {
            return Err(reader.expected(at, "the last date, written as the first one"));
        }
        if last < first && first.year() != EACH_YEAR {
            return Err(reader.expected(at, "a date that is not before the first one"));
        }
    }
    dates.extend(over_new_year(first, last));
    Ok(())
}

/// Writes a date, without the year if it is meant in each, or only its day if that is meant in each month.
fn write_date(f: &mut fmt::Formatter<'_>, date: Date) -> fmt::Result {
    match date.year() {
        EACH_MONTH => write!(f, "{}{}", date.day(), ordinal(date.day())),
        EACH_YEAR => write!(f, "{:02}-{:02}", date.month(), date.day()),
        _ => write!(f, "{date}"),
    }
}

fn ordinal(day: i8) -> &'static str {
    match (day, day % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// Reads `YYYY-MM-DD`, `MM-DD` of every year, or a day of each month such as `1st`.
fn read_date(reader: &mut Reader<'_>, expected: &'static str) -> Result<Date, LimitError> {
    let at = reader.at();
    let number = reader.number(expected)?;
    let small = |number: u64| i8::try_from(number).ok();
    let next = |reader: &mut Reader<'_>| {
        let number = reader.skip('-').then(|| reader.number("").ok());
        small(number.flatten()?)
    };
    let date = if small(number).is_some_and(|day| reader.skip_word(ordinal(day))) {
        small(number).map(|day| Date::new(EACH_MONTH, 1, day))
    } else {
        let (second, third) = (next(reader), next(reader));
        match third {
            None => small(number)
                .zip(second)
                .map(|(month, day)| Date::new(EACH_YEAR, month, day)),
            Some(day) => {
                let year = i16::try_from(number).ok().filter(|year| *year > 0);
                let month = year.zip(second);
                month.map(|(year, month)| Date::new(year, month, day))
            }
        }
    };
    date.and_then(Result::ok).ok_or_else(|| {
        reader.expected(
            at,
            "a date such as `2026-12-24`, `12-24` of every year or `1st` of each month, or times such as \
             `22:00-08:00`",
        )
    })
}
