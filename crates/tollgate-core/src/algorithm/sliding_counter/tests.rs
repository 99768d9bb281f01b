//! Tests of the sliding counter's promises at the edges.

use std::time::Duration;

use super::super::Machine;
use super::{SlidingCounter, State};
use crate::error::LimitError;
use crate::quota::Quota;
use crate::time::MAX_EXACT;

const T: u64 = 100;

fn counter(amount: u64) -> SlidingCounter {
    SlidingCounter::new(Quota::new(amount, Duration::from_micros(T)).unwrap()).unwrap()
}

fn wait(machine: &SlidingCounter, state: &State, now: u64, cost: u64) -> Option<u64> {
    machine.wait(state, now, cost).as_micros()
}

/// Returns `remaining` and `reset_after`.
fn status(machine: &SlidingCounter, state: &State, now: u64) -> (u64, Option<u64>) {
    let status = machine.status(state, now);
    (status.remaining, status.reset_after.as_micros())
}

fn used(machine: &SlidingCounter, calls: &[(u64, u64)]) -> State {
    let mut state = State::default();
    for &(now, cost) in calls {
        machine.commit(&mut state, now, cost);
    }
    state
}

#[test]
fn the_previous_window_weighs_by_the_share_still_covered_rounded_up() {
    let machine = counter(10);
    let state = used(&machine, &[(50, 10)]);
    let remaining = |now| status(&machine, &state, now).0;
    // Each tenth of the window frees one unit; a microsecond less frees none.
    assert_eq!(
        [99, 100, 101, 109, 110, 111].map(remaining),
        [0, 0, 0, 0, 1, 1]
    );
    assert_eq!([189, 190, 199, 200].map(remaining), [8, 9, 9, 10]);
}

#[test]
fn a_wait_within_this_window_is_exact() {
    let machine = counter(10);
    let state = used(&machine, &[(50, 10), (150, 2)]);
    for (cost, due) in [(3, 150), (4, 160), (8, 200)] {
        assert_eq!(wait(&machine, &state, 120, cost), Some(due - 120), "{cost}");
        assert_eq!(wait(&machine, &state, due - 1, cost), Some(1), "{cost}");
        assert_eq!(wait(&machine, &state, due, cost), Some(0), "{cost}");
    }
}

#[test]
fn a_wait_into_the_next_window_is_exact() {
    let machine = counter(10);
    let state = used(&machine, &[(50, 3)]);
    // Eight and three exceed ten, so the three must weigh at most two: a third into the next
    // window.
    assert_eq!(wait(&machine, &state, 50, 8), Some(84));
    assert_eq!(wait(&machine, &state, 133, 8), Some(1));
    assert_eq!(wait(&machine, &state, 134, 8), Some(0));
    assert_eq!(wait(&machine, &state, 199, 10), Some(1));
    assert_eq!(wait(&machine, &state, 200, 10), Some(0));
}

#[test]
fn reset_after_is_two_windows_after_the_start_or_one_for_the_previous_window() {
    let machine = counter(10);
    let state = used(&machine, &[(50, 1)]);
    let reset = |now| status(&machine, &state, now).1;
    assert_eq!(
        [50, 99, 100, 199, 200].map(reset),
        [150, 101, 100, 1, 0].map(Some)
    );
}

#[test]
fn skipped_windows_count_nothing() {
    let machine = counter(10);
    let state = used(&machine, &[(50, 10)]);
    let remaining = [T - 1, T, T + 1].map(|more| status(&machine, &state, 100 + more).0);
    assert_eq!(remaining, [9, 10, 10]);
    assert_eq!(status(&machine, &state, 100_000), (10, Some(0)));
}

#[test]
fn a_refund_is_taken_from_the_window_it_was_counted_in() {
    let machine = counter(10);
    let held = used(&machine, &[(50, 4), (100, 3)]);
    for (at, previous, current) in [(50, 2, 3), (99, 2, 3), (100, 4, 1), (150, 4, 1)] {
        let mut state = held;
        machine.refund(&mut state, 150, at, 2);
        assert_eq!(
            (state.previous, state.current),
            (previous, current),
            "of {at}"
        );
    }
    let mut later = held;
    machine.refund(&mut later, 250, 50, 2);
    assert_eq!(later.current + later.previous, 7);
    machine.refund(&mut later, 250, 100, 2);
    assert_eq!((later.start, later.previous, later.current), (200, 1, 0));
}

#[test]
fn a_refund_of_nothing_changes_nothing() {
    let machine = counter(10);
    let mut state = State::default();
    machine.refund(&mut state, 150, 120, 1);
    assert_eq!(state, State::default());
    let held = used(&machine, &[(50, 4)]);
    let mut state = held;
    machine.refund(&mut state, 250, 50, 4);
    assert_eq!(state, held);
}

