//! The edges of what surrounds the machines: ties, the size of a request, whole seconds.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use tollgate_core::algorithm::FixedWindow;
use tollgate_core::{
    Check, Decision, ErrorKind, Fingerprint, Limit, MAX_CHECKS, Operation, Quota, Request, Verdict,
    Wait,
};

#[test]
fn the_first_of_limits_that_leave_the_same_binds() {
    let request = Request::with_checks(Operation::Consume, []);
    let of = |verdicts: &[Verdict]| {
        Decision::new(Fingerprint::of(&request), verdicts.iter().copied()).binding()
    };
    let (few, many) = (Verdict::allow(9, 1), Verdict::allow(9, 2));
    assert_eq!(of(&[few, few]), 0);
    assert_eq!(of(&[many, few, few]), 1);
    let soon = Verdict::deny(9, 0, Wait::from_micros(1));
    let late = Verdict::deny(9, 0, Wait::from_micros(2));
    assert_eq!(of(&[late, late]), 0);
    assert_eq!(of(&[few, soon, late, late]), 2);
}

#[test]
fn a_request_names_up_to_its_most_limits() {
    let limit = Limit::new("each", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let keys: Vec<String> = (0..=MAX_CHECKS).map(|key| key.to_string()).collect();
    let checks: Vec<Check<'_>> = keys.iter().map(|key| Check::new(&limit, key, 1)).collect();
    let of = |count: usize| {
        let request = Request::of(Operation::Consume, &checks[..count]);
        request.validate().map_err(|error| error.kind())
    };
    assert_eq!(of(0), Err(ErrorKind::Malformed));
    assert_eq!(of(1), Ok(()));
    assert_eq!(of(MAX_CHECKS), Ok(()));
    assert_eq!(of(MAX_CHECKS + 1), Err(ErrorKind::Malformed));
}

#[test]
fn a_limit_and_key_are_named_once() {
    let limit = Limit::new("each", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let other = Limit::new("other", FixedWindow::aligned(Quota::per_minute(1))).unwrap();
    let [a, b] = ["a", "b"].map(|key| Check::new(&limit, key, 1));
    let distinct = Request::consume(a).and(b).and(Check::new(&other, "a", 1));
    assert!(distinct.validate().is_ok());
    let twice = distinct.and(Check::new(&limit, "b", 2));
    assert_eq!(twice.validate().unwrap_err().kind(), ErrorKind::Malformed);
}

#[test]
fn a_wait_in_whole_seconds_is_never_too_short() {
    for (micros, seconds) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
        assert_eq!(Wait::from_micros(micros).as_secs_ceil(), Some(seconds));
    }
    assert_eq!(Wait::NEVER.as_secs_ceil(), None);
}
