//! Each limit of a call is expected at its own cost.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_mock::{MockStore, RateLimiter};

const LIMITS: [&str; 2] = ["requests=sliding-log:60/1m", "tokens=sliding-log:1000/1m"];

#[tokio::test]
async fn each_limit_is_matched_at_its_own_cost() {
    let mut store = MockStore::new();
    store.expect_check("tokens", "k").cost(800).allow();
    store.expect_check("requests", "k").cost(1).allow();
    store
        .expect_settle("tokens", "k")
        .cost(335)
        .times(2)
        .allow();
    store
        .expect_settle("requests", "k")
        .cost(1)
        .times(2)
        .allow();
    store.expect_peek("tokens", "k").cost(9).allow();
    store.expect_refund("tokens", "k").cost(800).allow();
    store.expect_refund("requests", "k").cost(1).allow();
    let limiter = RateLimiter::new(store, LIMITS).unwrap();
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

#[test]
fn cost_of_a_limit_that_is_expected_at_another_is_unexpected() {
    let mut store = MockStore::new();
    store.expect_check("tokens", "k").cost(800).allow();
    let limiter = RateLimiter::new(store, LIMITS).unwrap();
    let call = || limiter.check("k").cost_of("tokens", 1).run();
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("for key \"k\" at cost 1: "), "{message}");
    let call = limiter.check("k").cost_of("tokens", 800);
    assert!(call.run().unwrap().is_allowed());
}
