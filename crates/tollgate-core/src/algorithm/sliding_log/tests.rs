//! Tests of the sliding log's promises at the edges.

use std::time::Duration;

use super::super::{Machine, Remembered};
use super::{Entry, SlidingLog, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

const T: u64 = 100;

fn log(amount: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(amount, Duration::from_micros(T)).unwrap()).unwrap()
}

fn wait(machine: &SlidingLog, state: &State, now: u64, cost: u64) -> Option<u64> {
    machine.wait(state, now, cost).as_micros()
}

/// Returns `remaining` and `reset_after`.
fn status(machine: &SlidingLog, state: &State, now: u64) -> (u64, Option<u64>) {
    let status = machine.status(state, now);
    (status.remaining, status.reset_after.as_micros())
}

fn used(machine: &SlidingLog, calls: &[(u64, u64)]) -> State {
    let mut state = State::default();
    for &(now, cost) in calls {
        machine.commit(&mut state, now, cost);
    }
    state
}

#[test]
fn a_unit_counts_for_exactly_one_window() {
    let machine = log(1);
    let state = used(&machine, &[(7, 1)]);
    let remaining = [T - 1, T, T + 1].map(|since| status(&machine, &state, 7 + since).0);
    assert_eq!(remaining, [0, 1, 1]);
    assert_eq!(wait(&machine, &state, 7 + T - 1, 1), Some(1));
    assert_eq!(wait(&machine, &state, 7 + T, 1), Some(0));
    // The epoch itself is an instant like any other.
    let state = used(&machine, &[(0, 1)]);
    assert_eq!(
        [T - 1, T].map(|now| wait(&machine, &state, now, 1)),
        [Some(1), Some(0)]
    );
}

#[test]
fn a_call_waits_for_as_many_units_as_it_needs() {
    let machine = log(5);
    let state = used(&machine, &[(0, 2), (10, 1), (40, 2)]);
    let waits = [1, 2, 3, 4, 5].map(|cost| wait(&machine, &state, 50, cost));
    assert_eq!(waits, [50, 50, 60, 90, 90].map(Some));
    assert_eq!(status(&machine, &state, 50), (0, Some(90)));
    assert_eq!(status(&machine, &state, 110), (3, Some(30)));
}

#[test]
fn calls_at_the_same_instant_share_an_entry() {
    let machine = log(5);
    let state = used(&machine, &[(3, 1), (3, 1), (4, 1)]);
    assert_eq!(
        state.entries,
        [Entry { at: 3, total: 2 }, Entry { at: 4, total: 3 }]
    );
}

#[test]
fn recording_a_call_drops_expired_entries() {
    let machine = log(3);
    let state = used(&machine, &[(0, 1), (1, 1), (T, 1), (T + 1, 1), (T + 2, 1)]);
    assert_eq!(state.entries.len(), 3);
    assert_eq!(state.entries[0].at, T);
    // Also if the quota has room for more units than were ever recorded.
    let state = used(&log(9), &[(0, 1), (1, 1), (2, 1), (T + 1, 1)]);
    let held: Vec<_> = state.entries.iter().map(|entry| entry.at).collect();
    assert_eq!(held, [2, T + 1]);
}

#[test]
fn a_log_allocates_at_most_n_entries() {
    let machine = log(6).count_denied();
    let mut state = State::default();
    for now in 0..1_000 {
        machine.commit(&mut state, now / 2, 1 + now % 9);
        assert!(state.entries.len() <= 6);
    }
    assert!(state.heap_bytes() <= 6 * 16, "{} bytes", state.heap_bytes());
}

#[test]
fn room_for_entries_doubles_up_to_n() {
    let room = |machine: SlidingLog, calls: u64| {
        let mut state = State::default();
        let mut rooms = Vec::new();
        for now in 0..calls {
            machine.commit(&mut state, now, 1);
            rooms.push(state.heap_bytes() / size_of::<Entry>());
        }
        rooms.dedup();
        rooms
    };
    assert_eq!(room(log(50), 60), [4, 8, 16, 32, 50]);
    assert_eq!(room(log(3), 9), [3]);
    assert_eq!(room(log(5), 9), [4, 5]);
    // A settlement under a quota of zero counts no units, but records when it was.
    assert_eq!(room(log(0), 9), [1]);
}

