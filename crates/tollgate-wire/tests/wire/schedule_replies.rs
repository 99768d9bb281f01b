//! Replies to requests about schedules that no script gives: each is an error that says so, and
//! none is a panic.

use std::sync::LazyLock;

use proptest::prelude::*;
use tollgate_core::schedule::{self, Event, PlannedEvent, Reason};
use tollgate_core::{ErrorKind, StoreError};

use crate::decoder::{assert_exact, odd_number};
use crate::engine::{Canned, START as NOW, at, config, now, stamp};
use crate::schedule_twins::{list, next};

static TERMS: LazyLock<schedule::Terms> = LazyLock::new(|| {
    schedule::Terms::new("plans", ["2/10s", "3/1d", "9/day@Europe/Berlin"]).unwrap()
});

/// Every operation, on two events for `Add`.
fn operations() -> [schedule::Operation<'static>; 6] {
    let event = |id: &'static str, time| Event::new(id, stamp(time));
    [
        schedule::Operation::Add(vec![event("a", NOW + 10), event("b", NOW + 20)]),
        schedule::Operation::Reschedule(event("a", NOW + 10)),
        schedule::Operation::Cancel(b"a"),
        next(NOW + 10, 1),
        schedule::Operation::ReserveNext(event("a", NOW + 10)),
        list(NOW, NOW + 100),
    ]
}

const ADD: usize = 0;
const RESCHEDULE: usize = 1;
const CANCEL: usize = 2;
const NEXT: usize = 3;
const RESERVE: usize = 4;
const LIST: usize = 5;

/// Returns a reply that is made like those of the script.
fn reply(status: u8, numbers: [f64; 4], events: &[(f64, f64, &[u8])]) -> Vec<u8> {
    let mut reply = vec![status];
    reply.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    for (time, weight, id) in events {
        #[allow(clippy::cast_precision_loss, reason = "a length is short")]
        let length = id.len() as f64;
        let numbers = [*time, *weight, length];
        reply.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        reply.extend_from_slice(id);
    }
    reply
}

/// Asks with one operation, at an instant or by the server's clock, and is answered `reply`.
///
/// Whatever comes of it must be an answer or an error of the protocol.
fn answered(
    operation: usize,
    at: Option<u64>,
    reply: &[u8],
) -> Result<schedule::Answer, StoreError> {
    let operation = operations()[operation].clone();
    let request = schedule::Request::new(&TERMS, "k", operation);
    let request = match at {
        Some(at) => request.at(stamp(at)),
        None => request,
    };
    let answer = now(Canned::store(reply).schedule(&request));
    if let Err(error) = &answer {
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
    answer
}

/// Replies to each operation that its script gives: the status, the numbers after the instant, and
/// events.
type Row = (usize, u8, [f64; 3], &'static [(f64, f64, &'static [u8])]);

const GIVEN: [Row; 21] = [
    (ADD, 0, [0., -1., -1.], &[]),
    (ADD, 0, [2., -1., -1.], &[]),
    (ADD, 1, [1., 2., at(21)], &[]),
    (ADD, 1, [0., 0., -1.], &[]),
    (ADD, 2, [0., at(11), at(11)], &[]),
    (ADD, 3, [1., at(19), -1.], &[]),
    (ADD, 4, [1., -1., at(7)], &[]),
    (ADD, 6, [-1., -1., at(7)], &[]),
    (RESCHEDULE, 0, [1., -1., at(10)], &[]),
    (RESCHEDULE, 0, [0., -1., at(10)], &[]),
    (RESCHEDULE, 1, [0., 1., at(11)], &[]),
    (RESCHEDULE, 5, [-1., -1., -1.], &[]),
    (CANCEL, 0, [1., -1., -1.], &[]),
    (NEXT, 0, [-1., -1., at(10)], &[]),
    (NEXT, 0, [-1., -1., -1.], &[]),
    (RESERVE, 0, [1., -1., at(10)], &[]),
    (RESERVE, 0, [0., -1., at(9)], &[]),
    (RESERVE, 1, [0., 0., -1.], &[]),
    (RESERVE, 3, [0., at(9), -1.], &[]),
    (LIST, 0, [0., -1., -1.], &[]),
    (
        LIST,
        0,
        [3., -1., -1.],
        &[(at(0), 1., b"b"), (at(0), 2., b"c"), (at(99), 1., b"a")],
    ),
];

fn given((_, status, [index, quota, time], events): &Row) -> Vec<u8> {
    reply(*status, [at(0), *index, *quota, *time], events)
}

