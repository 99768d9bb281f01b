//! Tests of the memory that a sliding log takes, and of its two kinds of entries.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Machine, Remembered};
use super::{SlidingLog, State};
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
        assert!(state.len <= 6);
    }
    assert!(
        state.heap_bytes() <= (2 + 6) * 8,
        "{} bytes",
        state.heap_bytes()
    );
}

#[test]
fn room_for_entries_doubles_up_to_n() {
    let room = |machine: SlidingLog, calls: u64| {
        let mut state = State::default();
        let mut rooms = Vec::new();
        for now in 0..calls {
            machine.commit(&mut state, now, 1);
            rooms.push(state.words.len() - 2);
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

proptest! {
    /// Entries are of one word under windows of three units, and of two under those of twenty, if a unit is a year.
    #[test]
    fn a_log_decides_alike_in_microseconds_and_in_years(
        calls in vec((0..4_u64, prop::sample::select(vec![3, 20]), 0..4, 1..4_u64), 1..60),
    ) {
        let [micros, years] = [1, 1 << 45].map(|unit| {
            let (mut state, mut now, mut all) = (State::default(), 0, Vec::new());
            for &(later, window, call, amount) in &calls {
                now += later * unit;
                let quota = Quota::new(9, Duration::from_micros(window * unit)).unwrap();
                let machine = SlidingLog::new(quota).unwrap();
                match call {
                    0 => machine.refund(&mut state, now, now.saturating_sub(amount * unit), amount),
                    1 if amount <= machine.givable(&state, now) => machine.give(&mut state, now, amount),
                    _ => _ = machine.commit(&mut state, now, amount),
                }
                let (wait, status) = (machine.wait(&state, now, 5), machine.status(&state, now));
                let waits = [wait, status.reset_after].map(|wait| wait.as_micros().unwrap() / unit);
                all.push((status.remaining, waits));
            }
            all
        });
        prop_assert_eq!(micros, years);
    }
}
