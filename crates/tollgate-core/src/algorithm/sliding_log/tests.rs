//! Tests of the sliding log's promises at the edges.

use std::time::Duration;

use super::super::tests::{status, used, wait};
use super::super::{Machine, Remembered};
use super::{Entry, SlidingLog, State};
use crate::quota::Quota;
use crate::time::MAX_EXACT;

const T: u64 = 100;

fn log(amount: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(amount, Duration::from_micros(T)).unwrap()).unwrap()
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
    // A settlement under a quota of zero counts no units, and needs no entry to record when it was.
    assert_eq!(room(log(0), 9), [0]);
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
