//! Days, weeks and months of time zones: where those of quotas begin, and how long events in them are kept.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::schedule::{self, Event};

const NOW: u64 = 1_780_000_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);

fn at(text: &str) -> Timestamp {
    let instant: jiff::Timestamp = text.parse().unwrap();
    let micros = u64::try_from(instant.as_microsecond()).unwrap();
    Timestamp::from_micros(micros).unwrap()
}

/// Asks with more days as often as needed.
fn ask(state: &mut schedule::State, mut request: schedule::Request<'_>, now: Timestamp) -> Answer {
    let mut widened = 0;
    loop {
        match request.decide_on(state, now) {
            schedule::Answer::Uncovered(at) => request.widen(at),
            answer => return Answer { answer, widened },
        }
        widened += 1;
        assert!(widened < 24, "{request:?}");
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    answer: schedule::Answer,
    widened: u32,
}

/// An event at the last instant before a period begins leaves room for one at that instant, and none after.
#[test]
fn quotas_count_by_periods_that_begin_on_another_day_or_hour() {
    for row in [
        "1/month@Europe/Berlin,day=31 2026-02-28T00:00+01 2026-03-31T00:00+02",
        "1/day@Europe/Berlin,at=02:30 2026-03-29T03:00+02 2026-03-30T02:30+02",
        "1/week@America/New_York,start=sunday,at=04:00 2026-10-25T04:00-04 2026-11-01T04:00-05",
    ] {
        let [text, begins, ends] = row.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let terms = schedule::Terms::new("plans", [text]).unwrap();
        assert_eq!(terms.quotas()[0].to_string(), text);
        assert_eq!(terms.quotas()[0].name(), text);
        let [begins, ends] = [begins, ends].map(at);
        let before = |time: Timestamp| Timestamp::from_micros(time.as_micros() - 1).unwrap();
        let mut state = schedule::State::default();
        let mut add = |id, time| {
            let event = schedule::Operation::Add(vec![Event::new(id, time)]);
            let request = schedule::Request::new(&terms, "k", event);
            ask(&mut state, request, before(begins)).answer
        };
        for (id, time) in [("a", before(begins)), ("b", before(ends)), ("c", ends)] {
            assert_eq!(add(id, time), schedule::Answer::Added(1), "{text}");
        }
        let schedule::Answer::Refused { refusal, .. } = add("d", begins) else {
            panic!("two events in one period of {text}");
        };
        assert!(refusal.next_free() > Some(ends), "{text}");
    }
}

/// A zone that crosses the date line can repeat a day.
#[test]
fn an_event_is_kept_as_long_as_a_period_can_be() {
    let now = Timestamp::from_micros(NOW).unwrap();
    for (unit, hours) in [("day", 50), ("week", 194), ("month", 770)] {
        let terms = schedule::Terms::new("plans", [format!("1/{unit}@UTC")]).unwrap();
        let terms = terms.with_tolerance(Duration::ZERO).unwrap();
        let mut state = schedule::State::default();
        let add = schedule::Operation::Add(vec![Event::new("a", now)]);
        let added = schedule::Request::new(&terms, "k", add).decide_on(&mut state, now);
        assert_eq!(added, schedule::Answer::Added(1));
        let over = NOW + hours * 3_600_000_000;
        for (at, is_over) in [(over - 1, false), (over, true)] {
            let at = Timestamp::from_micros(at).unwrap();
            assert_eq!(state.is_fresh(&terms, at), is_over, "{unit}");
        }
    }
}

/// A call needs no second round trip, also where quotas of windows come first, for events as far
/// apart as any that can be planned.
#[test]
fn a_request_brings_the_days_of_all_of_its_events() {
    let quotas = ["1/1m", "1/day@UTC"];
    let terms = schedule::Terms::new("plans", quotas).unwrap();
    let terms = terms.with_horizon(100 * DAY).unwrap();
    let terms = terms.with_tolerance(DAY).unwrap();
    let later = |from: Timestamp, by: Duration| from.saturating_add(by);
    let first = Timestamp::from_micros(NOW).unwrap();
    let now = later(first, DAY);
    let add = |state: &mut schedule::State, times: &[Timestamp]| {
        let ids = ["a", "b"];
        let events = ids.iter().zip(times);
        let events = events.map(|(id, time)| Event::new(id, *time)).collect();
        let add = schedule::Operation::Add(events);
        ask(state, schedule::Request::new(&terms, "k", add), now)
    };
    for apart in [60 * DAY, 101 * DAY] {
        let both = [first, later(first, apart)];
        for times in [both, [both[1], both[0]]] {
            let answer = add(&mut schedule::State::default(), &times);
            let expected = Answer {
                answer: schedule::Answer::Added(2),
                widened: 0,
            };
            assert_eq!(answer, expected, "{apart:?}");
        }
    }
}
