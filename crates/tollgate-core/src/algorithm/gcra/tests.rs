//! Tests of GCRA's promises at the edges.

use std::time::Duration;

use super::super::tests::{used, wait};
use super::super::{Algorithm, Machine, Reserved};
use super::{Ahead, Gcra, State};
use crate::error::{LimitError, Problem};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

/// Three per four microseconds: a token every `4/3` microseconds.
fn uneven(burst: u64) -> Gcra {
    Gcra::with_burst(Quota::new(3, Duration::from_micros(4)).unwrap(), burst).unwrap()
}

#[test]
fn a_rate_is_kept_as_a_fraction_in_lowest_terms() {
    let day = Gcra::new(Quota::per_day(1_000_000)).unwrap();
    assert_eq!((day.leak, day.unit, day.full), (1, 86_400, 86_400_000_000));
    let uneven = uneven(2);
    assert_eq!((uneven.leak, uneven.unit, uneven.full), (3, 4, 8));
}

#[test]
fn a_refund_of_nothing_changes_nothing() {
    let machine = Gcra::with_burst(Quota::per_second(1), 3).unwrap();
    let mut fresh = State::default();
    machine.refund(&mut fresh, 100, 0, 2);
    assert_eq!(fresh, State::default());
    let held = used(&machine, &[(0, 3)]);
    let mut state = held;
    machine.refund(&mut state, 2_000_000, 0, 2);
    assert_eq!(state, held);
}

#[test]
fn a_debt_keeps_its_tokens_under_another_rate_and_rounds_up() {
    let (from, to) = (
        uneven(3),
        Gcra::with_burst(Quota::per_second(1), 3).unwrap(),
    );
    let mut state = used(&from, &[(0, 2)]);
    // Two tokens of four units each become two tokens of a million units each.
    assert_eq!(wait(&to, &state, 0, 1), Some(0));
    assert_eq!(wait(&to, &state, 0, 2), Some(1_000_000));
    state.debt = 5;
    assert_eq!(
        to.status(&state, 0).reset_after.as_micros(),
        Some(1_250_000)
    );
    let in_units = |unit| State {
        debt: 1,
        at: 0,
        unit,
        ahead: 0,
    };
    let reset = |unit| to.status(&in_units(unit), 0).reset_after.as_micros();
    assert_eq!(
        [1, 2, 3].map(reset),
        [1_000_000, 500_000, 333_334].map(Some)
    );
}

#[test]
fn a_debt_too_large_for_the_new_unit_becomes_the_largest_debt() {
    let machine = uneven(3);
    let state = State {
        debt: MAX_EXACT,
        at: 0,
        unit: 1,
        ahead: 0,
    };
    let reset = machine.status(&state, 0).reset_after.as_micros();
    assert_eq!(reset, Some(MAX_EXACT.div_ceil(3)));
}

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
fn a_debt_that_exceeds_a_lowered_burst_leaves_nothing() {
    let (from, to) = (uneven(9), uneven(1));
    let state = used(&from, &[(0, 9)]);
    assert_eq!(to.status(&state, 0).remaining, 0);
    // Nine tokens leak in twelve microseconds; with a burst of one, the next call waits for all of
    // them.
    assert_eq!(wait(&to, &state, 0, 1), Some(12));
}

#[test]
fn the_largest_debts_neither_wrap_nor_forgive() {
    let quota = Quota::new(1, Duration::from_micros(MAX_EXACT)).unwrap();
    let machine = Gcra::with_burst(quota, 1).unwrap();
    let state = used(&machine, &[(MAX_EXACT, 1)]);
    assert_eq!(wait(&machine, &state, 0, 1), Some(2 * MAX_EXACT));
    let coarse = State {
        debt: MAX_EXACT,
        at: 0,
        unit: 1,
        ahead: 0,
    };
    assert_eq!(machine.status(&coarse, 0).remaining, 0);
    assert_eq!(wait(&machine, &coarse, 0, 1), Some(MAX_EXACT));
}

#[test]
fn debt_too_large_for_the_new_unit_is_capped_at_the_largest_exact_integer() {
    let per_second = Gcra::with_burst(Quota::per_second(1), 9_000_000_000).unwrap();
    let room = per_second.full - per_second.unit;
    // A million times as many units: beyond 64 bits, beyond 2^53, at the cap, and below it.
    for (debt, rescaled) in [
        (MAX_EXACT, MAX_EXACT),
        (10_000_000_000_000, MAX_EXACT),
        (9_007_199_255, MAX_EXACT),
        (9_007_199_254, 9_007_199_254_000_000),
    ] {
        let state = State {
            debt,
            at: 0,
            unit: 1,
            ahead: 0,
        };
        let reset = per_second.status(&state, 0).reset_after.as_micros();
        assert_eq!(reset, Some(rescaled), "{debt}");
        assert_eq!(wait(&per_second, &state, 0, 1), Some(rescaled - room));
    }
}

