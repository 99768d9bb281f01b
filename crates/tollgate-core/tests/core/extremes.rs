//! Extreme numbers: rejected when a limit is made, or counted exactly.
//!
//! Tests are built with overflow checks, so arithmetic that wraps is a panic here.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{MAX_EXACT, Operation};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, LimitError, Quota, SlidingBuckets, SlidingCounter, SlidingLog,
    Timestamp,
};

use crate::histories::{Subject, cases, reset_us, retry_us};

/// Numbers at which something might wrap or round.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(2),
        Just(1_000),
        Just(100_000),
        Just(100_001),
        Just(MAX_EXACT / 1_000),
        Just(MAX_EXACT / 2),
        Just(MAX_EXACT - 1),
        Just(MAX_EXACT),
        Just(MAX_EXACT + 1),
        Just(u64::MAX - 1),
        Just(u64::MAX),
        (0..64u32, -1..=1i64).prop_map(|(shift, by)| (1u64 << shift).wrapping_add_signed(by)),
        any::<u64>(),
    ]
}

/// Every algorithm that can be made of these numbers.
fn made(amount: u64, window: u64, burst: u64, buckets: u64) -> Vec<Algorithm> {
    let Ok(quota) = Quota::new(amount, Duration::from_micros(window)) else {
        assert!(amount > MAX_EXACT || window == 0 || window > MAX_EXACT);
        return Vec::new();
    };
    let mut made: Vec<Algorithm> = vec![
        FixedWindow::aligned(quota).into(),
        FixedWindow::aligned(quota).count_denied().into(),
        FixedWindow::anchored(quota).into(),
        FixedWindow::anchored(quota).count_denied().into(),
    ];
    made.extend(Gcra::new(quota).map(Algorithm::from));
    made.extend(Gcra::with_burst(quota, burst).map(Algorithm::from));
    made.extend(Gcra::with_burst(quota, 1).map(Algorithm::from));
    made.extend(SlidingBuckets::new(quota, buckets).map(Algorithm::from));
    made.extend(SlidingBuckets::new(quota, 1 + buckets % 127).map(Algorithm::from));
    made.extend(SlidingCounter::new(quota).map(Algorithm::from));
    if let Ok(log) = SlidingLog::new(quota) {
        made.extend([log, log.count_denied()].map(Algorithm::from));
    }
    made
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn no_number_wraps_panics_or_admits_too_much(
        amount in extreme(), window in extreme(), burst in extreme(), buckets in 0..=128u64,
        calls in prop::collection::vec((extreme(), extreme(), 0..4u8), 1..12)
    ) {
        for algorithm in made(amount, window, burst, buckets) {
            let mut subject = Subject::new(algorithm, 0);
            let mut receipts = Vec::new();
            for &(now, cost, operation) in &calls {
                let now = Timestamp::saturating_from_micros(now).as_micros();
                let held = subject.peek_at(0, now).remaining();
                prop_assert!(held <= subject.capacity());
                if operation == 3 && !receipts.is_empty() {
                    let receipt = receipts.swap_remove(0);
                    subject.decide_at(Operation::Refund(&receipt), 0, now);
                    continue;
                }
                let taking = operation == 2;
                let operation = if taking { Operation::TakeUpTo } else { Operation::Consume };
                let decision = subject.decision_at(operation, cost, now);
                let verdict = decision.as_slice()[0];
                let fits = if taking { held.min(cost) } else { cost };
                let allowed = fits <= held && (fits > 0 || cost == 0);
                prop_assert_eq!(verdict.is_allowed(), allowed, "{} at {}", cost, now);
                prop_assert_eq!(verdict.consumed(), if allowed { fits } else { 0 });
                if allowed {
                    prop_assert_eq!(verdict.remaining(), held - fits);
                }
                exact(&subject, if taking && cost > 0 { 1 } else { cost }, now)?;
                receipts.extend(decision.into_receipt());
            }
        }
    }
}

