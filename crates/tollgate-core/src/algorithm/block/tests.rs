//! Tests of blocks: their ends, repeated blocks, and what changes nothing.

use std::time::Duration;

use super::Block;
use crate::algorithm::{BlockSpan, Machine, State};
use crate::store::{Check, Request, Verdicts};
use crate::time::{MAX_EXACT, Timestamp};
use crate::{Limit, LimitError};

const START: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn block(limit: &Limit, state: &mut State, now: u64, span: BlockSpan) -> Option<u64> {
    let request = Request::block(span, Check::new(limit, "k", 0));
    let verdicts = request.decide_on(state, at(now));
    verdicts.retry_after().as_micros()
}

fn check(limit: &Limit, state: &mut State, now: u64, cost: u64) -> Verdicts {
    Request::consume(Check::new(limit, "k", cost)).decide_on(state, at(now))
}

#[test]
fn denies_until_the_end_and_not_longer() {
    let limit = limit("ban=block:5s");
    for (span, length) in [
        (BlockSpan::Usual, 5 * SECOND),
        (BlockSpan::Until(at(START + 7)), 7),
        (BlockSpan::Lasting(Duration::from_nanos(6_001)), 7),
    ] {
        let mut state = State::default();
        assert_eq!(block(&limit, &mut state, START, span), Some(length));
        for (now, left) in [
            (START, length),
            (START + length - 1, 1),
            (START - 9, length + 9),
        ] {
            let denied = check(&limit, &mut state, now, 1);
            assert_eq!(denied.retry_after().as_micros(), Some(left));
            assert_eq!(denied.remaining(), 0);
            assert!(check(&limit, &mut state, now, 0).is_allowed());
        }
        let free = check(&limit, &mut state, START + length, 1_000);
        assert!(free.is_allowed());
        assert_eq!(free.remaining(), MAX_EXACT);
        assert!(free.reset_after().is_zero());
    }
}

#[test]
fn blocks_only_get_longer() {
    let limit = limit("ban=block:5s");
    let mut state = State::default();
    for (now, span, left) in [
        (START, BlockSpan::Until(at(START)), 0),
        (START, BlockSpan::Lasting(Duration::ZERO), 0),
        (
            START,
            BlockSpan::Lasting(Duration::from_secs(9)),
            9 * SECOND,
        ),
        (START, BlockSpan::Until(at(START + 8 * SECOND)), 9 * SECOND),
        (START + 5 * SECOND, BlockSpan::Usual, 4 * SECOND),
        (
            START + 5 * SECOND,
            BlockSpan::Lasting(Duration::from_secs(4)),
            4 * SECOND,
        ),
        (
            START + 5 * SECOND,
            BlockSpan::Lasting(Duration::from_micros(4_000_001)),
            4_000_001,
        ),
    ] {
        assert_eq!(block(&limit, &mut state, now, span), Some(left), "{span:?}");
    }
    let forever = BlockSpan::Lasting(Duration::MAX);
    assert_eq!(
        block(&limit, &mut state, START, forever),
        Some(MAX_EXACT - START)
    );
}

#[test]
fn repeated_blocks_last_twice_as_long() {
    let limit = limit("ban=block:1s,doublings=2");
    let (mut state, mut now) = (State::default(), START);
    for seconds in [1, 2, 4, 4] {
        let length = seconds * SECOND;
        assert_eq!(
            block(&limit, &mut state, now, BlockSpan::Usual),
            Some(length)
        );
        // One whose caller says how long does not count as a repetition.
        let longer = BlockSpan::Lasting(Duration::from_micros(length + 1));
        assert_eq!(block(&limit, &mut state, now, longer), Some(length + 1));
        now += length + 1;
        // Just before it is forgotten.
        now += 4 * SECOND - 1;
    }
}

#[test]
fn blocks_are_forgotten() {
    let limit = limit("ban=block:1s,doublings=2");
    let (mut state, mut now) = (State::default(), START);
    for _ in 0..3 {
        assert_eq!(
            block(&limit, &mut state, now, BlockSpan::Usual),
            Some(SECOND)
        );
        let after = check(&limit, &mut state, now + SECOND, 1);
        assert_eq!(after.reset_after().as_micros(), Some(4 * SECOND));
        now += SECOND + 4 * SECOND;
        assert!(state.is_fresh(&limit, at(now)));
        assert!(!state.is_fresh(&limit, at(now - 1)));
    }
    // A block that is not repeated is forgotten at its end.
    let once = self::limit("ban=block:1s");
    let mut state = State::default();
    assert_eq!(
        block(&once, &mut state, now, BlockSpan::Usual),
        Some(SECOND)
    );
    assert!(state.is_fresh(&once, at(now + SECOND)));
    // A caller's block does not bring back one that was forgotten.
    let mut state = State::default();
    block(&limit, &mut state, now, BlockSpan::Usual);
    now += 5 * SECOND;
    block(
        &limit,
        &mut state,
        now,
        BlockSpan::Lasting(Duration::from_secs(1)),
    );
    assert!(state.is_fresh(&limit, at(now + SECOND)));
}

