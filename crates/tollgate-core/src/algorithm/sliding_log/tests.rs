//! Tests of the memory that a sliding log takes.

use std::time::Duration;

use super::super::{Machine, Remembered};
use super::{Entry, SlidingLog, State};
use crate::quota::Quota;

fn log(amount: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(amount, Duration::from_micros(100)).unwrap()).unwrap()
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
