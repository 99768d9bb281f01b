//! Tests of blocks: their ends, repeated blocks, and what changes nothing.

use std::time::Duration;

use super::Block;
use crate::algorithm::{BlockSpan, Machine, State};
use crate::error::Problem;
use crate::store::{Check, Request, Verdicts};
use crate::time::Timestamp;
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
        assert!(!evaluation.writes_to(0), "{span:?}");
    }
}

#[test]
fn a_longest_time_that_cannot_be_counted_is_an_error() {
    let second = Block::new(Duration::from_secs(1)).unwrap();
    // 2^34 seconds are more than 2^53 microseconds.
    assert_eq!(
        second.doubling(34),
        Err(LimitError(Problem::AmountTooLarge {
            amount: 34,
            most: 33
        }))
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
    assert!(request.validate_operation().is_ok());
    let with_gcra = request.and(Check::new(&gcra, "k", 1));
    assert!(with_gcra.validate_operation().is_err());
}
