//! What calls that ask for units ahead are granted, and for how long.

use std::time::Duration;

use tollgate_core::store::{BlockSpan, Check, Operation, Prefetch, Request, State, Verdicts};
use tollgate_core::{Limit, Timestamp};

const KEYS: [&str; 3] = ["a", "b", "c"];
/// Within the second that begins at 10 s.
const NOW: u64 = 10_900_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn limits(texts: &str) -> Vec<Limit> {
    let texts = texts.split(' ').enumerate();
    let limits = texts.map(|(index, text)| format!("l{index}={text}").parse().unwrap());
    limits.collect()
}

/// Decides a call of these costs, one for each of `limits`, that asks for units ahead, and returns the
/// answer and how many units it grants for how long.
fn asked(
    limits: &[Limit],
    costs: &[u64],
    ahead: Prefetch,
    states: &mut [State],
) -> (Verdicts, Option<(u64, Duration)>) {
    let checks = limits.iter().zip(KEYS).zip(costs);
    let checks = checks.map(|((limit, key), &cost)| Check::new(limit, key, cost));
    let request = Request::new(Operation::Prefetch(ahead), checks);
    let verdicts = request.decide_on(states, at(NOW));
    let granted = request.granted(&verdicts);
    (verdicts, granted)
}

fn consumed(verdicts: &Verdicts) -> Vec<u64> {
    let each = verdicts.as_slice().iter();
    each.map(|verdict| verdict.consumed()).collect()
}

const MILLIS: Duration = Duration::from_millis(1);

#[test]
fn a_grant_is_at_most_what_was_asked_for_and_one_part_of_what_is_left() {
    // The limits, the costs, how many units at most, one of how many parts, what each limit consumes, and
    // how many units are granted: zero where there is no grant.
    type Row<'a> = (&'a str, &'a [u64], u64, u32, &'a [u64], u64);
    let rows: [Row<'_>; 21] = [
        ("sliding-log:10/1s", &[1], 8, 1, &[8], 7),
        ("sliding-log:10/1s", &[3], 8, 1, &[8], 5),
        ("sliding-log:10/1s", &[1], 99, 1, &[10], 9),
        ("sliding-log:10/1s", &[1], 99, 3, &[3], 2),
        ("sliding-log:10/1s", &[1], 99, 0, &[10], 9),
        // The part is not more than the call itself.
        ("sliding-log:10/1s", &[3], 99, 3, &[3], 0),
        ("sliding-log:10/1s", &[10], 99, 1, &[10], 0),
        ("sliding-log:10/1s", &[3], 3, 1, &[3], 0),
        ("sliding-log:10/1s", &[3], 0, 1, &[3], 0),
        // A call that asks for nothing now, and one that is denied.
        ("sliding-log:10/1s", &[0], 8, 1, &[0], 0),
        ("sliding-log:10/1s", &[11], 99, 1, &[0], 0),
        // What leaks within 100 ms is not there: one of ten.
        ("gcra:10/1s", &[1], 99, 1, &[9], 8),
        ("gcra:100/1s,burst=10", &[1], 99, 1, &[1], 0),
        // The limit with the least decides for all.
        ("sliding-log:10/1s gcra:5/1s", &[1, 1], 8, 1, &[4, 4], 3),
        ("gcra:5/1s sliding-log:10/1s", &[1, 1], 8, 2, &[2, 2], 1),
        // Units of different costs are not the same.
        ("sliding-log:10/1s gcra:5/1s", &[1, 2], 8, 1, &[1, 2], 0),
        ("sliding-log:10/1s gcra:5/1s", &[2, 0], 8, 1, &[2, 0], 0),
        // A limit in shadow counts what is granted, and one that would deny the call grants nothing.
        (
            "sliding-log:9/1s sliding-log:4/1s,shadow",
            &[1, 1],
            8,
            1,
            &[4, 4],
            3,
        ),
        (
            "sliding-log:9/1s sliding-log:2/1s,shadow",
            &[3, 3],
            8,
            1,
            &[3, 0],
            0,
        ),
        // What can be blocked has no number of units, and none when it is blocked.
        ("block:1m sliding-log:10/1s", &[1, 1], 8, 1, &[8, 8], 7),
        ("sliding-log:10/1s,count-denied", &[11], 99, 1, &[0], 0),
    ];
    for (texts, costs, most, parts, expected, units) in rows {
        let shown = format!("{texts} {costs:?} {most} {parts}");
        let mut states = vec![State::default(); costs.len()];
        let ahead = Prefetch::new(most, 100 * MILLIS).one_of(parts);
        let (verdicts, granted) = asked(&limits(texts), costs, ahead, &mut states);
        assert_eq!(consumed(&verdicts), expected, "{shown}");
        let units = (units > 0).then_some((units, 100 * MILLIS));
        assert_eq!(granted, units, "{shown}");
    }
}

