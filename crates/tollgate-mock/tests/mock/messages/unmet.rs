//! Expected calls that were not made.

use std::panic::panic_any;

use tollgate_core::SyncStore;
use tollgate_core::store::{Check, Request};
use tollgate_mock::MockStore;

use super::{attempts, message};

fn unmet(when: &str) -> String {
    format!(
        r#"not every expected call was made before {when}:
  check of limit `attempts` for key "alice" at any cost, 1 time: called 0 times, too few
  check of limit `attempts` for key "bob" at any cost, at least 1 time: called 1 time
  refund of limit `attempts` for key b"\xffb" at cost 3, at least 2 times: called 0 times, too few
if fewer calls are right, say so with `.times(..)`, or remove the expectation"#
    )
}

fn expects_more_than_is_asked() -> MockStore {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(1).allow();
    store.expect_check("attempts", "bob").allow();
    store
        .expect_refund("attempts", b"\xffb")
        .cost(3)
        .times(2..)
        .allow();
    let attempts = attempts();
    let request = Request::consume(Check::new(&attempts, "bob", 1));
    assert!(store.decide_now(&request).unwrap().is_allowed());
    store
}

#[test]
fn unmet_expectations_are_named_on_drop() {
    let store = expects_more_than_is_asked();
    assert_eq!(message(move || drop(store)), unmet("the store was dropped"));
}

#[test]
fn unmet_expectations_are_named_at_a_checkpoint_and_then_forgotten() {
    let mut store = expects_more_than_is_asked();
    assert_eq!(message(|| store.checkpoint()), unmet("the checkpoint"));
    assert_eq!(message(move || drop(store)), "no panic");
}

#[test]
fn store_dropped_by_a_panic_does_not_panic_again() {
    // A second panic would abort the process.
    let text = message(|| {
        let _store = expects_more_than_is_asked();
        panic_any("the first panic");
    });
    assert_eq!(text, "the first panic");
}