#[test]
fn a_blocked_key_is_not_blocked_again() {
    let limit = limit("ban=block:1s,doublings=9");
    let mut state = State::default();
    for later in [0, 1, SECOND - 1] {
        let left = block(&limit, &mut state, START + later, BlockSpan::Usual);
        assert_eq!(left, Some(SECOND - later));
    }
    assert_eq!(
        block(&limit, &mut state, START + SECOND, BlockSpan::Usual),
        Some(2 * SECOND)
    );
}

#[test]
fn a_state_keeps_the_latest_instant_at_which_the_key_was_blocked() {
    let machine = Block::new(Duration::from_micros(5)).unwrap();
    let blocked = |state: &super::State, now, span| machine.blocked(state, now, span).unwrap();
    let first = blocked(&super::State::default(), START, BlockSpan::Usual);
    assert_eq!(first.at, START);
    // The clock steps back, and the key is blocked for longer.
    let second = blocked(&first, START - 9, BlockSpan::Until(at(START + 6)));
    assert_eq!((second.at, second.ends), (START, START + 6));
    let third = blocked(&second, START + 3, BlockSpan::Until(at(START + 7)));
    assert_eq!(third.at, START + 3);
}

#[test]
fn a_block_that_changes_nothing_writes_nothing() {
    let limit = limit("ban=block:1s");
    let check = Check::new(&limit, "k", 0);
    let mut blocked = State::default();
    let _ = block(&limit, &mut blocked, START, BlockSpan::Usual);
    let second = Duration::from_micros(SECOND);
    for (state, span) in [
        (&blocked, BlockSpan::Usual),
        (&blocked, BlockSpan::Until(at(START + SECOND))),
        (&blocked, BlockSpan::Lasting(second)),
        (&State::default(), BlockSpan::Until(at(START))),
        (&State::default(), BlockSpan::Lasting(Duration::ZERO)),
    ] {
        let request = Request::block(span, check);
        let evaluation = request.evaluate(state, at(START));
        assert!(!evaluation.writes_to(&request, 0), "{span:?}");
    }
}

#[test]
fn counts_nothing() {
    let limit = limit("ban=block:1s");
    let mut state = State::default();
    let check = Check::new(&limit, "k", 3);
    let receipt = Request::consume(check).decide_on(&mut state, at(START));
    let receipt = receipt.into_receipt().unwrap();
    for request in [
        Request::consume(check),
        Request::peek(check),
        Request::take_up_to(check),
        Request::lower(check),
        Request::refund(&receipt, check),
        Request::settle(&receipt, Check::new(&limit, "k", 9)),
        Request::settle(&receipt, Check::new(&limit, "k", 1)),
    ] {
        let evaluation = request.evaluate(&state, at(START));
        assert!(!evaluation.writes_to(&request, 0), "{request:?}");
        let verdicts = request.decide_on(&mut state, at(START));
        assert!(verdicts.is_allowed());
        assert_eq!(verdicts.remaining(), MAX_EXACT);
    }
}

#[test]
fn a_longest_time_that_cannot_be_counted_is_an_error() {
    let second = Block::new(Duration::from_secs(1)).unwrap();
    // 2^34 seconds are more than 2^53 microseconds.
    assert_eq!(
        second.doubling(34),
        Err(LimitError::AmountTooLarge {
            amount: 34,
            most: 33
        })
    );
    assert!(second.doubling(33).is_ok());
    assert!(second.doubling(u64::MAX).is_err());
    assert!(Block::new(Duration::ZERO).is_err());
    let error = "ban=block:1s,doublings=34"
        .parse::<Limit>()
        .unwrap_err()
        .to_string();
    assert!(error.contains("at most 33"), "{error}");
}

#[test]
fn only_a_limit_that_blocks_can_block() {
    let [gcra, ban] = ["api=gcra:3/1s", "ban=block:1s"].map(limit);
    let request = Request::block(BlockSpan::Usual, Check::new(&ban, "k", 1));
    assert!(request.is_defined());
    assert!(!request.and(Check::new(&gcra, "k", 1)).is_defined());
}
