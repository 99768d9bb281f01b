//! Tests of GCRA's promises at the edges.

use std::time::Duration;

use super::super::tests::{used, wait};
use super::super::{Algorithm, Machine, Reserved};
use super::{Gcra, State};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

#[test]
fn a_rate_that_leaks_2_to_the_64_units_does_not_overflow() {
    // After 4,096 microseconds, 2^64 units have leaked.
    let quota = Quota::new(1 << 52, Duration::from_micros(1)).unwrap();
    let machine = Gcra::with_burst(quota, 5).unwrap();
    let mut state = used(&machine, &[(0, 5)]);
    assert_eq!(machine.status(&state, 4_096).remaining, 5);
    machine.commit(&mut state, 4_096, 5);
    machine.refund(&mut state, 4_096, 0, 5);
    assert_eq!(machine.status(&state, 4_096).remaining, 0);
}

#[test]
fn a_rejected_bucket_says_what_is_near_and_exact() {
    for (text, expected) in [
        (
            "gcra:999983/1d",
            "an amount of 999983 cannot be counted exactly in this window: choose at most 104249, \
             or a multiple of 10, such as 999980",
        ),
        (
            "gcra:999983/1d,burst=500000",
            "a burst of 500000 cannot be counted exactly in this window: choose at most 104249, or \
             an amount that is a multiple of 5, such as 999980",
        ),
        (
            "gcra:1/1s,burst=9007199254740991",
            "a burst of 9007199254740991 cannot be counted exactly in this window: choose at most \
             9007199254",
        ),
    ] {
        let error = text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
    for window_us in [86_400_000_000, 60_000_000, 7_776_001_000, MAX_EXACT] {
        let window = Duration::from_micros(window_us);
        for amount in [999_983, 1_000_003, 200_000_033, 15_485_863, 7_654_321] {
            let quota = Quota::new(amount, window).unwrap();
            for burst in [amount, amount / 2 + 1, 3 * amount] {
                let Err(error) = Gcra::with_burst(quota, burst) else {
                    continue;
                };
                let LimitError(Problem::BurstNotExact { most, near, .. }) = error else {
                    panic!("{error}");
                };
                assert!(Gcra::with_burst(quota, most).is_ok());
                assert!(Gcra::with_burst(quota, most + 1).is_err());
                let Some(near) = near else {
                    continue;
                };
                let amount = amount - amount % near;
                let burst = if burst == quota.amount() {
                    amount
                } else {
                    burst
                };
                let near = Quota::new(amount, window).unwrap();
                assert!(Gcra::with_burst(near, burst).is_ok(), "{near} {burst}");
            }
        }
    }
}

fn reserved(machine: &Gcra, state: &mut State, now: u64, cost: u64) -> Reserved {
    let delay = wait(machine, state, now, cost).unwrap();
    machine.reserve(state, now, delay, cost)
}

#[test]
fn a_start_at_any_distance_is_kept_exactly() {
    let machine = Gcra::new(Quota::new(MAX_EXACT, Duration::from_micros(MAX_EXACT)).unwrap());
    let machine = machine.unwrap();
    for bits in 0..53 {
        for ahead in [1 << bits, (1 << bits) - 1 + (1 << 52 >> bits)] {
            for at in [0, MAX_EXACT - ahead] {
                let state = State::new(MAX_EXACT, at, 1, at + ahead);
                assert_eq!(state.starts(1, at), if ahead > 0 { at + ahead } else { 0 });
                assert_eq!(machine.leaked(&state, 0), (MAX_EXACT, at));
                assert_eq!(state.starts(0, at), 0);
            }
        }
    }
}

#[test]
fn a_reservation_that_leaks_more_than_can_be_counted_is_not_given_back() {
    let per_microsecond = |amount, burst| {
        let quota = Quota::new(amount, Duration::from_micros(1)).unwrap();
        Gcra::with_burst(quota, burst).unwrap()
    };
    let slow = per_microsecond(1, 4_096);
    // Until the start, 2^64 units leak.
    let fast = per_microsecond(1 << 52, (1 << 52) + 1);
    let mut full = used(&slow, &[(0, 4_096)]);
    let second = reserved(&slow, &mut full, 0, 4_096);
    assert_eq!((second.start, second.before), (4_096, 4_096));
    let short = Reserved { start: 4, ..second };
    for (now, state, reserved, amount) in [
        (0, full, second, 4_096),
        (0, State::default(), second, 1),
        // Here it is 2^54.
        (3, used(&fast, &[(3, (1 << 52) + 1)]), short, 1),
    ] {
        let mut after = state;
        fast.cancel(&mut after, now, &reserved, amount);
        assert_eq!(after, state);
    }
}

#[test]
fn a_reservation_under_another_quota_is_not_given_back() {
    let machine = Gcra::with_burst(Quota::per_second(1), 1).unwrap();
    let other = Gcra::with_burst(Quota::per_second(2), 1).unwrap();
    let mut state = used(&machine, &[(0, 1)]);
    let second = reserved(&machine, &mut state, 0, 1);
    let held = state;
    other.cancel(&mut state, 0, &second, 1);
    assert_eq!(state, held);
    // Nor at an instant before it was made, in a state that was reset.
    let mut state = used(&machine, &[(0, 1)]);
    let late = Reserved { at: 9, ..second };
    let held = state;
    machine.cancel(&mut state, 0, &late, 1);
    assert_eq!(state, held);
}

#[test]
fn a_reservation_is_given_back_only_at_its_own_cost() {
    let machine = Gcra::with_burst(Quota::per_second(1), 1).unwrap();
    let mut state = used(&machine, &[(0, 1)]);
    let second = reserved(&machine, &mut state, 0, 1);
    let held = state;
    for cost in [0, 2, (1 << 58) + 1, u64::MAX] {
        machine.cancel(&mut state, 0, &second, cost);
        assert_eq!(state, held, "{cost}");
    }
    machine.cancel(&mut state, 0, &second, 1);
    assert_eq!(state, used(&machine, &[(0, 1)]));
}

#[test]
fn an_earlier_start_comes_back_only_with_a_debt() {
    let machine = Gcra::with_burst(Quota::per_second(1), 3).unwrap();
    let mut pending = State::default();
    machine.reserve(&mut pending, 0, 5_000_000, 1);
    let last = machine.reserve(&mut pending, 0, 10_000_000, 1);
    for (now, debt, starts) in [
        (4_999_999, 1_000_001, 5_000_000),
        (5_000_000, 1_000_000, 0),
        (6_000_000, 0, 0),
    ] {
        let mut state = pending;
        machine.cancel(&mut state, now, &last, 1);
        assert_eq!(state, State::new(debt, now, machine.unit, starts));
        assert_eq!(state.starts(1, now), starts);
    }
}