#[test]
fn a_bucket_that_cannot_be_exact_is_rejected() {
    let coprime = Quota::new(MAX_EXACT, Duration::from_micros(MAX_EXACT - 1)).unwrap();
    let most = MAX_EXACT / (MAX_EXACT - 1);
    assert_eq!(
        Gcra::new(coprime),
        Err(LimitError(Problem::BurstNotExact {
            amount: MAX_EXACT,
            burst: MAX_EXACT,
            most,
            near: Some(MAX_EXACT - 1),
        }))
    );
    assert!(Gcra::with_burst(coprime, most).is_ok());
    let nothing = Quota::per_second(0);
    assert_eq!(
        Gcra::with_burst(nothing, 1),
        Err(LimitError(Problem::NeverRefills { burst: 1 }))
    );
    assert!(Gcra::new(nothing).is_ok());
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
fn a_delay_that_another_limit_causes_counts_from_the_start() {
    let machine = Gcra::with_burst(Quota::per_second(1), 3).unwrap();
    let mut state = State::default();
    machine.reserve(&mut state, 0, 5_000_000, 1);
    // At the start, one token is used and two are left.
    assert_eq!(machine.status(&state, 5_000_000).remaining, 2);
    assert_eq!(machine.status(&state, 4_000_000).remaining, 1);
    assert_eq!(machine.status(&state, 3_000_000).remaining, 0);
    // Until the start, what leaks is not there to be given back.
    let mut consumed = state;
    assert!(machine.consume(&mut consumed, 4_000_000, 1).allowed);
    machine.commit(&mut state, 4_000_000, 1);
    assert_eq!(consumed, state);
    machine.refund(&mut consumed, 4_000_000, 4_000_000, 1);
    assert_eq!(consumed, state);
    machine.refund(&mut state, 5_000_000, 4_500_000, 1);
    assert_eq!(machine.status(&state, 5_000_000).remaining, 1);
    machine.refund(&mut state, 5_000_000, 5_000_000, 1);
    assert_eq!(machine.status(&state, 5_000_000).remaining, 2);
}

/// A limit with another burst counts in the same state.
#[test]
fn what_is_given_back_under_a_larger_burst_is_not_that_of_a_pending_call() {
    let quota = Quota::new(1, Duration::from_micros(1)).unwrap();
    let [one, ten] = [1, 10].map(|burst| Gcra::with_burst(quota, burst).unwrap());
    let mut state = used(&one, &[(0, 1)]);
    assert_eq!(reserved(&one, &mut state, 0, 1).start, 1);
    let held = state;
    ten.refund(&mut state, 0, 0, 1);
    assert_eq!(state, held);
    assert_eq!(ten.status(&state, 1).remaining, 9);
}

#[test]
fn a_reservation_is_not_the_last_if_later_ones_took_what_was_given_back() {
    let quota = Quota::new(1, Duration::from_micros(1)).unwrap();
    let machine = Gcra::with_burst(quota, 10).unwrap();
    let mut state = used(&machine, &[(0, 5)]);
    let first = machine.reserve(&mut state, 0, 2, 5);
    machine.refund(&mut state, 0, 0, 5);
    machine.reserve(&mut state, 0, 8, 2);
    // As much as the first had left.
    assert_eq!(machine.leaked(&state, 0).0, 10);
    let held = state;
    machine.cancel(&mut state, 0, &first, 5);
    assert_eq!(state, held);
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
fn the_longest_delay_keeps_every_debt_exact() {
    for machine in [
        uneven(3),
        Gcra::with_burst(Quota::per_second(1), 9_007_199_254).unwrap(),
        Gcra::new(Quota::new(1 << 52, Duration::from_micros(1)).unwrap()).unwrap(),
    ] {
        let longest = machine.longest_delay().unwrap();
        assert!(machine.full + longest * machine.leak <= MAX_EXACT);
        assert!(machine.full + (longest + 1) * machine.leak > MAX_EXACT);
        let mut state = State::default();
        machine.reserve(&mut state, 0, longest, machine.burst);
        assert!(machine.leaked(&state, 0).0 <= MAX_EXACT);
        assert_eq!(machine.status(&state, longest).remaining, 0);
    }
}

#[test]
fn no_reservation_starts_before_the_latest_instant_of_its_state() {
    let machine = Gcra::with_burst(Quota::per_second(1), 2).unwrap();
    let mut state = used(&machine, &[(100, 1)]);
    let early = machine.reserve(&mut state, 40, 10, 1);
    assert_eq!((early.start, early.at), (100, 100));
    assert_eq!({ state.debt }, 2_000_000);
    let late = reserved(&machine, &mut state, 40, 1);
    assert_eq!((late.start, late.at), (1_000_100, 100));
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
fn a_reservation_under_a_close_quota_is_not_given_back() {
    let per = |micros| Gcra::new(Quota::new(1, Duration::from_micros(micros)).unwrap()).unwrap();
    let (three, two) = (per(3), per(2));
    let mut state = used(&three, &[(0, 1)]);
    let second = reserved(&three, &mut state, 2, 1);
    // Four thirds of a token, or three halves: rounded up, as much as the same reservation would
    // have left under the other quota.
    assert_eq!((second.before, state.debt), (1, 4));
    assert_eq!(two.leaked(&state, 2).0, 3);
    let held = state;
    two.cancel(&mut state, 2, &second, 1);
    assert_eq!(state, held);
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

#[test]
fn the_longest_reservation_can_be_given_back() {
    let machine = Gcra::with_burst(Quota::per_second(1), 3).unwrap();
    let mut state = State::default();
    let longest = machine.longest_delay().unwrap();
    let last = machine.reserve(&mut state, 0, longest, 3);
    assert_eq!(machine.leaked(&state, 0).0, MAX_EXACT);
    machine.cancel(&mut state, 0, &last, 3);
    assert_eq!({ state.debt }, 0);
}

#[test]
fn no_reservation_starts_after_the_latest_instant() {
    let machine = Gcra::with_burst(Quota::per_second(1), 1).unwrap();
    let mut state = used(&machine, &[(MAX_EXACT - 5, 1)]);
    let late = reserved(&machine, &mut state, MAX_EXACT - 5, 1);
    assert_eq!((late.start, late.at), (MAX_EXACT, MAX_EXACT - 5));
}

#[test]
fn a_refund_of_a_cost_too_large_to_count_forgives_no_later_call() {
    let machine = Gcra::with_burst(Quota::per_second(1), 3).unwrap();
    let mut state = used(&machine, &[(MAX_EXACT, 2)]);
    // Since then, the largest debt has leaked.
    machine.refund(&mut state, MAX_EXACT, 0, 1 << 52);
    assert_eq!({ state.debt }, 2_000_000);
}

#[test]
fn a_cost_too_large_to_count_becomes_the_largest_debt() {
    let machine = uneven(3);
    for cost in [MAX_EXACT / 4, 1 << 62, u64::MAX] {
        let mut state = used(&machine, &[(0, 1)]);
        machine.commit(&mut state, 0, cost);
        assert_eq!({ state.debt }, MAX_EXACT, "{cost}");
    }
}

/// What is granted ahead is due from the end of its use, so that what leaks until then is lost to all that
/// was counted before.
#[test]
fn a_grant_leaves_nothing_to_give_back_of_what_leaks_until_its_end() {
    // One unit a microsecond, four at once.
    let machine = Gcra::with_burst(Quota::new(1, Duration::from_micros(1)).unwrap(), 4).unwrap();
    let mut state = used(&machine, &[(0, 2)]);
    assert_eq!(machine.left_ahead(&state, 0, 2), 2);
    let starts = machine.commit_ahead(&mut state, 0, Ahead::after(2, 2));
    assert_eq!(starts, 2);
    // The two units of the first call have leaked when those of the grant are due.
    machine.refund(&mut state, 0, 0, 2);
    assert_eq!(machine.status(&state, 0).remaining, 0);
    assert_eq!(machine.status(&state, 2).remaining, 2);
    // Those of the grant itself are given back as a whole, unless a later one is due later.
    machine.refund(&mut state, 2, starts, 1);
    assert_eq!(machine.status(&state, 2).remaining, 3);

    let machine = Gcra::with_burst(Quota::new(1, Duration::from_micros(1)).unwrap(), 8).unwrap();
    let mut state = State::default();
    let first = machine.commit_ahead(&mut state, 0, Ahead::after(1, 4));
    machine.commit_ahead(&mut state, 0, Ahead::after(5, 2));
    machine.refund(&mut state, 0, first, 3);
    assert_eq!(machine.status(&state, 5).remaining, 6);
}
