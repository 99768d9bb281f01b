//! Windows of the calendar at the days that are hard: those that clocks repeat, skip or begin late.

use std::time::Duration;

use jiff::civil::{Weekday, time};
use jiff::tz::TimeZone;
use tollgate_core::store::{Check, Fingerprint, Request, State};
use tollgate_core::{
    Algorithm, CalendarCycle, CalendarUnit, CalendarWindow, ErrorKind, Limit, LimitErrorKind,
    Timestamp,
};

const HOUR_US: i64 = 3_600_000_000;

/// Returns when the period ends that a call at this instant is counted in.
fn end(limit: &Limit, at: i64) -> i64 {
    let now = Timestamp::from_micros(u64::try_from(at).unwrap()).unwrap();
    let consume = Request::consume(Check::new(limit, "k", 1));
    let decided = consume.decide_on(&mut State::default(), now);
    at + i64::try_from(decided.reset_after().as_micros().unwrap()).unwrap()
}

fn instant(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

/// A unit, an instant within one of its periods, when that begins and ends, and what is hard about it.
const PERIODS: &str = "
day@America/Asuncion | 2019-10-06T12:00Z | 2019-10-06T04:00Z | 2019-10-07T03:00Z | midnight to 1:00 is skipped
day@America/Havana | 2019-11-03T12:00Z | 2019-11-03T04:00Z | 2019-11-04T05:00Z | midnight to 1:00 comes twice
day@America/Sao_Paulo | 2018-02-18T02:30Z | 2018-02-17T02:00Z | 2018-02-18T03:00Z | 23:00 to midnight comes twice
day@Pacific/Apia | 2011-12-30T09:59Z | 2011-12-29T10:00Z | 2011-12-30T10:00Z | the 30th of December is skipped
week@Pacific/Apia | 2011-12-28T00:00Z | 2011-12-26T10:00Z | 2012-01-01T10:00Z | a week of six days
day@Europe/Berlin,at=02:30 | 2026-03-29T12:00Z | 2026-03-29T01:00Z | 2026-03-30T00:30Z | 2:00 to 3:00 is skipped
day@Europe/Berlin,at=02:30 | 2026-10-25T01:30Z | 2026-10-25T00:30Z | 2026-10-26T01:30Z | 2:00 to 3:00 comes twice
month@Europe/Berlin,day=31 | 2028-03-01T00:00Z | 2028-02-28T23:00Z | 2028-03-30T22:00Z
week@America/New_York,start=sunday,at=04:00 | 2026-03-01T08:59:59Z | 2026-02-22T09:00Z | 2026-03-01T09:00Z
year@Europe/London,month=4,day=6 | 2026-04-05T22:59:59Z | 2025-04-05T23:00Z | 2026-04-05T23:00Z
month@Europe/Berlin | 2026-03-29T12:00Z | 2026-02-28T23:00Z | 2026-03-31T22:00Z
year@Australia/Lord_Howe | 2026-06-01T00:00Z | 2025-12-31T13:00Z | 2026-12-31T13:00Z
";

#[test]
fn a_boundary_that_comes_twice_is_the_first_and_one_that_is_skipped_the_end_of_the_gap() {
    for row in PERIODS.trim().lines() {
        let [quota, within, begins, ends, ..] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let limit: Limit = format!("calendar=fixed-window:1/{quota}").parse().unwrap();
        let (begins, ends) = (instant(begins), instant(ends));
        assert_eq!(end(&limit, begins - 1), begins, "{limit}");
        assert_eq!(end(&limit, instant(within)), ends, "{limit}");
        assert_eq!(end(&limit, begins), ends, "{limit}");
    }
}

/// Where clocks go back over midnight by less than a day, the first midnight begins the next day: what
/// comes after it is not counted in the day before, though its date says so.
#[test]
fn a_repeated_evening_belongs_to_the_next_day() {
    // In Newfoundland, clocks went from 0:01 back to 23:01 until 2010.
    let limit: Limit = "calendar=fixed-window:1/day@America/St_Johns"
        .parse()
        .unwrap();
    let begins = instant("2010-11-07T02:30:00Z");
    assert_eq!(end(&limit, begins - 1), begins);
    // A minute later it is 23:01 again.
    let repeated = instant("2010-11-07T02:45:00Z");
    let local = jiff::Timestamp::from_microsecond(repeated).unwrap();
    let local = local.in_tz("America/St_Johns").unwrap();
    assert_eq!(local.date(), jiff::civil::date(2010, 11, 6));
    // What was counted on the sixth does not count that evening.
    let mut states = [State::default()];
    for (at, is_allowed) in [(begins - 1, true), (repeated, true), (repeated + 1, false)] {
        let now = Timestamp::from_micros(u64::try_from(at).unwrap()).unwrap();
        let consume = Request::consume(Check::new(&limit, "k", 1));
        let decided = consume.decide_on(&mut states, now);
        assert_eq!(decided.is_allowed(), is_allowed, "{at}");
    }
    assert_eq!(end(&limit, repeated), instant("2010-11-08T03:30:00Z"));
}

#[test]
fn zones_are_named_as_the_database_spells_them() {
    let window = CalendarWindow::new(3, CalendarUnit::Day, "europe/berlin").unwrap();
    assert_eq!(window.zone(), "Europe/Berlin");
    let same = CalendarWindow::new(3, CalendarUnit::Day, "Europe/Berlin").unwrap();
    assert_eq!(window, same);
    for other in [
        CalendarWindow::new(4, CalendarUnit::Day, "Europe/Berlin"),
        CalendarWindow::new(3, CalendarUnit::Week, "Europe/Berlin"),
        CalendarWindow::new(3, CalendarUnit::Day, "Europe/Paris"),
    ] {
        assert_ne!(window, other.unwrap());
    }
    for zone in [
        "",
        "Europe/Atlantis",
        "CET-1",
        "../etc/passwd",
        "localtime",
        "posixrules",
    ] {
        let error = CalendarWindow::new(3, CalendarUnit::Day, zone).unwrap_err();
        assert_eq!(error.kind(), LimitErrorKind::Name, "{zone}");
    }
}

/// Texts of limits, and what is wrong with them, if anything is.
const TEXTS: &str = r#"
a=fixed-window:5/month@Europe/Berlin
a=fixed-window:5/year@UTC,shadow
a=fixed-window:5/1d@UTC => `/` and a unit of the calendar: day, week, month or year
a=fixed-window:5/month => a unit: us, ms, s, m, h or d, which is 24 hours; or a time zone after a unit of the calendar,
a=fixed-window:5/month => of the calendar, as `5/day@UTC` in a schedule, or `fixed-window:5/day@UTC`
a=fixed-window:5/month@ => "" is no time zone
a=fixed-window:5/month@Berlin => "Berlin" is no time zone
a=fixed-window:5/month@UTC,anchored => ("anchored"): expected one of the options `month=MONTH`, `day=DAY`, `start=WEEKDAY`,
a=fixed-window:5/month@UTC,anchored => `start=WEEKDAY`, `at=HH:MM` or `shadow`, once
a=fixed-window:5/month@Europe/Berlin,day=31,at=04:00
a=fixed-window:5/week@UTC,start=sunday,shadow
a=fixed-window:5/day@UTC,at=23:59:59
a=fixed-window:5/year@UTC,month=4,day=6,at=00:30
a=fixed-window:5/month@UTC,day=32 => ("32"): expected a day of the month, from 1 to 31
a=fixed-window:5/month@UTC,day=0 => from 1 to 31
a=fixed-window:5/month@local,day=local,at=04:00
a=fixed-window:5/month@UTC,day=locally => from 1 to 31
a=fixed-window:5/year@UTC,month=4,day=local => ("day=local"): expected a day from 1 to 31: months alone have `day=local`
a=fixed-window:5/month@UTC,day= => from 1 to 31
a=fixed-window:5/month@UTC,day => ("day"): expected one of the options `month=MONTH`, `day=DAY`
a=fixed-window:5/month@UTC,day=1,day=2 => `day=DAY`
a=fixed-window:5/week@UTC,at=04:00,day=15 => ("day=15"): expected an option of a week: `start=WEEKDAY` or `at=HH:MM`
a=fixed-window:5/day@UTC,day=15 => expected the option of a day: `at=HH:MM`
a=fixed-window:5/month@UTC,start=sunday => expected an option of a month: `day=DAY` or `at=HH:MM`
a=fixed-window:5/month@UTC,month=4 => expected an option of a month: `day=DAY` or `at=HH:MM`
a=fixed-window:5/year@UTC,start=monday => expected an option of a year: `month=MONTH`, `day=DAY` or `at=HH:MM`
a=fixed-window:5/year@UTC,month=13 => ("13"): expected a month, from 1 to 12
a=fixed-window:5/week@UTC,start=funday => ("funday"): expected a weekday, such as `sunday`
a=fixed-window:5/week@UTC,start=sundays => expected a weekday, such as `sunday`
a=fixed-window:5/day@UTC,at=24:00 => ("24:00"): expected a time from 00:00 to 23:59
a=fixed-window:5/day@UTC,at=4 => expected `:` and minutes
a=fixed-window:5/1h,at=04:00 => ("at=04:00"): expected one of the options `anchored`, `count-denied` or `shadow`, once;
a=fixed-window:5/1h,at=04:00 => or `shadow`, once; `at` needs a unit of a time zone, such as `day@Europe/Berlin`
a=fixed-window:5/1h,start=sunday => `start` needs a unit of a time zone
a=gcra:5/1d@UTC => `,` and an option, or the end
a=fixed-window:9007199254740992/month@UTC => an amount of 9007199254740992 is too large
"#;

#[test]
fn text_says_what_is_wrong_with_a_calendar() {
    for line in TEXTS.trim().lines() {
        let (text, expected) = line.split_once(" => ").unwrap_or((line, ""));
        match text.parse::<Limit>() {
            Ok(limit) => assert_eq!((limit.to_string(), expected), (text.to_owned(), "")),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !expected.is_empty() && error.contains(expected),
                    "{text}: {error}"
                );
            }
        }
    }
}

