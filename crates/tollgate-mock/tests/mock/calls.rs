//! Which calls are counted.

use std::sync::atomic::{AtomicU64, Ordering};
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
    let allowed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            let _ = scope.spawn(|| {
                for _ in 0..10 {
                    let decision = limiter.check("k").run().unwrap();
                    allowed.fetch_add(decision.is_allowed().into(), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(allowed.into_inner(), 40);
}
