//! Tests of how long a line lets others go first.

use std::time::Duration;

use super::Turns;

const MS: Duration = Duration::from_millis(1);
/// A wait of which a quarter is the longest delay, and a ninth of that a whole number of
/// nanoseconds.
const WAIT: Duration = Duration::from_micros(36);
const STEP: Duration = Duration::from_micros(1);

/// Returns the delay of a line that lost `times` times at a limit of 80, without the random part.
fn after_losses(turns: &mut Turns, times: usize) -> Duration {
    let delays = (0..times).map(|_| turns.delay(WAIT, 80, true, 0));
    delays.last().unwrap()
}

#[test]
fn the_more_a_line_is_owed_the_earlier_it_asks() {
    let mut turns = Turns::default();
    for step in (0..8).rev() {
        assert_eq!(after_losses(&mut turns, 1), STEP * step);
    }
    // It is not owed more than the whole limit, so once it got that, it is owed nothing.
    assert_eq!(after_losses(&mut turns, 3), Duration::ZERO);
    turns.took(80);
    assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 8);
    turns.took(u64::MAX);
    assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 8);
}

#[test]
fn what_it_got_counts_against_what_it_is_owed() {
    let mut turns = Turns::default();
    assert_eq!(after_losses(&mut turns, 5), STEP * 3);
    turns.took(30);
    assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 6);
    // Not a whole share of ten.
    turns.took(1);
    assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 7);
}

#[test]
fn a_line_that_is_owed_more_than_a_smaller_limit_holds_asks_at_once() {
    let mut turns = Turns::default();
    assert_eq!(after_losses(&mut turns, 5), STEP * 3);
    assert_eq!(turns.delay(WAIT, 8, false, 0), Duration::ZERO);
    assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 3);
}

#[test]
fn a_share_is_an_eighth_of_the_limit_rounded_up() {
    let eighths = [7, 8, 9, 16, 17, u64::MAX].map(|capacity| (capacity, 7));
    for (capacity, steps) in [(0, 8), (1, 0), (2, 4)].into_iter().chain(eighths) {
        let found = Turns::default().delay(WAIT, capacity, true, 0);
        assert_eq!(found, STEP * steps, "{capacity}");
    }
    // Of nine, it is owed two each time: eight after four times, nine after five.
    let mut turns = Turns::default();
    let delays = (0..5).map(|_| turns.delay(WAIT, 9, true, 0));
    let steps = [7, 5, 3, 1, 0].map(|steps| STEP * steps);
    assert!(delays.eq(steps));
}

#[test]
fn a_line_expects_others_for_sixteen_waits_after_they_were_faster() {
    let mut turns = Turns::default();
    assert_eq!(after_losses(&mut turns, 1), STEP * 7);
    for _ in 1..16 {
        assert_eq!(turns.delay(WAIT, 80, false, 0), STEP * 7);
    }
    // Then it lets them go first in one wait of sixteen.
    for wait in 16..100 {
        let expected = if wait % 16 == 0 {
            WAIT / 4
        } else {
            Duration::ZERO
        };
        assert_eq!(turns.delay(WAIT, 80, false, 0), expected, "{wait}");
    }
    assert_eq!(after_losses(&mut turns, 1), STEP * 6);
}

#[test]
fn a_new_line_lets_others_go_first_after_its_fourth_wait() {
    let mut turns = Turns::default();
    let delays = (0..20).map(|_| turns.delay(WAIT, 80, false, 0));
    let delays: Vec<_> = delays.collect();
    let probes: Vec<_> = (0..20).filter(|at| !delays[*at].is_zero()).collect();
    assert_eq!(probes, [3, 19]);
    assert_eq!(delays[3], WAIT / 4);
}

#[test]
fn a_line_asks_at_most_eight_milliseconds_later_and_at_most_a_quarter_of_its_wait() {
    for (wait, most) in [
        (Duration::from_secs(10), 8 * MS),
        (32 * MS, 8 * MS),
        (28 * MS, 7 * MS),
        (WAIT, 9 * STEP),
    ] {
        // All of the random part, but less than a step.
        let delay = Turns::default().delay(wait, u64::MAX, true, u64::MAX);
        let holds = delay < most * 8 / 9 && delay + MS / 1000 >= most * 8 / 9;
        assert!(holds, "{delay:?}");
    }
}

#[test]
fn a_random_part_of_a_step_tells_lines_apart_that_are_owed_the_same() {
    for (random, part) in [
        (0, Duration::ZERO),
        (u64::MAX / 4 + 1, STEP / 4),
        (u64::MAX / 2 + 1, STEP / 2),
        (u64::MAX, STEP - Duration::from_nanos(1)),
    ] {
        let delay = Turns::default().delay(WAIT, 80, true, random);
        assert_eq!(delay, STEP * 7 + part, "{random}");
    }
}

#[test]
fn without_a_wait_there_is_no_delay_and_nothing_is_owed() {
    let mut turns = Turns::default();
    for _ in 0..5 {
        let found = turns.delay(Duration::ZERO, 80, true, u64::MAX);
        assert_eq!(found, Duration::ZERO);
    }
    assert_eq!(after_losses(&mut turns, 1), STEP * 7);
}