#[test]
fn replies_of_the_script_are_read() {
    for row in &GIVEN {
        let answer = answered(row.0, None, &given(row));
        assert!(answer.is_ok(), "{row:?}: {answer:?}");
        assert_eq!(answered(row.0, Some(NOW), &given(row)).ok(), answer.ok());
        // Another instant than the caller's.
        answered(row.0, Some(NOW + 1), &given(row)).unwrap_err();
    }
    let refused = answered(ADD, None, &given(&GIVEN[2])).unwrap();
    let schedule::Answer::Refused { index: 1, refusal } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refusal.quota().unwrap().name(), "9/day@Europe/Berlin");
    assert_eq!(refusal.next_free(), Some(stamp(NOW + 21)));
    let refused = answered(ADD, None, &given(&GIVEN[4])).unwrap();
    let schedule::Answer::Refused { index: 0, refusal } = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(*refusal.reason(), Reason::Past(stamp(NOW + 11)));
    let event = |id: &[u8], time, weight| PlannedEvent::new(id, stamp(time), weight);
    let events = vec![
        event(b"b", NOW, 1),
        event(b"c", NOW, 2),
        event(b"a", NOW + 99, 1),
    ];
    let listed = answered(LIST, None, &given(&GIVEN[20])).unwrap();
    assert_eq!(listed, schedule::Answer::Events(events));
}

#[test]
fn every_other_reply_is_an_error_or_another_answer() {
    for row in &GIVEN {
        assert_exact(&given(row), |reply| answered(row.0, Some(NOW), reply).ok());
    }
}

#[test]
fn numbers_that_no_script_gives_are_errors() {
    const TABLE: &[Row] = &[
        // More events than were given, or another number than was asked for.
        (ADD, 0, [3., -1., -1.], &[]),
        (ADD, 0, [-1., -1., -1.], &[]),
        (ADD, 0, [0.5, -1., -1.], &[]),
        (ADD, 0, [-2., -1., -1.], &[]),
        (ADD, 0, [f64::NAN, -1., -1.], &[]),
        (ADD, 0, [1., 0., -1.], &[]),
        (ADD, 0, [1., -1., at(0)], &[]),
        (ADD, 0, [1., -1., -1.], &[(at(0), 1., b"a")]),
        // No such event, or no such quota.
        (ADD, 1, [2., 0., at(21)], &[]),
        (ADD, 1, [-1., 0., at(21)], &[]),
        (ADD, 1, [1., 3., at(21)], &[]),
        (ADD, 1, [1., -1., at(21)], &[]),
        // Free times on the wrong side of the event.
        (ADD, 1, [1., 0., at(20)], &[]),
        (ADD, 1, [1., 0., 9_007_199_254_740_992.], &[]),
        (ADD, 2, [0., at(10), at(11)], &[]),
        (ADD, 2, [0., at(12), at(11)], &[]),
        (ADD, 2, [0., -1., at(11)], &[]),
        (ADD, 3, [0., at(10), -1.], &[]),
        (ADD, 3, [0., at(9), at(11)], &[]),
        (ADD, 4, [0., -1., -1.], &[]),
        (ADD, 4, [0., 0., at(7)], &[]),
        (ADD, 5, [-1., -1., -1.], &[]),
        (ADD, 6, [-1., -1., -1.], &[]),
        (ADD, 6, [0., -1., at(7)], &[]),
        (ADD, 7, [0., -1., -1.], &[]),
        (RESCHEDULE, 0, [1., -1., at(11)], &[]),
        (RESCHEDULE, 0, [2., -1., at(10)], &[]),
        (RESCHEDULE, 0, [1., 0., at(10)], &[]),
        (RESCHEDULE, 1, [1., 0., at(11)], &[]),
        (RESCHEDULE, 4, [0., -1., at(7)], &[]),
        (RESCHEDULE, 5, [0., -1., -1.], &[]),
        (RESCHEDULE, 5, [-1., -1., at(7)], &[]),
        (CANCEL, 0, [2., -1., -1.], &[]),
        (CANCEL, 0, [-1., -1., -1.], &[]),
        (CANCEL, 0, [1., -1., at(7)], &[]),
        (CANCEL, 1, [0., 0., at(11)], &[]),
        (CANCEL, 6, [-1., -1., at(7)], &[]),
        (NEXT, 0, [-1., -1., at(9)], &[]),
        (NEXT, 0, [0., -1., at(10)], &[]),
        (NEXT, 1, [0., 0., at(11)], &[]),
        (RESERVE, 0, [1., -1., at(9)], &[]),
        (RESERVE, 0, [1., -1., -1.], &[]),
        (RESERVE, 1, [0., 0., at(11)], &[]),
        (RESERVE, 2, [0., at(11), at(11)], &[]),
        (RESERVE, 5, [-1., -1., -1.], &[]),
        (LIST, 1, [0., 0., at(11)], &[]),
        (LIST, 1, [0., -1., -1.], &[]),
        (LIST, 6, [-1., -1., at(7)], &[]),
        // As many events as the reply says, each with an id and a weight, in order, in range.
        (LIST, 0, [1., -1., -1.], &[]),
        (LIST, 0, [0., -1., -1.], &[(at(0), 1., b"a")]),
        (LIST, 0, [1., 0., -1.], &[(at(0), 1., b"a")]),
        (LIST, 0, [1., -1., at(0)], &[(at(0), 1., b"a")]),
        (LIST, 0, [1., -1., -1.], &[(at(0), 1., b"")]),
        (LIST, 0, [1., -1., -1.], &[(at(0), 1., &[7; 201])]),
        (LIST, 0, [1., -1., -1.], &[(at(0), 0., b"a")]),
        (LIST, 0, [1., -1., -1.], &[(at(0), -1., b"a")]),
        (LIST, 0, [1., -1., -1.], &[(at(-1), 1., b"a")]),
        (LIST, 0, [1., -1., -1.], &[(at(100), 1., b"a")]),
        (
            LIST,
            0,
            [2., -1., -1.],
            &[(at(1), 1., b"a"), (at(0), 1., b"b")],
        ),
        (
            LIST,
            0,
            [3., -1., -1.],
            &[(at(0), 1., b"a"), (at(2), 1., b"b"), (at(1), 1., b"c")],
        ),
        (
            LIST,
            0,
            [2., -1., -1.],
            &[(at(0), 1., b"a"), (at(0), 1., b"a")],
        ),
    ];
    for row in TABLE {
        let answer = answered(row.0, None, &given(row));
        assert!(answer.is_err(), "{row:?}: {answer:?}");
    }
    // The instant of the decision.
    for at in [-1., 0.5, f64::NAN, 9_007_199_254_740_992., f64::INFINITY] {
        let reply = reply(0, [at, 0., -1., -1.], &[]);
        answered(ADD, None, &reply).unwrap_err();
    }
}

