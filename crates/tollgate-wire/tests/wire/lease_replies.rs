//! Replies to requests about leases that no script gives: each is an error that says so, and none is
//! a panic.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::lease::{self, Acquisition, Lease, NoLease, Occupancy};
use tollgate_core::{ErrorKind, StoreError, Wait};

use crate::decoder::{assert_exact, odd_number};
use crate::engine::{Canned, START as NOW, at, config, now, stamp};
use crate::families::leases::acquire;

/// The time to live, in microseconds.
const TTL: u64 = 30_000_000;
const AMOUNT: u64 = 5;
const TOKEN: u64 = NOW - 7;

fn operations() -> [lease::Operation<'static>; 5] {
    let id = b"a";
    [
        acquire("a", 2),
        acquire("a", AMOUNT + 1),
        lease::Operation::Renew { id, token: TOKEN },
        lease::Operation::Release { id, token: TOKEN },
        lease::Operation::Peek,
    ]
}

const ACQUIRE: usize = 0;
const TOO_MUCH: usize = 1;
const RENEW: usize = 2;
const RELEASE: usize = 3;
const PEEK: usize = 4;

/// Asks with one operation, at an instant or by the server's clock, and is answered `reply`.
///
/// Whatever comes of it must be an answer or an error of the protocol.
fn answered(operation: usize, at: Option<u64>, reply: &[u8]) -> Result<lease::Answer, StoreError> {
    let terms = lease::Terms::new("places", AMOUNT, Duration::from_micros(TTL)).unwrap();
    let request = lease::Request::new(&terms, "k", operations()[operation]);
    let request = match at {
        Some(at) => request.at(stamp(at)),
        None => request,
    };
    let answer = now(Canned::store(reply).lease(&request));
    if let Err(error) = &answer {
        assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    }
    answer
}

#[allow(clippy::cast_precision_loss, reason = "it is short")]
const fn end(later: i64) -> f64 {
    at(later) + TTL as f64
}

/// An operation, the status of a reply, and the numbers after the instant.
type Row = (usize, u8, [f64; 3]);

/// Replies to each operation that its script gives.
const GIVEN: [Row; 12] = [
    (ACQUIRE, 0, [4., 1., 0.]),
    (ACQUIRE, 0, [1_000., 9e6, 0.]),
    (ACQUIRE, 1, [at(0), 2., end(0)]),
    // A clock stepped back: the store decides at the later instant.
    (ACQUIRE, 1, [at(9), 2., end(5)]),
    // A lease that is held already has any weight and end.
    (ACQUIRE, 2, [at(-7), 1_000., at(1)]),
    (TOO_MUCH, 0, [0., -1., 0.]),
    (RENEW, 0, [0., 0., 0.]),
    (RENEW, 1, [at(-7), 3., end(0)]),
    (RELEASE, 0, [0., 0., 0.]),
    (RELEASE, 1, [0., 0., 0.]),
    (PEEK, 1, [0., 0., 0.]),
    (PEEK, 1, [1_000., 0., 0.]),
];

fn reply(status: u8, numbers: [f64; 4]) -> Vec<u8> {
    let numbers = numbers.into_iter().flat_map(f64::to_le_bytes);
    [status].into_iter().chain(numbers).collect()
}

