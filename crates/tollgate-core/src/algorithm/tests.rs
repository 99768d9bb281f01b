//! Tests of what all algorithms have in common, and how the tests of each ask its machine.

use std::time::Duration;

use super::{
    Algorithm, FixedWindow, Gcra, Machine, SlidingBuckets, SlidingCounter, SlidingLog, State,
};
use crate::Limit;
use crate::quota::Quota;
use crate::store::{Check, Operation, Prefetch, Request};
use crate::time::{Timestamp, Wait};

/// Returns the microseconds that a call of `cost` waits.
pub(super) fn wait<M: Machine>(machine: &M, state: &M::State, now: u64, cost: u64) -> Option<u64> {
    machine.wait(state, now, cost).as_micros()
}

pub(super) fn status<M: Machine>(machine: &M, state: &M::State, now: u64) -> (u64, Option<u64>) {
    let status = machine.status(state, now);
    (status.remaining, status.reset_after.as_micros())
}

/// Returns the state after calls at these instants and of these costs.
pub(super) fn used<M: Machine>(machine: &M, calls: &[(u64, u64)]) -> M::State {
    let mut state = M::State::default();
    for &(now, cost) in calls {
        machine.commit(&mut state, now, cost);
    }
    state
}

fn all() -> Vec<Algorithm> {
    let quota = Quota::per_minute(4);
    vec![
        FixedWindow::aligned(quota).into(),
        FixedWindow::aligned(quota).count_denied().into(),
        FixedWindow::anchored(quota).into(),
        FixedWindow::anchored(quota).count_denied().into(),
        Gcra::new(quota).unwrap().into(),
        Gcra::with_burst(quota, 3).unwrap().into(),
        SlidingBuckets::new(quota, 12).unwrap().into(),
        SlidingCounter::new(quota).unwrap().into(),
        SlidingLog::new(quota).unwrap().into(),
        SlidingLog::new(quota).unwrap().count_denied().into(),
    ]
}

#[test]
fn limits_share_an_identity_only_if_their_states_are_compatible() {
    let identity = |text: &str| {
        let algorithm: Algorithm = text.parse().unwrap();
        Limit::new("x", algorithm).unwrap().identity().to_owned()
    };
    for (one, other, shared) in [
        ("gcra:5/1m", "gcra:9/1h,burst=2", true),
        ("sliding-log:5/1m", "sliding-log:9/1h,count-denied", true),
        ("fixed-window:5/1m", "fixed-window:9/1m,count-denied", true),
        ("fixed-window:5/1m", "fixed-window:5/1h", false),
        ("fixed-window:5/1m", "fixed-window:5/1m,anchored", false),
        ("sliding-counter:5/1m", "sliding-counter:9/1m", true),
        ("sliding-counter:5/1m", "sliding-counter:5/1h", false),
        (
            "sliding-buckets:5/1m,buckets=6",
            "sliding-buckets:9/1m,buckets=6",
            true,
        ),
        (
            "sliding-buckets:5/1m,buckets=6",
            "sliding-buckets:5/1m,buckets=5",
            false,
        ),
        ("sliding-counter:5/1m", "fixed-window:5/1m", false),
    ] {
        assert_eq!(
            identity(one) == identity(other),
            shared,
            "{one} and {other}"
        );
    }
}

#[test]
fn heap_bytes_counts_all_that_a_state_allocates() {
    let now = Timestamp::from_micros(1_000).unwrap();
    let bytes = |text: &str| {
        let mut state = State::default();
        text.parse::<Algorithm>()
            .unwrap()
            .commit(&mut state, now, 1);
        state.heap_bytes()
    };
    let ring = size_of::<super::sliding_buckets::State>() + 13 * 8;
    assert_eq!(bytes("sliding-buckets:4/1m,buckets=12"), ring);
    assert_eq!(bytes("sliding-log:4/1m"), (2 + 4) * 8);
    for text in ["fixed-window:4/1m", "gcra:4/1m", "sliding-counter:4/1m"] {
        assert_eq!(bytes(text), 0, "{text}");
    }
}

#[test]
fn a_state_of_another_algorithm_is_ignored() {
    let now = Timestamp::from_micros(1_000).unwrap();
    for from in all() {
        for to in all() {
            let mut state = State::default();
            from.commit(&mut state, now, from.capacity());
            if std::mem::discriminant(&from) == std::mem::discriminant(&to) {
                continue;
            }
            assert_eq!(to.status(&state, now).remaining, to.capacity());
            assert_eq!(to.wait(&state, now, to.capacity()), Wait::ZERO);
            to.commit(&mut state, now, to.capacity());
            assert_eq!(to.status(&state, now).remaining, 0, "{from} to {to}");
        }
    }
}

/// Processes may count by different amounts at once, while one replaces the other or by plan.
#[test]
fn a_smaller_amount_forgets_nothing_that_a_larger_one_counted() {
    let time = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000).unwrap();
    let then = [65, 66, 119, 121, 124, 126, 183].map(time);
    for algorithm in all() {
        let [large, small, none] = [40, 4, 0].map(|amount| {
            // A bucket keeps its burst, and one that never refills has none.
            let other = algorithm.with_amount(amount);
            Limit::new("limit", other.unwrap_or(algorithm)).unwrap()
        });
        let left = |state: &State, at| large.algorithm().status(state, at).remaining;
        let mut counted = State::default();
        let first = Request::consume(Check::new(&large, "k", 1)).decide_on(&mut counted, time(61));
        let receipt = first.into_receipt().unwrap();
        for (at, cost) in [(62, 20), (65, 16)] {
            large.algorithm().commit(&mut counted, time(at), cost);
        }
        for (limit, at) in [&small, &none]
            .into_iter()
            .flat_map(|limit| then.map(|at| (limit, at)))
        {
            let ahead = Prefetch::new(9, Duration::from_secs(5));
            for (operation, cost) in [
                (Operation::Consume, 1),
                (Operation::Prefetch(ahead), 1),
                (Operation::TakeUpTo, 3),
                (Operation::Lower, 0),
                (Operation::Refund(&receipt), 0),
                (Operation::Settle(&receipt), 3),
                (Operation::Settle(&receipt), 99),
            ] {
                let returned = u64::from(matches!(operation, Operation::Refund(_)));
                let mut state = counted.clone();
                let checks = [Check::new(limit, "k", cost)];
                let _ = Request::new(operation, &checks).decide_on(&mut state, at);
                for later in then.into_iter().filter(|later| *later >= at) {
                    let (before, after) = (left(&counted, later), left(&state, later));
                    assert!(
                        after <= before + returned,
                        "{limit}, {operation:?} at {at:?}: {after} at {later:?}, not {before}"
                    );
                }
            }
        }
    }
}
