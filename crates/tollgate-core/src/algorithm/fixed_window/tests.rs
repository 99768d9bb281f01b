//! Tests of the fixed window's promises at the edges.

use std::time::Duration;

use super::super::Machine;
use super::super::tests::{status, used, wait};
use super::FixedWindow;
use crate::quota::Quota;
use crate::time::MAX_EXACT;

const T: u64 = 100;

fn quota(amount: u64) -> Quota {
    Quota::new(amount, Duration::from_micros(T)).unwrap()
}

#[test]
fn a_refund_counts_only_in_its_own_window() {
    let machine = FixedWindow::aligned(quota(5));
    let held = used(&machine, &[(99, 2), (100, 3)]);
    for (now, at, remaining) in [(150, 99, 2), (150, 100, 4), (150, 199, 4), (150, 200, 2)] {
        let mut state = held;
        machine.refund(&mut state, now, at, 2);
        assert_eq!(machine.status(&state, now).remaining, remaining, "of {at}");
    }
    let mut ended = held;
    machine.refund(&mut ended, 200, 100, 3);
    assert_eq!(ended, held);
}

#[test]
fn refunding_the_first_call_of_an_anchored_window_keeps_one_unit_used() {
    let machine = FixedWindow::anchored(quota(3));
    let mut state = used(&machine, &[(0, 1), (50, 1)]);
    machine.refund(&mut state, 60, 0, 1);
    assert_eq!(status(&machine, &state, 60), (1, Some(40)));
    // So at most five units are kept from 50 to 150: two here, three in the next window.
    assert_eq!(wait(&machine, &state, 60, 2), Some(40));
    // A call at the start, after the clock stepped back, does not free the place.
    machine.commit(&mut state, 0, 1);
    assert_eq!(status(&machine, &state, 60), (0, Some(40)));
}

#[test]
fn remaining_is_zero_after_the_amount_is_lowered_below_the_count() {
    let state = used(&FixedWindow::aligned(quota(5)), &[(10, 5)]);
    let lowered = FixedWindow::aligned(quota(3));
    assert_eq!(status(&lowered, &state, 10), (0, Some(90)));
    assert_eq!(wait(&lowered, &state, 10, 3), Some(90));
    assert_eq!(
        wait(&FixedWindow::aligned(quota(6)), &state, 10, 1),
        Some(0)
    );
}

#[test]
fn the_last_representable_window_does_not_wrap() {
    let longest = Quota::new(MAX_EXACT, Duration::from_micros(MAX_EXACT)).unwrap();
    for machine in [
        FixedWindow::aligned(longest),
        FixedWindow::anchored(longest),
    ] {
        let state = used(&machine, &[(MAX_EXACT, MAX_EXACT)]);
        assert_eq!(wait(&machine, &state, 0, 1), Some(state.start + MAX_EXACT));
    }
}