#[test]
fn only_calendars_lack_periods() {
    let ask = |terms: &schedule::Terms, row: &Row| {
        let request = schedule::Request::new(terms, "k", operations()[row.0].clone());
        now(Canned::store(&given(row)).schedule(&request))
    };
    let sliding = schedule::Terms::new("plans", ["2/10s"]).unwrap();
    ask(&sliding, &(ADD, 6, [-1., -1., at(7)], &[])).unwrap_err();
    ask(&TERMS, &(ADD, 6, [-1., -1., at(7)], &[])).unwrap();
    ask(&sliding, &(ADD, 1, [0., 0., at(11)], &[])).unwrap();
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => Just(-1.),
        5 => (0..4_u32).prop_map(f64::from),
        6 => (-2..30_i64).prop_map(at),
        3 => odd_number(),
    ]
}

/// Checks that an answer is one to this operation.
fn check(operation: usize, answer: &schedule::Answer) {
    let fits = match answer {
        schedule::Answer::Added(_) => operation == ADD,
        schedule::Answer::Planned { .. } => [RESCHEDULE, RESERVE].contains(&operation),
        schedule::Answer::Refused { index, .. } => {
            [ADD, RESCHEDULE, RESERVE].contains(&operation) && *index < 2
        }
        schedule::Answer::Cancelled(_) => operation == CANCEL,
        schedule::Answer::Found(_) => operation == NEXT,
        schedule::Answer::Events(_) => operation == LIST,
        schedule::Answer::Uncovered(_) => ![CANCEL, LIST].contains(&operation),
        _ => false,
    };
    assert!(fits, "{operation} {answer:?}");
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn any_numbers_are_an_error_or_an_answer_to_the_request(
        operation in 0..6_usize,
        status in 0..8_u8,
        numbers in prop::collection::vec(number(), 3),
        events in prop::collection::vec((number(), number(), number()), 0..3),
    ) {
        let mut text = reply(status, [at(0), numbers[0], numbers[1], numbers[2]], &[]);
        for (time, weight, length) in events {
            for number in [time, weight, length] {
                text.extend_from_slice(&number.to_le_bytes());
            }
            text.push(b'a');
        }
        if let Ok(answer) = answered(operation, None, &text) {
            check(operation, &answer);
        }
    }
}
