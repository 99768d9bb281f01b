//! Each operation on limits, with its answers.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, SyncStore, Wait};
use tollgate_mock::{Expectation, MockStore};

use super::{SECOND, WITHIN_A_SECOND, limits, mail};

#[test]
fn each_answer_has_its_verdict() {
    let nanos = Duration::from_nanos;
    type Answer<'a> = &'a dyn Fn(Expectation<'_>);
    let allow: Answer<'_> = &|call| call.allow();
    let deny: Answer<'_> = &|call| call.deny_for(SECOND);
    let none: Answer<'_> = &|call| call.grant(0);
    let at_once: Answer<'_> = &|call| call.deny_for(nanos(0));
    let soon: Answer<'_> = &|call| call.deny_for(nanos(1_001));
    let later: Answer<'_> = &|call| call.delay_by(nanos(1_001));
    let table = [
        (Operation::Consume, 2, allow, (true, 3, 2, 0)),
        (Operation::Consume, 2, deny, (false, 0, 0, 1_000_000)),
        (Operation::Consume, 2, at_once, (false, 0, 0, 1)),
        (Operation::Consume, 2, soon, (false, 0, 0, 2)),
        (Operation::Peek, 2, allow, (true, 5, 0, 0)),
        (Operation::Peek, 2, deny, (false, 0, 0, 1_000_000)),
        (Operation::TakeUpTo, 9, allow, (true, 0, 5, 0)),
        (Operation::TakeUpTo, 0, allow, (true, 5, 0, 0)),
        (Operation::TakeUpTo, 0, none, (true, 0, 0, 0)),
        (Operation::TakeUpTo, 1, none, (false, 0, 0, 1_000_000)),
        (Operation::Charge, 9, allow, (true, 5, 0, 0)),
        (Operation::Give, 9, allow, (true, 5, 5, 0)),
        (Operation::Lower, 4, allow, (true, 4, 0, 0)),
        (Operation::Lower, 9, allow, (true, 5, 0, 0)),
        (WITHIN_A_SECOND, 2, later, (true, 0, 2, 2)),
        (WITHIN_A_SECOND, 2, allow, (true, 3, 2, 0)),
    ];
    for (operation, cost, answer, expected) in table {
        let of = mail(operation, cost, answer);
        let wait = match of.is_allowed() {
            true => of.delay(),
            false => of.retry_after(),
        };
        let micros = wait.as_micros().unwrap();
        let seen = (of.is_allowed(), of.remaining(), of.consumed(), micros);
        assert_eq!(seen, expected, "{operation:?} at {cost}");
    }
    let forever = mail(Operation::Consume, 2, &|call| call.deny_for(Duration::MAX));
    assert_eq!(forever.retry_after(), Wait::NEVER);
}

#[tokio::test]
async fn expectations_answer_in_their_order_with_and_without_waiting() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").cost(1).times(2).allow();
    store.expect_check("log", "k").cost(1).deny_for(SECOND);
    store.expect_check("log", "m").fail(ErrorKind::Unknown);
    store.expect_reset("log", "k").times(1).succeed();
    store.expect_reset("log", "k").fail(ErrorKind::Unavailable);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    assert!(limiter.check("k").await.unwrap().is_allowed());
    assert!(limiter.check("k").run().unwrap().is_allowed());
    assert!(limiter.check("k").await.unwrap().is_denied());
    let error = limiter.check("m").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(limiter.reset("k").await.is_ok());
    let error = limiter.reset("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn operations_are_supported_that_the_algorithm_has() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").allow();
    let [log, _] = limits();
    let check = Check::new(&log, "k", 1);
    let decision = store.decide_now(&Request::consume(check)).unwrap();
    let receipt = decision.into_receipt().unwrap();
    let gcra: Limit = "log=gcra:4/1s".parse().unwrap();
    for (request, is_supported) in [
        (Request::consume(check), true),
        (Request::peek(check), true),
        (Request::take_up_to(check), true),
        (Request::refund(&receipt, check), true),
        (Request::new(WITHIN_A_SECOND, [check]), false),
        (
            Request::new(WITHIN_A_SECOND, [Check::new(&gcra, "k", 1)]),
            true,
        ),
    ] {
        let found = store.supports(&request).is_ok();
        assert_eq!(found, is_supported, "{request:?}");
    }
    let limiter = RateLimiter::new(store, [log.clone()]).unwrap();
    let error = limiter.reserve("k").within(SECOND).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn no_limit_delays_a_reservation_that_another_denies() {
    let mut store = MockStore::new();
    store.expect_reserve("mail", "a").delay_by(SECOND);
    store.expect_reserve("sms", "a").deny_for(2 * SECOND);
    let limiter = RateLimiter::new(store, ["mail=gcra:4/1s", "sms=gcra:4/1s"]).unwrap();
    let denied = limiter.reserve("a").within(SECOND).run().unwrap();
    assert!(denied.is_denied());
    let mail = denied.verdict("mail").unwrap();
    assert!(mail.is_allowed() && mail.delay().is_zero());
}

#[tokio::test]
async fn each_limit_is_matched_at_its_own_cost() {
    let mut store = MockStore::new();
    store.expect_check("tokens", "k").cost(800).allow();
    store.expect_check("requests", "k").cost(1).allow();
    let settled = store.expect_settle("tokens", "k").cost(335);
    settled.times(2).allow();
    let settled = store.expect_settle("requests", "k").cost(1);
    settled.times(2).allow();
    store.expect_peek("tokens", "k").cost(9).allow();
    store.expect_refund("tokens", "k").cost(800).allow();
    store.expect_refund("requests", "k").cost(1).allow();
    let limits = ["requests=sliding-log:60/1m", "tokens=sliding-log:1000/1m"];
    let limiter = RateLimiter::new(store, limits).unwrap();
    let receipt = || {
        let call = limiter.check("k").cost_of("tokens", 800);
        call.run().unwrap().into_receipt().unwrap()
    };
    let settle = || limiter.settle("k", receipt(), 1).cost_of("tokens", 335);
    settle().run().unwrap();
    settle().await.unwrap();
    let peeked = limiter.peek("k").cost_of("tokens", 9).await.unwrap();
    assert!(peeked.is_allowed());
    limiter.refund("k", receipt()).run().unwrap();
}
