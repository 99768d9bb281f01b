//! Closed times: which instants they close, their texts, and what they do to a schedule.

use jiff::civil::{Weekday, date, time};
use jiff::tz::TimeZone;
use tollgate_core::schedule::{self, Answer, ClosedTimes, Event, Operation, Request, State};
use tollgate_core::{LimitErrorKind, Timestamp};

use crate::text::expects;

const MINUTE: u64 = 60_000_000;

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    stamp(u64::try_from(instant.as_microsecond()).unwrap())
}

fn stamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn closed(text: &str) -> ClosedTimes {
    let quota: schedule::Quota = text.parse().unwrap();
    quota.closed_times().unwrap().clone()
}

#[test]
fn closed_times_end_with_the_first_and_the_last_instant() {
    let rule = closed("closed 22:00-08:00@UTC");
    let zone = TimeZone::UTC;
    let pairs = |from, until| -> Vec<[u64; 2]> {
        let open = rule.open_times(&zone, from, until);
        let pair = |open: &schedule::Period| [open.start().as_micros(), open.end().as_micros()];
        open.iter().map(pair).collect()
    };
    let (first, last) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    let hour = 60 * MINUTE;
    assert_eq!(pairs(first, first), [[0, 0], [1, 1]]);
    assert_eq!(pairs(stamp(9 * hour), first), [[9 * hour, 9 * hour + 1]]);
    let end = [8 * hour, 9 * hour + 1];
    assert_eq!(pairs(first, stamp(9 * hour)), [[0, 0], end]);
    // The latest instant is at 23:47:34.740991.
    let day = last.as_micros() / (24 * hour) * 24 * hour;
    let end = last.as_micros() + 1;
    assert_eq!(pairs(stamp(end - hour), last), [[end - hour; 2], [end; 2]]);
    assert_eq!(
        pairs(stamp(day), last),
        [[day; 2], [day + 8 * hour, day + 22 * hour], [end; 2]]
    );
}

/// Texts of closed times, and how they are written if that is different.
const WRITTEN: &str = "
closed 22:00-08:00@Europe/Berlin
night=closed 22:00-08:00@Europe/Berlin
closed sat,sun@Europe/Berlin
closed 2026-12-24..2026-12-26@Europe/Berlin
closed mon-fri 12:00-13:00@UTC
closed 2026-12-24,2026-12-31 14:00-24:00@UTC
closed mon,wed,fri-sun,2026-12-24@UTC
closed 22:00:01-08:00:59@UTC
closed 00:00-24:00@UTC
closed tue-thu,sat 00:00-12:00@UTC
closed 23:59:59-08:00@UTC
closed 22:00-08:00@local
closed 8:00-0:00@UTC => closed 08:00-24:00@UTC
closed sat-sun@UTC => closed sat,sun@UTC
closed sun-tue@UTC => closed mon,tue,sun@UTC
closed sun,sat,sat@UTC => closed sat,sun@UTC
closed mon-sun 1:00-2:00@UTC => closed 01:00-02:00@UTC
closed sat 00:00-24:00@UTC => closed sat@UTC
closed 2026-12-24..2026-12-24@UTC => closed 2026-12-24@UTC
closed mon-sun,2026-12-24 12:00-13:00@UTC => closed 12:00-13:00@UTC
closed 2026-12-20..2026-12-30,2026-12-22@UTC => closed 2026-12-20..2026-12-30@UTC
closed 2026-12-26,2026-12-24@UTC => closed 2026-12-24,2026-12-26@UTC
closed 1st,22nd..24th,31st@UTC
closed 02-29,12-24..12-26 12:00-24:00@UTC
closed 12-25..01-06,12-24,sun,2nd,1st,2026-05-01@UTC => closed sun,1st..2nd,01-01..01-06,12-24..12-31,2026-05-01@UTC
closed 2026-12-26,2026-12-24..2026-12-25,mon@UTC => closed mon,2026-12-24..2026-12-26@UTC
";

