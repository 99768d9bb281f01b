//! Extreme numbers that are rejected when a limit is made, or when a call cannot be counted exactly.

use std::time::Duration;

use tollgate_core::store::{Check, MAX_EXACT, Operation, Request, State};
use tollgate_core::{
    Gcra, Limit, LimitErrorKind, Quota, SlidingBuckets, SlidingCounter, SlidingLog, Timestamp,
};

#[test]
fn a_window_of_zero_is_rejected() {
    let none = Quota::new(1, Duration::ZERO);
    assert_eq!(none.unwrap_err().kind(), LimitErrorKind::Duration);
    let half = Quota::new(1, Duration::from_nanos(1_500));
    assert_eq!(half.unwrap_err().kind(), LimitErrorKind::Duration);
    let long = Quota::new(1, Duration::from_micros(MAX_EXACT + 1));
    assert_eq!(long.unwrap_err().kind(), LimitErrorKind::Duration);
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

/// However long a call may wait, it is not delayed for longer than the debt can be counted exactly.
#[test]
fn a_delay_that_cannot_be_counted_is_refused() {
    let window = MAX_EXACT / 5 * 2;
    let quota = Quota::new(1, Duration::from_micros(window)).unwrap();
    let limit = Limit::new("slow", Gcra::new(quota).unwrap()).unwrap();
    let max_delay = Duration::from_micros(MAX_EXACT);
    let check = Check::new(&limit, "k", 1);
    let reserve = Request::new(Operation::Reserve { max_delay }, [check]);
    let mut state = State::default();
    for delay in [0, window] {
        let verdicts = reserve.decide_on(&mut state, Timestamp::UNIX_EPOCH);
        assert_eq!(verdicts.delay().as_micros(), Some(delay));
    }
    let refused = reserve.decide_on(&mut state, Timestamp::UNIX_EPOCH);
    assert!(refused.is_denied());
    // Until the delay is the longest that can be counted.
    let wait = 2 * window - (MAX_EXACT - window);
    assert_eq!(refused.retry_after().as_micros(), Some(wait));
}