#[test]
fn a_key_that_is_blocked_is_granted_nothing() {
    let limits = limits("block:1m sliding-log:10/1s");
    let mut states = vec![State::default(); 2];
    let span = Operation::Block(BlockSpan::Usual);
    let block = Request::new(span, [Check::new(&limits[0], "a", 0)]);
    let _ = block.decide_on(&mut states[..1], at(NOW));
    let before = format!("{states:?}");
    let ahead = Prefetch::new(8, MILLIS);
    let (verdicts, granted) = asked(&limits, &[1, 1], ahead, &mut states);
    assert!(!verdicts.is_allowed());
    assert_eq!((granted, consumed(&verdicts)), (None, vec![0, 0]));
    assert_eq!(format!("{states:?}"), before);
}

/// Windows and buckets count units ahead where the call is, so these end there: exclusively, as windows
/// do.
#[test]
fn units_end_with_the_window_that_counts_them() {
    let rows = [
        ("sliding-log:10/1s", 400, 400),
        ("gcra:10/1s", 400, 400),
        ("fixed-window:10/1s", 400, 100),
        ("fixed-window:10/1s", 40, 40),
        ("fixed-window:10/1s,anchored", 1_400, 1_000),
        ("fixed-window:10/1s,anchored", 400, 400),
        ("sliding-counter:10/1s", 400, 100),
        ("sliding-counter:10/1s", 40, 40),
        // The bucket of 200 ms that begins at 10.8 s.
        ("sliding-buckets:10/1s,buckets=5", 400, 100),
        ("sliding-buckets:10/1s,buckets=5", 40, 40),
        ("sliding-buckets:10/1s,buckets=2", 400, 100),
        // The first end of all limits.
        ("sliding-log:10/1s fixed-window:10/1s gcra:10/1s", 400, 100),
        (
            "fixed-window:10/1s sliding-buckets:10/1s,buckets=20",
            400,
            50,
        ),
    ];
    for (texts, within, lasts) in rows {
        let limits = limits(texts);
        let mut states = vec![State::default(); limits.len()];
        let ahead = Prefetch::new(2, within * MILLIS);
        let (_, granted) = asked(&limits, &[1; 3][..limits.len()], ahead, &mut states);
        assert_eq!(granted, Some((1, lasts * MILLIS)), "{texts} {within}");
    }
}

#[cfg(feature = "calendar")]
#[test]
fn units_end_with_the_period_that_counts_them() {
    let mut state = [State::default()];
    let limits = limits("fixed-window:10/day@UTC");
    let ahead = Prefetch::new(2, Duration::from_secs(3_600));
    let checks = limits.iter().map(|limit| Check::new(limit, "a", 1));
    let request = Request::new(Operation::Prefetch(ahead), checks);
    for (seconds, lasts) in [(86_400 - 10, 10), (86_400, 3_600)] {
        let verdicts = request.decide_on(&mut state, at(seconds * 1_000_000));
        let lasts = Duration::from_secs(lasts);
        assert_eq!(request.granted(&verdicts), Some((1, lasts)));
    }
}

#[test]
fn units_are_granted_for_at_most_an_hour() {
    let hour = Duration::from_secs(3_600);
    for (within, counted) in [
        (Duration::ZERO, Duration::ZERO),
        (Duration::from_nanos(1), Duration::from_micros(1)),
        (Duration::from_nanos(5_001), Duration::from_micros(6)),
        (hour, hour),
        (hour + Duration::from_nanos(1), hour),
        // 2^32 microseconds and one, whose lower half would be one.
        (Duration::from_micros((1 << 32) + 1), hour),
        (Duration::MAX, hour),
    ] {
        assert_eq!(Prefetch::new(1, within).within(), counted, "{within:?}");
    }
}

#[test]
fn only_a_call_that_consumes_can_ask_for_units_ahead() {
    let limit: Limit = "a=sliding-log:10/1s".parse().unwrap();
    let check = || Check::new(&limit, "k", 1);
    let ahead = Prefetch::new(8, MILLIS);
    let asks = |request: Request<'_>| matches!(request.operation(), Operation::Prefetch(_));
    assert!(asks(Request::consume(check()).with_prefetch(ahead)));
    let again = Request::consume(check()).with_prefetch(Prefetch::new(2, MILLIS));
    assert!(asks(again.clone().with_prefetch(ahead)));
    assert!(!asks(again.with_prefetch(Prefetch::NOTHING)));
    for other in [Request::peek(check()), Request::take_up_to(check())] {
        assert_eq!(
            format!("{:?}", other.clone().with_prefetch(ahead)),
            format!("{other:?}")
        );
        let verdicts = other.decide_on(&mut [State::default()], at(NOW));
        assert_eq!(other.granted(&verdicts), None);
    }
}

/// A store inside a layer that charges more for each unit grants as many more.
#[test]
fn other_costs_are_also_those_of_units_ahead() {
    let limit: Limit = "a=sliding-log:100/1s".parse().unwrap();
    let ahead = Prefetch::new(8, MILLIS).one_of(2);
    let request = Request::consume(Check::new(&limit, "k", 2)).with_prefetch(ahead);
    let request = request.map_costs(|cost| 5 * cost);
    let verdicts = request.decide_on(&mut [State::default()], at(NOW));
    assert_eq!(verdicts.consumed(), 40);
    assert_eq!(request.granted(&verdicts), Some((30, MILLIS)));
}