#[test]
fn closed_times_are_written_as_they_are_read() {
    for line in WRITTEN.trim().lines() {
        let (text, written) = line.split_once(" => ").unwrap_or((line, line));
        let quota: schedule::Quota = text.parse().unwrap();
        assert_eq!(quota.to_string(), written);
        assert_eq!(quota, written.parse().unwrap());
        let name = written.split_once('=').map_or(written, |(name, _)| name);
        assert_eq!(quota.name(), name);
        assert_eq!(quota.amount(), 0);
        let json = serde_json::to_string(&quota).unwrap();
        assert_eq!(
            serde_json::from_str::<schedule::Quota>(&json).unwrap(),
            quota
        );
    }
    let zone = || TimeZone::get("Europe/Berlin").unwrap();
    for (times, text) in [
        (
            ClosedTimes::daily(time(22, 30, 15, 0), time(8, 0, 0, 9), zone()),
            "closed 22:30:15-08:00@Europe/Berlin",
        ),
        (
            ClosedTimes::on_weekdays(Weekday::Friday, Weekday::Monday, zone()),
            "closed mon,fri-sun@Europe/Berlin",
        ),
        (
            ClosedTimes::on_dates(date(2026, 12, 26), date(2026, 12, 24), zone())
                .between(time(12, 0, 0, 0), time(0, 0, 0, 0)),
            "closed 2026-12-24..2026-12-26 12:00-24:00@Europe/Berlin",
        ),
        (
            ClosedTimes::every_year(date(2024, 12, 24), date(1999, 1, 6), zone()),
            "closed 12-24..01-06@Europe/Berlin",
        ),
        (
            ClosedTimes::every_month(30, 31, zone()).unwrap(),
            "closed 30th..31st@Europe/Berlin",
        ),
    ] {
        assert_eq!(times, closed(text));
    }
    for (first, last) in [(0, 1), (2, 1), (1, 32), (1, u8::MAX)] {
        let error = ClosedTimes::every_month(first, last, zone()).unwrap_err();
        assert_eq!(error.kind(), LimitErrorKind::Day, "{error}");
    }
    let named = schedule::Quota::closed("a b", closed("closed sun@UTC"));
    assert_eq!(named.unwrap_err().kind(), LimitErrorKind::Name);
}

/// Texts of closed times and quotas, each wrong at `^`, and what was expected there.
const WRONG: &str = "
closed^ => a space, and days
closed^:22:00-08:00@UTC => a space, and days
a=closed ^@UTC => a weekday such as `sat`
closed ^Sat@UTC => a weekday such as `sat`
closed sat,^@UTC => a weekday such as `sat`
closed sat-^12@UTC => a weekday: mon
closed ^saturdays@UTC => a weekday such as `sat`
closed sat-^sundays@UTC => a weekday: mon
closed sun@UTC^,at=04:00 => the end: closed times have no options
5/1h^,at=04:00 => the end of the quota: options need a unit
5/1h^,anchored => the end of the quota
a=5/1h^,x => the end of the quota
a=5/^hour@UTC => `day`, `week`, `month` or `year`
a=5/day@^Nowhere => the name of a time zone
5/week@UTC,^day=15 => an option of a week: `start=WEEKDAY`
5/day@UTC,^anchored => one of the options `month=MONTH`
5/day@UTC,at=04:00,^at=05:00 => one of the options
5/month@UTC,^day=local => a day from 1 to 31: calls to
5/month@UTC,day=^32 => a day of the month, from 1 to 31
closed ^22-08@UTC => a date such as
closed 22:00^ - 08:00@UTC => `-` and the time of the end
closed sat^ => `,` and more days
closed sat ^@UTC => a time such as `22:00`
closed 22:00^@UTC => `-` and the time of the end
closed 22:00-^@UTC => a time such as `22:00`
closed 22:00-8^@UTC => `:` and minutes
closed 22:^-08:00@UTC => minutes
closed ^24:00-08:00@UTC => a time from 00:00 to 23:59
closed ^22:60-08:00@UTC => a time from 00:00 to 23:59
closed 22:00-^24:01@UTC => a time from 00:00 to 24:00
closed 22:00-^08:00:60@UTC => a time from 00:00 to 24:00
closed 22:00-^99999999999:00@UTC => a time from 00:00 to 24:00
closed 22:00-08:00^ => `@` and a time zone
closed 22:00-08:00^,sat@UTC => `@` and a time zone
closed 22:00-08:00@^Nowhere => the name of a time zone
closed sun@^localtime => the name of a time zone
closed sun@^Factory => the name of a time zone
1/day@^posixrules => the name of a time zone
1/day@^Etc/Unknown => the name of a time zone
closed ^2026-13-01@UTC => a date such as
closed ^2026-02-29@UTC => a date such as
closed ^2026-02@UTC => a date such as
closed ^02-30@UTC => a date such as
closed ^0-02-03@UTC => a date such as
closed ^32nd@UTC => a date such as
closed ^0th@UTC => a date such as
closed ^1th@UTC => a date such as
closed 12-24..^26th@UTC => the last date, written as
closed 12-24..^2026-12-26@UTC => the last date, written as
closed 24th..^1st@UTC => a date that is not before
closed ^2026@UTC => a date such as
closed ^99999-01-01@UTC => a date such as
closed 2026-02-01.^@UTC => `..` and the last date
closed 2026-02-01..^@UTC => the last date
closed 2026-02-01..^2026-01-31@UTC => a date that is not before
";

#[test]
fn errors_say_where_quotas_and_closed_times_are_wrong() {
    expects::<schedule::Quota>(WRONG);
}