fn given((_, status, [first, second, third]): &Row) -> Vec<u8> {
    reply(*status, [at(0), *first, *second, *third])
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
    let answer = |index: usize| answered(GIVEN[index].0, None, &given(&GIVEN[index])).unwrap();
    let denied = |held, wait| {
        let denied = NoLease::new(held, AMOUNT, wait);
        lease::Answer::Acquired(Acquisition::Denied(denied))
    };
    assert_eq!(answer(0), denied(4, Wait::from_micros(1)));
    assert_eq!(answer(5), denied(0, Wait::NEVER));
    let granted = |token, weight, end, is_new| {
        let lease = Lease::new(*b"a", token, weight, stamp(NOW), stamp(end));
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new })
    };
    assert_eq!(answer(2), granted(NOW, 2, NOW + TTL, true));
    assert_eq!(answer(4), granted(TOKEN, 1_000, NOW + 1, false));
    assert_eq!(answer(6), lease::Answer::Renewed(None));
    // After the server's clock has stepped back by an hour.
    let (_, status, [token, weight, _]) = GIVEN[2];
    let late = reply(status, [at(0), token, weight, at(3_630_000_000)]);
    let lease::Answer::Acquired(late) = answered(GIVEN[2].0, None, &late).unwrap() else {
        panic!("not acquired");
    };
    let ttl = Duration::from_micros(TTL);
    assert_eq!(late.permit().unwrap().valid_for(), ttl - ttl / 1_000);
    let renewed = Lease::new(*b"a", TOKEN, 3, stamp(NOW), stamp(NOW + TTL));
    assert_eq!(answer(7), lease::Answer::Renewed(Some(renewed)));
    assert_eq!(answer(8), lease::Answer::Released(false));
    assert_eq!(answer(9), lease::Answer::Released(true));
    let occupied = lease::Answer::Occupied(Occupancy::new(1_000, AMOUNT));
    assert_eq!(answer(11), occupied);
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
        // There was room, or more is held than ever can be.
        (ACQUIRE, 0, [3., 1., 0.]),
        (ACQUIRE, 0, [1_001., 1., 0.]),
        (ACQUIRE, 0, [-1., 1., 0.]),
        (ACQUIRE, 0, [4.5, 1., 0.]),
        (ACQUIRE, 0, [f64::NAN, 1., 0.]),
        // Leases end, and not at once.
        (ACQUIRE, 0, [4., -1., 0.]),
        (ACQUIRE, 0, [4., 0., 0.]),
        (ACQUIRE, 0, [4., -2., 0.]),
        (ACQUIRE, 0, [4., 1., 1.]),
        (TOO_MUCH, 0, [4., 1., 0.]),
        (TOO_MUCH, 1, [at(0), 6., end(0)]),
        // An old token, another weight, or an end that is too early or after all time.
        (ACQUIRE, 1, [at(-1), 2., end(0)]),
        (ACQUIRE, 1, [at(0), 1., end(0)]),
        (ACQUIRE, 1, [at(0), 0., end(0)]),
        (ACQUIRE, 1, [at(0), 2., end(-1)]),
        (ACQUIRE, 1, [at(0), 2., 9_007_199_254_740_992.]),
        (ACQUIRE, 2, [0., 1., end(0)]),
        (ACQUIRE, 2, [at(0), 0., end(0)]),
        (ACQUIRE, 2, [at(0), 1_001., end(0)]),
        (ACQUIRE, 2, [at(0), 1., at(0)]),
        (ACQUIRE, 2, [9_007_199_254_740_992., 1., at(1)]),
        (ACQUIRE, 3, [at(0), 2., end(0)]),
        (RENEW, 0, [1., 0., 0.]),
        (RENEW, 0, [0., 1., 0.]),
        (RENEW, 0, [0., 0., 1.]),
        (RENEW, 1, [at(0), 1., end(0)]),
        (RENEW, 1, [at(-7), 0., end(0)]),
        (RENEW, 1, [at(-7), 1_001., end(0)]),
        (RENEW, 1, [at(-7), 1., end(-1)]),
        (RENEW, 2, [at(-7), 1., end(0)]),
        (RELEASE, 0, [1., 0., 0.]),
        (RELEASE, 1, [0., 1., 0.]),
        (RELEASE, 1, [0., 0., f64::NAN]),
        (RELEASE, 2, [0., 0., 0.]),
        (PEEK, 0, [0., 0., 0.]),
        (PEEK, 1, [1_001., 0., 0.]),
        (PEEK, 1, [1., 1., 0.]),
        (PEEK, 1, [1., 0., -0.]),
        (PEEK, 2, [0., 0., 0.]),
    ];
    for row in TABLE {
        let answer = answered(row.0, None, &given(row));
        assert!(answer.is_err(), "{row:?}: {answer:?}");
    }
    // The instant of the decision.
    for at in [-1., 0.5, f64::NAN, 9_007_199_254_740_992., f64::INFINITY] {
        answered(PEEK, None, &reply(1, [at, 0., 0., 0.])).unwrap_err();
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => Just(-1.),
        5 => (0..4_u32).prop_map(f64::from),
        6 => (-9..9_i64).prop_map(at),
        6 => (-2..9_i64).prop_map(end),
        3 => odd_number(),
    ]
}

/// Checks that an answer is one to this operation, and possible.
fn check(operation: usize, answer: &lease::Answer) {
    let is_possible = |lease: &Lease| {
        lease.id() == b"a" && lease.weight() > 0 && lease.expires_at() > lease.decided_at()
    };
    let fits = match answer {
        lease::Answer::Acquired(Acquisition::Granted { lease, is_new }) => {
            operation <= usize::from(!is_new) && is_possible(lease)
        }
        lease::Answer::Acquired(Acquisition::Denied(denied)) => {
            operation <= TOO_MUCH && !denied.ends_within().is_zero()
        }
        lease::Answer::Renewed(lease) => {
            operation == RENEW && lease.as_ref().is_none_or(is_possible)
        }
        lease::Answer::Released(_) => operation == RELEASE,
        lease::Answer::Occupied(_) => operation == PEEK,
        _ => false,
    };
    assert!(fits, "{operation} {answer:?}");
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn any_numbers_are_an_error_or_an_answer_to_the_request(
        operation in 0..5_usize,
        status in 0..4_u8,
        numbers in prop::array::uniform3(number()),
    ) {
        let reply = reply(status, [at(0), numbers[0], numbers[1], numbers[2]]);
        if let Ok(answer) = answered(operation, None, &reply) {
            check(operation, &answer);
        }
    }
}