#[test]
fn a_log_of_denied_calls_keeps_the_newest_n_units() {
    let machine = log(3).count_denied();
    let mut state = used(&machine, &[(0, 3)]);
    for now in [10, 20] {
        machine.commit(&mut state, now, 1);
    }
    // One of the first three units is left, followed by both attempts.
    let waits = [1, 2, 3].map(|cost| wait(&machine, &state, 20, cost));
    assert_eq!(waits, [80, 90, 100].map(Some));
    // An attempt that could never fit counts as the full amount.
    machine.commit(&mut state, 30, u64::MAX);
    assert_eq!(wait(&machine, &state, 30, 1), Some(T));
    assert_eq!(status(&machine, &state, 129), (0, Some(1)));
    assert_eq!(status(&machine, &state, 130), (3, Some(0)));
}

#[test]
fn a_refund_removes_units_of_its_instant() {
    let machine = log(5);
    let held = used(&machine, &[(0, 2), (10, 1), (40, 2)]);
    for (at, amount, remaining, reset) in [
        (0, 1, 1, 90),
        (0, 2, 2, 90),
        (10, 1, 1, 90),
        (40, 1, 1, 90),
        (40, 2, 2, 60),
        (40, 9, 2, 60),
        (41, 1, 0, 90),
    ] {
        let mut state = held.clone();
        machine.refund(&mut state, 50, at, amount);
        assert_eq!(
            status(&machine, &state, 50),
            (remaining, Some(reset)),
            "{amount} of {at}"
        );
    }
}

#[test]
fn a_refund_after_the_window_changes_nothing() {
    let machine = log(5);
    let held = used(&machine, &[(0, 2), (10, 1)]);
    let mut state = held.clone();
    machine.refund(&mut state, T, 0, 2);
    assert_eq!(state, held);
    machine.refund(&mut state, T - 1, 0, 2);
    assert_eq!(status(&machine, &state, T - 1).0, 4);
    let mut fresh = State::default();
    machine.refund(&mut fresh, 50, 50, 1);
    assert_eq!(fresh, State::default());
}

#[test]
fn a_refund_of_dropped_units_removes_no_others() {
    let machine = log(3).count_denied();
    let mut state = used(&machine, &[(0, 2), (10, 3)]);
    machine.refund(&mut state, 20, 0, 2);
    assert_eq!(status(&machine, &state, 20), (0, Some(90)));
}

#[test]
fn a_clock_that_steps_back_is_at_the_last_instant_recorded() {
    let machine = log(2);
    let mut state = used(&machine, &[(500, 1)]);
    assert_eq!(machine.commit(&mut state, 300, 1), 500);
    assert_eq!(status(&machine, &state, 300), (0, Some(300)));
    assert_eq!(wait(&machine, &state, 300, 1), Some(300));
    // A refund does not remove the last instant recorded.
    machine.refund(&mut state, 300, 500, 2);
    assert_eq!(status(&machine, &state, 300), (2, Some(0)));
    assert_eq!(machine.commit(&mut state, 300, 1), 500);
}

#[test]
fn entries_keep_their_meaning_under_another_quota() {
    let state = used(&log(5), &[(0, 3), (40, 2)]);
    let lowered = log(2);
    assert_eq!(status(&lowered, &state, 50), (0, Some(90)));
    // Both calls have to leave before two fit.
    assert_eq!(wait(&lowered, &state, 50, 2), Some(90));
    let shorter = SlidingLog::new(Quota::new(5, Duration::from_micros(20)).unwrap()).unwrap();
    assert_eq!(status(&shorter, &state, 50), (3, Some(10)));
    let longer = SlidingLog::new(Quota::new(5, Duration::from_micros(300)).unwrap()).unwrap();
    assert_eq!(wait(&longer, &state, 150, 1), Some(150));
}

#[test]
fn the_longest_window_does_not_wrap() {
    let quota = Quota::new(1, Duration::from_micros(MAX_EXACT)).unwrap();
    let machine = SlidingLog::new(quota).unwrap();
    let state = used(&machine, &[(MAX_EXACT, 1)]);
    assert_eq!(wait(&machine, &state, 0, 1), Some(2 * MAX_EXACT));
}

#[test]
fn an_amount_too_large_for_a_log_is_rejected() {
    let quota = |amount| Quota::per_day(amount);
    assert!(SlidingLog::new(quota(100_000)).is_ok());
    assert!(SlidingLog::new(quota(100_001)).is_err());
}
