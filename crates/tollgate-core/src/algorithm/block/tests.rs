//! Tests of what can be blocked, and for how long at most.

use std::time::Duration;

use super::Block;
use crate::algorithm::BlockSpan;
use crate::error::Problem;
use crate::store::{Check, Request};
use crate::{Limit, LimitError};

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
    let [gcra, ban] = ["api=gcra:3/1s", "ban=block:1s"].map(|text| text.parse::<Limit>().unwrap());
    let request = Request::block(BlockSpan::Usual, Check::new(&ban, "k", 1));
    assert!(request.validate_operation().is_ok());
    let with_gcra = request.and(Check::new(&gcra, "k", 1));
    assert!(with_gcra.validate_operation().is_err());
}