/// Text that says the same is the same limit, with the same states; every other one has its own.
#[test]
fn cycles_have_one_text_and_states_of_their_own() {
    let limit = |text: &str| format!("a=fixed-window:5/{text}").parse::<Limit>().unwrap();
    for (text, canonical) in [
        ("month@UTC,day=1,at=00:00", "month@UTC"),
        ("month@utc,at=4:00,day=15", "month@UTC,day=15,at=04:00"),
        ("week@UTC,start=monday", "week@UTC"),
        ("week@UTC,start=sun", "week@UTC,start=sunday"),
        ("year@UTC,day=6,month=4", "year@UTC,month=4,day=6"),
    ] {
        assert_eq!(limit(text), limit(canonical));
        assert_eq!(limit(text).identity(), limit(canonical).identity());
        assert_eq!(
            limit(text).to_string(),
            format!("a=fixed-window:5/{canonical}")
        );
    }
    let texts = "day@UTC week@UTC month@UTC year@UTC day@UTC,at=04:00 day@UTC,at=00:04";
    let others =
        "week@UTC,start=sunday week@UTC,start=sunday,at=04:00 year@UTC,month=4 year@UTC,day=4";
    let texts = texts.split(' ').chain(others.split(' ')).map(str::to_owned);
    let all = texts.chain((2..=31).map(|day| format!("month@UTC,day={day}")));
    let mut identities: Vec<_> = all.map(|text| limit(&text).identity().to_owned()).collect();
    assert_eq!(identities[4], "a:calendar-window-day-UTC,at=04.00");
    let count = identities.len();
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), count);
}