/// Checks that a call's waits are exact, if they end within the range of the clock.
fn exact(subject: &Subject, cost: u64, now: u64) -> Result<(), TestCaseError> {
    let verdict = subject.peek_at(cost, now);
    prop_assert_eq!(retry_us(&verdict).is_none(), cost > subject.capacity());
    let readable = |wait: &u64| (1..=MAX_EXACT - now).contains(wait);
    if let Some(wait) = retry_us(&verdict).filter(readable) {
        prop_assert!(!subject.peek_at(cost, now + wait - 1).is_allowed());
        prop_assert!(subject.peek_at(cost, now + wait).is_allowed());
    }
    let reset = reset_us(&verdict);
    if readable(&reset) {
        prop_assert_eq!(
            subject.peek_at(0, now + reset).remaining(),
            subject.capacity()
        );
        prop_assert_eq!(reset_us(&subject.peek_at(0, now + reset - 1)), 1);
    }
    Ok(())
}

#[test]
fn an_amount_of_zero_denies_every_cost_forever() {
    let quota = Quota::new(0, Duration::from_secs(1)).unwrap();
    let mut algorithms: Vec<Algorithm> = made(0, 1_000_000, 0, 10);
    algorithms.push(Gcra::with_burst(Quota::per_second(5), 0).unwrap().into());
    assert!(algorithms.len() >= 9);
    for algorithm in algorithms {
        let mut subject = Subject::new(algorithm, 0);
        for cost in [1, 2, u64::MAX] {
            let verdict = subject.consume(cost);
            assert!(!verdict.is_allowed(), "{algorithm}");
            assert_eq!(retry_us(&verdict), None, "{algorithm}");
            assert_eq!(verdict.remaining(), 0, "{algorithm}");
            // Nothing is all that it ever has.
            assert_eq!(reset_us(&verdict), 0, "{algorithm}");
        }
        assert!(subject.consume(0).is_allowed(), "{algorithm}");
    }
    let refills_never = Gcra::with_burst(quota, 1);
    assert!(matches!(
        refills_never,
        Err(LimitError::NeverRefills { .. })
    ));
}

#[test]
fn a_window_of_zero_is_rejected() {
    let none = Quota::new(1, Duration::ZERO);
    assert!(matches!(none, Err(LimitError::BadWindow { .. })));
    let half = Quota::new(1, Duration::from_nanos(1_500));
    assert!(matches!(half, Err(LimitError::BadWindow { .. })));
    let long = Quota::new(1, Duration::from_micros(MAX_EXACT + 1));
    assert!(matches!(long, Err(LimitError::BadWindow { .. })));
    assert!(Quota::new(1, Duration::from_micros(MAX_EXACT)).is_ok());
}

#[test]
fn limits_that_cannot_be_counted_exactly_are_rejected() {
    let quota = |amount, window| Quota::new(amount, Duration::from_micros(window));
    assert!(quota(MAX_EXACT + 1, 1).is_err());
    let largest = quota(MAX_EXACT, MAX_EXACT).unwrap();
    // A quota that reduces to one unit per microsecond is exact; large coprime numbers are not.
    assert!(Gcra::new(largest).is_ok());
    assert!(Gcra::new(quota(MAX_EXACT, MAX_EXACT - 1).unwrap()).is_err());
    assert!(Gcra::with_burst(quota(1, MAX_EXACT).unwrap(), 1).is_ok());
    assert!(Gcra::with_burst(quota(1, MAX_EXACT).unwrap(), 2).is_err());
    assert!(SlidingLog::new(quota(100_000, 1).unwrap()).is_ok());
    assert!(SlidingLog::new(quota(100_001, 1).unwrap()).is_err());
    assert!(SlidingCounter::new(quota(MAX_EXACT / 1_000, MAX_EXACT).unwrap()).is_ok());
    assert!(SlidingCounter::new(quota(MAX_EXACT / 999, MAX_EXACT).unwrap()).is_err());
    // A window of less than 1,000 microseconds needs a step for each microsecond.
    assert!(SlidingCounter::new(quota(MAX_EXACT, 1).unwrap()).is_ok());
    assert!(SlidingCounter::new(quota(MAX_EXACT, 2).unwrap()).is_err());
    assert!(SlidingBuckets::new(largest, 127).is_ok());
    assert!(SlidingBuckets::new(largest, 0).is_err());
    assert!(SlidingBuckets::new(largest, 128).is_err());
}

#[test]
fn a_limit_at_the_end_of_time_still_denies() {
    for algorithm in made(1, MAX_EXACT, 1, 7) {
        let mut subject = Subject::new(algorithm, MAX_EXACT);
        assert!(subject.consume(1).is_allowed(), "{algorithm}");
        assert!(!subject.consume(1).is_allowed(), "{algorithm}");
    }
}
