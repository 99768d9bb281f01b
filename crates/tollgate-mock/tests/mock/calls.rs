//! Which calls are counted.

use std::thread;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{ErrorKind, RateLimiter, SyncStore};
use tollgate_mock::MockStore;

use super::{SECOND, limits};

#[test]
fn debug_of_store_and_expectation_hides_answers() {
    let mut store = MockStore::new();
    assert_eq!(format!("{store:?}"), "MockStore { .. }");
    let expectation = format!("{:?}", store.expect_check("log", "k").cost(2));
    let shown = r#"Expectation(check of limit `log` for key "k" at cost 2)"#;
    assert_eq!(expectation, shown);
    let expectation = format!("{:?}", store.expect_add("plans", "k").id("a"));
    let shown = r#"Expectation(add of schedule `plans` for key "k", event "a" at any time)"#;
    assert_eq!(expectation, shown);
    let expectation = format!("{:?}", store.expect_renew("uploads", "k").id("a"));
    let shown = r#"Expectation(renew of leases `uploads` for key "k", lease "a")"#;
    assert_eq!(expectation, shown);
}

#[test]
fn malformed_requests_fail_as_in_every_store_and_are_no_calls() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").times(1).allow();
    let [log, _] = limits();
    let check = Check::new(&log, "k", 1);
    for malformed in [
        Request::new(Operation::Consume, &[]),
        Request::consume(check).and(check),
    ] {
        let error = store.decide_now(&malformed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }
    assert!(store.decide_now(&Request::consume(check)).is_ok());
}

#[test]
fn calls_of_many_threads_are_counted_one_by_one() {
    let mut store = MockStore::new();
    store.expect_check("log", "k").times(40).allow();
    store.expect_check("log", "k").times(40).deny_for(SECOND);
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let allowed: usize = thread::scope(|scope| {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let allowed = |_: &u32| limiter.check("k").run().unwrap().is_allowed();
                    (0..10).filter(allowed).count()
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).sum()
    });
    assert_eq!(allowed, 40);
}

#[test]
fn receipt_of_another_key_is_refused_as_in_every_store() {
    let mut store = MockStore::new();
    store.expect_check("log", "alice").allow();
    store.expect_refund("log", "bob").never();
    let [log, _] = limits();
    let limiter = RateLimiter::new(store, [log]).unwrap();
    let allowed = limiter.check("alice").run().unwrap();
    let receipt = allowed.into_receipt().unwrap();
    let error = limiter.refund("bob", receipt).run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}