#[test]
fn cycles_are_made_of_days_and_months_that_exist() {
    for (month, day) in [(0, 1), (13, 1), (1, 0), (1, 32), (u8::MAX, u8::MAX)] {
        let error = CalendarCycle::yearly(month, day).unwrap_err();
        assert_eq!(error.kind(), LimitErrorKind::Day, "{error}");
    }
    let error = CalendarCycle::monthly(32).unwrap_err();
    assert_eq!(
        error.to_string(),
        "32 is not a day of the month: choose 1 to 31"
    );
    let cycle = CalendarCycle::weekly(Weekday::Sunday).at(time(23, 59, 59, 999));
    let window = CalendarWindow::new(5, cycle, "local").unwrap();
    let text = "fixed-window:5/week@local,start=sunday,at=23:59:59";
    assert_eq!(Algorithm::from(window), text.parse().unwrap());
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let limit = Limit::new("a", window).unwrap().in_zone(&berlin).unwrap();
    assert_eq!(
        limit.to_string(),
        format!("a={}", text.replace("local", "Europe/Berlin"))
    );
    assert!(window.with_local_day().is_err());
    let local = CalendarWindow::new(5, CalendarUnit::Month, "UTC").unwrap();
    let local = Limit::new("a", local.with_local_day().unwrap()).unwrap();
    assert_eq!(
        local,
        "a=fixed-window:5/month@UTC,day=local".parse().unwrap()
    );
    assert!(local.needs_day() && !local.needs_zone());
    let consume = Request::consume(Check::new(&local, "k", 1));
    let decided = consume.decide_on(&mut State::default(), Timestamp::MAX);
    assert_eq!(decided.remaining(), 0);
    let fixed = local.in_zone(&berlin).unwrap().on_day(31).unwrap();
    assert_eq!(fixed.to_string(), "a=fixed-window:5/month@UTC,day=31");
    assert_eq!(fixed.on_day(0).unwrap(), fixed);
}