#[test]
fn times_that_are_never_open_are_refused() {
    let terms = |rules: &[&str]| {
        let rules = rules.iter().map(|rule| format!("closed {rule}"));
        schedule::Terms::new("plans", rules.chain(["10/1d".to_owned()]))
    };
    for rules in [
        &["mon-sun@UTC"][..],
        &["00:00-24:00@local"],
        &["08:00-08:00@Europe/Berlin"],
        &["08:00-22:00@Asia/Tokyo", "22:00-08:00@Asia/Tokyo"],
        &["mon-fri@local", "sat,sun@local", "12:00-13:00@UTC"],
        &["1969-12-31..2300-01-01@UTC"],
        &["1st..31st@UTC"],
        &["01-01..02-28,02-29..12-31@UTC"],
        &[
            "08:00-22:00@Asia/Tokyo",
            "22:00-08:00@Asia/Tokyo",
            "2030-01-01@UTC",
        ],
        // A zone is nine hours ahead.
        &["09:00-21:00@Asia/Tokyo", "12:00-24:00@UTC"],
    ] {
        let error = terms(rules).unwrap_err();
        assert_eq!(error.kind(), LimitErrorKind::NeverOpen, "{rules:?}");
    }
    for rules in [
        &["mon-sat@UTC", "sun 00:00-23:59@UTC"][..],
        &["08:00-22:00@Asia/Tokyo", "22:00-07:59@Asia/Tokyo"],
        // Open in some zones.
        &["00:00-12:00@local", "12:00-24:00@UTC"],
        &["1969-12-31..2200-01-01@UTC"],
        &["1st..30th@UTC"],
        &["03-01..02-28@UTC"],
        &["09:00-21:00@Asia/Tokyo", "12:01-24:00@UTC"],
    ] {
        assert!(terms(rules).is_ok(), "{rules:?}");
    }
    // Closed times count nothing.
    let alone = schedule::Terms::new("plans", ["closed sun@UTC"]);
    assert_eq!(alone.unwrap_err().kind(), LimitErrorKind::Count);
    let counting = ["10/1h", "100/1d", "200/3d"];
    let closed = (0..24).map(|hour| format!("closed {hour:02}:00-{hour:02}:30@UTC"));
    let quotas = counting.map(str::to_owned).into_iter().chain(closed);
    let with = schedule::Terms::new("plans", quotas).unwrap();
    let without = schedule::Terms::new("plans", counting).unwrap();
    assert_eq!(with.horizon(), without.horizon());
}

/// Events that were planned before a rule was added stay, and count.
#[test]
fn closed_times_leave_planned_events_where_they_are() {
    let now = at("2026-06-01T12:00Z");
    let night = at("2026-06-01T23:00Z");
    let mut state = State::default();
    let before = schedule::Terms::new("plans", ["1/12h"]).unwrap();
    let add = |id| Operation::Add(vec![Event::new(id, night)]);
    let answer = Request::new(&before, "k", add("a")).decide_on(&mut state, now);
    assert_eq!(answer, Answer::Added(1));
    let quotas = ["1/12h", "closed 22:00-08:00@UTC"];
    let after = schedule::Terms::new("plans", quotas).unwrap();
    let again = Request::new(&after, "k", add("a")).decide_on(&mut state, now);
    assert_eq!(again, Answer::Added(0));
    let next = Operation::NextFree {
        from: at("2026-06-02T07:00Z"),
        weight: 1,
    };
    let answer = Request::new(&after, "k", next).decide_on(&mut state, now);
    assert_eq!(answer, Answer::Found(Some(at("2026-06-02T11:00Z"))));
    // The quota in the way is the one that has room again last.
    let Answer::Refused { refusal, .. } =
        Request::new(&after, "k", add("b")).decide_on(&mut state, now)
    else {
        panic!("a second event at night");
    };
    assert_eq!(
        refusal.quota().map(schedule::Quota::name).as_deref(),
        Some("1/12h")
    );
    state = State::default();
    let Answer::Refused { refusal, .. } =
        Request::new(&after, "k", add("b")).decide_on(&mut state, now)
    else {
        panic!("an event at night");
    };
    assert_eq!(
        refusal.to_string(),
        "nothing can be planned at this time: closed 22:00-08:00@UTC; the next free time is 2026-06-02T08:00:00Z"
    );
}

/// A call that looks for room needs a zone if a quota or closed times are `@local`, and no other does.
#[test]
fn local_rules_need_a_zone() {
    let at = at("2026-06-01T12:00Z");
    for (rules, needs_zone) in [
        (&["1/1h", "1/day@local"][..], true),
        (&["1/1h", "closed sun@local"], true),
        (&["1/1h", "1/day@UTC", "closed sun@UTC"], false),
    ] {
        let terms = schedule::Terms::new("plans", rules.iter().copied()).unwrap();
        assert_eq!(terms.needs_zone(), needs_zone, "{rules:?}");
        let next = Operation::NextFree {
            from: at,
            weight: 1,
        };
        let request = Request::new(&terms, "k", next);
        assert_eq!(request.validate().is_err(), needs_zone, "{rules:?}");
        let request = request.zone(TimeZone::UTC);
        assert!(request.validate().is_ok(), "{rules:?}");
        let answer = request.decide_on(&mut State::default(), at);
        assert_eq!(answer, Answer::Found(Some(at)), "{rules:?}");
        let cancel = Request::new(&terms, "k", Operation::Cancel(b"a"));
        assert!(cancel.validate().is_ok(), "{rules:?}");
    }
}