#[test]
fn a_clock_that_steps_back_is_at_the_start_of_the_last_window() {
    let machine = counter(10);
    let mut state = used(&machine, &[(450, 4), (550, 2)]);
    assert_eq!(status(&machine, &state, 320), (4, Some(380)));
    assert_eq!(wait(&machine, &state, 320, 5), Some(205));
    assert_eq!(machine.commit(&mut state, 320, 4), 500);
    machine.refund(&mut state, 320, 500, 6);
    machine.refund(&mut state, 320, 450, 4);
    assert_eq!(status(&machine, &state, 320), (10, Some(0)));
    assert_eq!(machine.commit(&mut state, 320, 1), 500);
}

#[test]
fn a_window_that_is_counted_in_steps_weighs_no_less_than_the_formula() {
    let (amount, window) = (1_000_000_007, 86_400_000_000);
    let quota = Quota::new(amount, Duration::from_micros(window)).unwrap();
    let machine = SlidingCounter::new(quota).unwrap();
    assert!(machine.step > 1 && machine.steps * amount <= MAX_EXACT);
    assert!(machine.step * machine.steps >= window);
    let state = used(&machine, &[(0, amount)]);
    for into in (0..window).step_by(86_399_993) {
        let exact = u128::from(amount) * u128::from(window - into);
        let exact = u64::try_from(exact.div_ceil(u128::from(window))).unwrap();
        let weighed = amount - status(&machine, &state, window + into).0;
        assert!(weighed >= exact, "at {into}");
        // One step for where the call falls, and one for the last step being short.
        let finer = 2 * amount.div_ceil(machine.steps);
        assert!(weighed <= exact + finer, "at {into}");
    }
    // Waits are exact in steps too, and the last step may be short.
    for cost in [1, 2, 1_000, amount / 3, amount - 1, amount] {
        let due = wait(&machine, &state, 0, cost).unwrap();
        assert_eq!(wait(&machine, &state, due - 1, cost), Some(1), "{cost}");
        assert_eq!(wait(&machine, &state, due, cost), Some(0), "{cost}");
    }
}

#[test]
fn steps_are_as_fine_as_products_stay_exact() {
    let machine = |amount, window| {
        let quota = Quota::new(amount, Duration::from_micros(window)).unwrap();
        SlidingCounter::new(quota).unwrap()
    };
    assert_eq!(machine(0, MAX_EXACT).step, 1);
    assert_eq!(machine(1, MAX_EXACT).step, 1);
    // Two microseconds per step: halfway through the window, half of the count weighs.
    let (amount, window) = (9_007_200, 1_000_000_000);
    let machine = machine(amount, window);
    assert_eq!((machine.step, machine.steps), (2, window / 2));
    let state = used(&machine, &[(0, amount)]);
    let halfway = window + window / 2;
    assert_eq!(status(&machine, &state, halfway).0, amount / 2);
    assert_eq!(status(&machine, &state, halfway + 1).0, amount / 2);
}

#[test]
fn an_amount_too_large_for_steps_names_the_largest_possible() {
    let of = |amount| SlidingCounter::new(Quota::new(amount, Duration::from_secs(1)).unwrap());
    let most = MAX_EXACT / 1_000;
    assert!(of(most).is_ok());
    assert_eq!(
        of(most + 9),
        Err(LimitError::AmountTooLarge {
            amount: most + 9,
            most
        })
    );
}

#[test]
fn an_empty_counter_is_fresh_under_any_window() {
    let refunded = State {
        start: 150,
        current: 0,
        previous: 0,
    };
    let machine = counter(10);
    for mut state in [State::default(), refunded] {
        machine.commit(&mut state, 170, 4);
        assert_eq!(state.start, 100);
    }
}

#[test]
fn a_lowered_amount_counts_no_more_than_itself() {
    let state = used(&counter(10), &[(50, 10), (199, 9)]);
    let lowered = counter(4);
    assert_eq!(status(&lowered, &state, 199), (0, Some(101)));
    // In the next window the count weighs as four, not nine.
    assert_eq!(wait(&lowered, &state, 199, 1), Some(26));
    assert_eq!(status(&lowered, &state, 225), (1, Some(75)));
}

#[test]
fn the_largest_counts_do_not_wrap() {
    let quota = Quota::new(MAX_EXACT / 1_000, Duration::from_micros(MAX_EXACT)).unwrap();
    let machine = SlidingCounter::new(quota).unwrap();
    let state = used(&machine, &[(MAX_EXACT, quota.amount())]);
    assert_eq!(
        wait(&machine, &state, MAX_EXACT, quota.amount()),
        Some(2 * MAX_EXACT)
    );
    assert!(SlidingCounter::new(Quota::new(MAX_EXACT, Duration::from_secs(1)).unwrap()).is_err());
}

#[test]
fn no_window_counts_more_than_the_amount() {
    let state = used(&counter(10), &[(50, 7), (60, 7)]);
    assert_eq!(state.current, 10);
}