/// A new database of time zones may move a boundary: what was counted stays in its period.
#[test]
fn what_was_counted_before_a_period_began_is_not_counted_in_it() {
    let limit: Limit = "calendar=fixed-window:5/day@UTC".parse().unwrap();
    let at = |hours: i64| {
        Timestamp::from_micros(
            u64::try_from(instant("2026-03-01T00:00:00Z") + hours * HOUR_US).unwrap(),
        )
        .unwrap()
    };
    let mut state = State::default();
    let mut consume = |cost, now| {
        let call = Request::consume(Check::new(&limit, "k", cost));
        call.decide_on(&mut state, now).remaining()
    };
    assert_eq!(consume(2, at(1)), 3);
    assert_eq!(consume(1, at(23)), 2);
    assert_eq!(consume(1, at(24)), 4);
    // The clock stepped back: this is counted in the second day.
    assert_eq!(consume(1, at(23)), 3);
    assert_eq!(consume(1, at(24).saturating_add(Duration::from_secs(1))), 2);
}

/// In a zone, a limit of the call's zone is the limit of that zone, with its states; without one, it
/// admits nothing.
#[test]
fn a_local_limit_is_that_of_the_zone_which_it_is_put_in() {
    for text in [
        "bill=fixed-window:10/month@local",
        "bill=fixed-window:10/day@local,shadow",
    ] {
        let local: Limit = text.parse().unwrap();
        assert_eq!(local.to_string(), text);
        assert!(local.needs_zone());
        let berlin = TimeZone::get("europe/berlin").unwrap();
        let fixed = local.in_zone(&berlin).unwrap();
        assert!(!fixed.needs_zone());
        assert_eq!(fixed.to_string(), text.replace("local", "Europe/Berlin"));
        // Another zone, once it has one, changes nothing.
        assert_eq!(fixed.in_zone(&TimeZone::UTC).unwrap(), fixed);
        let utc = local.in_zone(&TimeZone::UTC).unwrap();
        assert_eq!(utc.to_string(), text.replace("local", "UTC"));

        let nameless = local.in_zone(&TimeZone::fixed(jiff::tz::offset(1)));
        assert!(nameless.is_err());

        let mut state = State::default();
        let now = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
        let consume = Request::consume(Check::new(&local, "k", 1));
        assert_eq!(
            consume.validate(Fingerprint::of).unwrap_err().kind(),
            ErrorKind::Malformed
        );
        let decided = consume.decide_on(&mut state, now);
        assert_eq!((decided.remaining(), decided.consumed()), (0, 0));
        assert!(state.is_fresh(&local, now));
    }
    let gcra: Limit = "api=gcra:10/1s".parse().unwrap();
    assert_eq!(gcra.in_zone(&TimeZone::UTC).unwrap(), gcra);
    assert!(!gcra.needs_zone());
}

/// The states of a limit of the call's zone have the names that those of fixed zones have always had.
#[test]
fn a_local_limit_adds_no_text_to_keys() {
    let local: Limit = "bill=fixed-window:10/month@local".parse().unwrap();
    let zones = ["Europe/Berlin", "UTC"].map(|name| TimeZone::get(name).unwrap());
    let [berlin, utc] = zones.map(|zone| local.in_zone(&zone).unwrap());
    assert_eq!(
        berlin.identity(),
        "bill:calendar-window-month-Europe/Berlin"
    );
    assert_eq!(utc.identity(), "bill:calendar-window-month-UTC");
}
