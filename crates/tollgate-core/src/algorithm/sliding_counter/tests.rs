//! Tests of the sliding counter's promises at the edges.

use std::time::Duration;

use super::super::Machine;
use super::super::tests::{status, used, wait};
use super::{SlidingCounter, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

fn counter(amount: u64) -> SlidingCounter {
    SlidingCounter::new(Quota::new(amount, Duration::from_micros(100)).unwrap()).unwrap()
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
