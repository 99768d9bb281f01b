//! Tests of the sliding buckets' promises at the edges.

use std::time::Duration;

use super::super::Machine;
use super::super::tests::{status, used, wait};
use super::{SlidingBuckets, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

fn ring(amount: u64, window: u64, buckets: u64) -> SlidingBuckets {
    let quota = Quota::new(amount, Duration::from_micros(window)).unwrap();
    SlidingBuckets::new(quota, buckets).unwrap()
}

#[test]
fn a_ring_of_another_shape_starts_empty() {
    let state = used(&ring(5, 100, 2), &[(5, 3)]);
    let later = used(&ring(5, 1, 1), &[(MAX_EXACT, 3)]);
    for other in [ring(5, 100, 5), ring(5, 1_000, 2), ring(5, MAX_EXACT, 1)] {
        for state in [&state, &later] {
            assert_eq!(status(&other, state, 50), (5, Some(0)));
            assert_eq!(wait(&other, state, 50, 5), Some(0));
            let mut state = state.clone();
            other.refund(&mut state, 50, 5, 1);
            other.commit(&mut state, 50, 2);
            assert_eq!(status(&other, &state, 50).0, 3);
        }
    }
}

#[test]
fn a_ring_of_as_long_but_more_buckets_starts_empty() {
    let state = used(&ring(5, 100, 10), &[(5, 3)]);
    let other = ring(5, 50, 5);
    assert_eq!(status(&other, &state, 5), (5, Some(0)));
    // A refund does not change a state that another limit counted.
    let mut refunded = state.clone();
    other.refund(&mut refunded, 5, 5, 3);
    assert_eq!(refunded, state);
}

#[test]
fn a_refund_of_nothing_changes_nothing() {
    let machine = ring(9, 100, 10);
    let mut state = State::default();
    machine.refund(&mut state, 50, 40, 1);
    assert_eq!(state, State::default());
    // The bucket after the newest shares its slot with the oldest, whose count is still there.
    let held = used(&machine, &[(0, 2), (100, 2)]);
    let mut state = held.clone();
    machine.refund(&mut state, 119, 110, 2);
    assert_eq!(state, held);
}
