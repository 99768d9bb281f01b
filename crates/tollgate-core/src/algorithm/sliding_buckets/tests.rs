//! Tests of the sliding buckets' promises at the edges.

use std::time::Duration;

use super::super::{Machine, Remembered};
use super::{SlidingBuckets, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

fn ring(amount: u64, window: u64, buckets: u64) -> SlidingBuckets {
    let quota = Quota::new(amount, Duration::from_micros(window)).unwrap();
    SlidingBuckets::new(quota, buckets).unwrap()
}

fn wait(machine: &SlidingBuckets, state: &State, now: u64, cost: u64) -> Option<u64> {
    machine.wait(state, now, cost).as_micros()
}

/// Returns `remaining` and `reset_after`.
fn status(machine: &SlidingBuckets, state: &State, now: u64) -> (u64, Option<u64>) {
    let status = machine.status(state, now);
    (status.remaining, status.reset_after.as_micros())
}

fn used(machine: &SlidingBuckets, calls: &[(u64, u64)]) -> State {
    let mut state = State::default();
    for &(now, cost) in calls {
        machine.commit(&mut state, now, cost);
    }
    state
}

#[test]
fn a_unit_counts_until_its_bucket_has_left_the_ring() {
    let machine = ring(1, 100, 10);
    // A call in a bucket's first microsecond counts for T + D, one in its last for T + 1.
    for at in [40, 49] {
        let state = used(&machine, &[(at, 1)]);
        assert_eq!(status(&machine, &state, at), (0, Some(150 - at)));
        assert_eq!(wait(&machine, &state, 149, 1), Some(1));
        assert_eq!(wait(&machine, &state, 150, 1), Some(0));
        assert_eq!(status(&machine, &state, 151), (1, Some(0)));
    }
}

#[test]
fn a_call_waits_for_as_many_buckets_as_it_needs() {
    let machine = ring(5, 100, 10);
    let state = used(&machine, &[(5, 2), (17, 1), (40, 2)]);
    let waits = [1, 2, 3, 4, 5].map(|cost| wait(&machine, &state, 50, cost));
    assert_eq!(waits, [60, 60, 70, 100, 100].map(Some));
    assert_eq!(status(&machine, &state, 50), (0, Some(100)));
    assert_eq!(status(&machine, &state, 110), (2, Some(40)));
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
fn a_window_that_buckets_do_not_divide_is_still_covered() {
    // Three buckets of four microseconds are two longer than the window.
    let machine = ring(1, 10, 3);
    let state = used(&machine, &[(3, 1)]);
    assert_eq!(wait(&machine, &state, 13, 1), Some(3));
    assert_eq!(wait(&machine, &state, 16, 1), Some(0));
}

#[test]
fn more_buckets_than_microseconds_are_one_microsecond_long() {
    let machine = ring(1, 3, 10);
    let state = used(&machine, &[(5, 1)]);
    assert_eq!(wait(&machine, &state, 15, 1), Some(1));
    assert_eq!(wait(&machine, &state, 16, 1), Some(0));
}

#[test]
fn a_call_after_a_long_pause_finds_an_empty_ring() {
    let machine = ring(5, 100, 4);
    for now in [125, 150, 1_000, MAX_EXACT] {
        let mut state = used(&machine, &[(0, 5)]);
        assert_eq!(status(&machine, &state, now), (5, Some(0)), "at {now}");
        machine.commit(&mut state, now, 1);
        assert_eq!(status(&machine, &state, now).0, 4, "at {now}");
    }
}

#[test]
fn a_refund_is_taken_from_its_bucket_while_that_counts() {
    let machine = ring(9, 100, 10);
    let held = used(&machine, &[(5, 2), (17, 1), (40, 2)]);
    for (at, amount, remaining) in [(5, 1, 5), (9, 2, 6), (17, 3, 5), (40, 2, 6), (25, 1, 4)] {
        let mut state = held.clone();
        machine.refund(&mut state, 50, at, amount);
        assert_eq!(
            status(&machine, &state, 50).0,
            remaining,
            "{amount} of {at}"
        );
    }
    let mut state = held.clone();
    machine.refund(&mut state, 110, 5, 2);
    assert_eq!(state, held, "the first bucket has left");
    machine.refund(&mut state, 109, 5, 2);
    assert_eq!(status(&machine, &state, 109).0, 6);
    assert_eq!(state.head, held.head);
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
fn a_clock_that_steps_back_is_in_the_newest_bucket() {
    let machine = ring(2, 100, 10);
    let mut state = used(&machine, &[(505, 1)]);
    assert_eq!(machine.commit(&mut state, 303, 1), 500);
    assert_eq!(status(&machine, &state, 303), (0, Some(307)));
    assert_eq!(wait(&machine, &state, 303, 1), Some(307));
    machine.refund(&mut state, 303, 500, 2);
    assert_eq!(status(&machine, &state, 303), (2, Some(0)));
    assert_eq!(machine.commit(&mut state, 303, 1), 500);
}

/// The bucket of the call has left the ring, and a newer one is in its slot.
#[test]
fn late_refund_gives_nothing_after_the_clock_has_stepped_back() {
    let machine = ring(9, 100, 10);
    let held = used(&machine, &[(5, 2), (115, 3)]);
    for now in [5, 60, 104, 115] {
        let mut state = held.clone();
        machine.refund(&mut state, now, 5, 2);
        assert_eq!(state, held, "at {now}");
    }
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
