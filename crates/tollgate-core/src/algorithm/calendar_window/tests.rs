//! Tests of the calendar window's promises at the edges, and of the boundaries that are sent.

use super::super::tests::{status, used};
use super::CalendarWindow;
use crate::calendar::Calendar;
use crate::cycle::CalendarUnit;
use crate::time::{MAX_EXACT, Timestamp};

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;
/// Midnight of a Thursday in UTC.
const MIDNIGHT: u64 = 20_000 * DAY;

#[test]
fn the_last_period_ends_with_the_last_instant() {
    let machine = CalendarWindow::new(MAX_EXACT, CalendarUnit::Year, "Europe/Berlin").unwrap();
    let state = used(&machine, &[(MAX_EXACT, MAX_EXACT), (MAX_EXACT, 1)]);
    assert_eq!(state.kept, MAX_EXACT);
    assert_eq!(status(&machine, &state, MAX_EXACT), (0, Some(1)));
    let first = used(&machine, &[(0, 1)]);
    assert_eq!((first.start, first.length), (0, 365 * DAY - HOUR));
}

/// Returns the boundaries of the periods that a request around this instant brings.
fn boundaries(calendar: &Calendar, around: u64) -> [u64; 3] {
    let periods = calendar.around(Timestamp::from_micros(around).unwrap());
    let [first, second] = periods[..] else {
        panic!("{periods:?}");
    };
    assert_eq!(first.end(), second.start());
    [first.start(), first.end(), second.end()].map(Timestamp::as_micros)
}

/// Around any instant, the boundaries hold all instants that differ by less than half a period.
#[test]
fn the_boundaries_that_are_sent_are_the_closest() {
    let of = |unit: CalendarUnit, zone| Calendar::of(unit.into(), zone).unwrap();
    let utc = of(CalendarUnit::Day, "UTC");
    for (hours, expected) in [
        (0, [-1, 0, 1]),
        (11, [-1, 0, 1]),
        (12, [0, 1, 2]),
        (23, [0, 1, 2]),
    ] {
        let expected = expected.map(|day| (20_000_i64 + day).unsigned_abs() * DAY);
        assert_eq!(
            boundaries(utc, MIDNIGHT + hours * HOUR),
            expected,
            "{hours}"
        );
    }
    // Before the epoch there is nothing.
    assert_eq!(boundaries(utc, 0), [0, DAY, 2 * DAY]);
    for (unit, zone) in [
        (CalendarUnit::Day, "Pacific/Apia"),
        (CalendarUnit::Week, "Europe/Berlin"),
        (CalendarUnit::Month, "Asia/Kolkata"),
        (CalendarUnit::Year, "America/New_York"),
    ] {
        let calendar = of(unit, zone);
        for step in 0..2_000 {
            // Over two years, with the day that Samoa skipped.
            let around = 1_262_304_000_000_000 + step * 9 * HOUR;
            let [first, second, third] = boundaries(calendar, around);
            assert!(first < second && second < third, "{zone}: {around}");
            assert_eq!(calendar.period(first), (first, second));
            assert_eq!(calendar.period(third - 1), (second, third));
            let (start, end) = calendar.period(around);
            let half = (end - start) / 2;
            assert!(
                first + half <= around && around + half <= third,
                "{zone}: {around}"
            );
        }
    }
}

/// Threads that ask for other periods take their places, and never read half of one.
#[test]
fn threads_that_look_up_other_periods_get_their_own() {
    let calendar = Calendar::of(CalendarUnit::Day.into(), "Europe/London").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for step in 0..2_000_u64 {
                    let at = MIDNIGHT + (step * 7 + thread * 3) % 40 * 5 * HOUR;
                    let (start, end) = calendar.period(at);
                    assert!(start <= at && at < end && end - start <= DAY + HOUR);
                    assert_eq!(start % HOUR, 0);
                }
            });
        }
    });
}
