//! Tests of the sliding buckets' promises at the edges.

use std::time::Duration;

use super::super::tests::{status, used, wait};
use super::super::{Machine, Remembered};
use super::{SlidingBuckets, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

fn ring(amount: u64, window: u64, buckets: u64) -> SlidingBuckets {
    let quota = Quota::new(amount, Duration::from_micros(window)).unwrap();
    SlidingBuckets::new(quota, buckets).unwrap()
}

#[test]
fn a_ring_holds_one_bucket_more_than_the_window() {
    let machine = ring(9, 100, 4);
    let mut state = State::default();
    for now in 0..1_000 {
        if machine.wait(&state, now, 1).is_zero() {
            machine.commit(&mut state, now, 1);
        }
        assert_eq!(state.counts.len(), 5);
        assert_eq!(state.counts.iter().sum::<u64>(), state.total);
    }
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

#[test]
fn remaining_is_zero_after_the_amount_is_lowered_below_the_count() {
    let state = used(&ring(5, 100, 10), &[(5, 3), (40, 2)]);
    let lowered = ring(2, 100, 10);
    assert_eq!(status(&lowered, &state, 50), (0, Some(100)));
    assert_eq!(
        [1, 2].map(|cost| wait(&lowered, &state, 50, cost)),
        [Some(100); 2]
    );
    assert_eq!(wait(&ring(6, 100, 10), &state, 50, 1), Some(0));
}

#[test]
fn the_longest_buckets_do_not_wrap() {
    for buckets in [1, 2, 127] {
        let machine = ring(MAX_EXACT, MAX_EXACT, buckets);
        let state = used(&machine, &[(MAX_EXACT, MAX_EXACT)]);
        let waits = wait(&machine, &state, 0, 1).unwrap();
        assert!(waits > MAX_EXACT && waits <= 3 * MAX_EXACT);
    }
}

#[test]
fn the_number_of_buckets_is_bounded() {
    let quota = Quota::per_second(1);
    let made = [0, 1, 127, 128].map(|buckets| SlidingBuckets::new(quota, buckets).is_ok());
    assert_eq!(made, [false, true, true, false]);
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
fn a_ring_takes_eight_bytes_for_each_bucket_and_one_more() {
    let state = used(&ring(5, 100, 10), &[(5, 3)]);
    assert_eq!(state.heap_bytes(), 11 * 8);
    assert_eq!(State::default().heap_bytes(), 0);
}
