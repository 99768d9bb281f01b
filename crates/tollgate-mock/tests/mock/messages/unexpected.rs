//! Calls of limits that no expectation fits.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Key, RateLimiter, SyncStore, Timestamp};
use tollgate_mock::MockStore;

use super::{limit, limiter, message};

#[test]
fn unexpected_key_is_named_beside_all_expectations() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(..2).allow();
    store
        .expect_check("attempts", "alice")
        .cost(2)
        .times(..)
        .allow();
    store.expect_peek("attempts", "alice").times(0..=3).allow();
    let receipts = [limiter_receipt(), limiter_receipt()];
    store
        .expect_refund("attempts", "alice")
        .cost(2)
        .times(..)
        .allow();
    store.expect_reset("attempts", "alice").never();
    store
        .expect_take_up_to("attempts", b"\xff\"")
        .times(..)
        .grant(1);
    let limiter = limiter(store);
    assert!(limiter.check("alice").run().unwrap().is_allowed());
    for receipt in receipts {
        assert!(
            limiter
                .refund("alice", receipt)
                .run()
                .unwrap()
                .decision()
                .is_allowed()
        );
    }
    assert_eq!(
        message(|| limiter.check("bob").run()),
        r#"unexpected check:
  limit `attempts=sliding-log:5/1m` for key "bob" at cost 1: no expectation names this limit and key
expected calls:
  check of limit `attempts` for key "alice" at any cost, at most 1 time: called 1 time
  check of limit `attempts` for key "alice" at cost 2, any number of times: called 0 times
  peek of limit `attempts` for key "alice" at any cost, at most 3 times: called 0 times
  refund of limit `attempts` for key "alice" at cost 2, any number of times: called 2 times
  reset of limit `attempts` for key "alice", never: called 0 times
  take_up_to of limit `attempts` for key b"\xff\"" at any cost, any number of times: called 0 times
to expect this call, add `store.expect_check("attempts", "bob")` with an answer, such as `.allow()`"#
    );
}

/// Returns a receipt for 2 of the limit `attempts`, from another store.
fn limiter_receipt() -> tollgate_core::Receipt {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").allow();
    let limiter = limiter(store);
    let decision = limiter.check("alice").cost(2).run().unwrap();
    decision.into_receipt().unwrap()
}

#[test]
fn readme_shows_the_actual_message() {
    let mut store = MockStore::new();
    let wait = Duration::from_secs(6);
    store.expect_check("mail", "alice").cost(3).deny_for(wait);
    let mail = limit("mail", "gcra:10/1m,burst=3");
    let limiter = RateLimiter::new(store, [mail]).unwrap();
    let text = message(|| limiter.check("bob").cost(3).run());
    assert!(
        include_str!("../../../README.md").contains(&format!("```text\n{text}\n```")),
        "{text}"
    );
    let denied = limiter.check("alice").cost(3).run().unwrap();
    assert_eq!(denied.retry_after().duration(), Some(wait));
}

#[test]
fn unexpected_cost_is_named_in_the_message() {
    let mut store = MockStore::new();
    store
        .expect_check("attempts", "alice")
        .cost(2)
        .times(2..5)
        .allow();
    let limiter = limiter(store);
    for _ in 0..2 {
        assert!(limiter.check("alice").cost(2).run().unwrap().is_allowed());
    }
    assert_eq!(
        message(|| limiter.check("alice").cost(3).run()),
        r#"unexpected check:
  limit `attempts=sliding-log:5/1m` for key "alice" at cost 3: expected at another cost only
expected calls:
  check of limit `attempts` for key "alice" at cost 2, 2 to 4 times: called 2 times
to expect this cost, add `store.expect_check("attempts", "alice").cost(3)` with an answer, such as `.allow()`"#
    );
}

#[test]
fn call_beyond_the_expected_number_is_named_in_the_message() {
    let mut store = MockStore::new();
    store.expect_reset("attempts", "alice").times(1).succeed();
    let limiter = limiter(store);
    limiter.reset("alice").run().unwrap();
    assert_eq!(
        message(|| limiter.reset("alice").run()),
        r#"unexpected reset:
  limit `attempts=sliding-log:5/1m` for key "alice": every expectation that fits has had all its calls
expected calls:
  reset of limit `attempts` for key "alice", 1 time: called 1 time
to expect another call, raise `.times(..)`, or add `store.expect_reset("attempts", "alice")` with an answer, such as `.succeed()`"#
    );
}

#[test]
fn advice_is_about_the_first_refused_limit() {
    let mut store = MockStore::new();
    store.expect_peek("a", "k").cost(1).never();
    store.expect_peek("a", "k").cost(2).times(..).allow();
    store.expect_peek("b", "k").cost(2).times(..).allow();
    let limits = [limit("a", "gcra:5/1m"), limit("b", "gcra:6/1m")];
    let checks = limits.each_ref().map(|limit| Check::new(limit, "k", 1));
    assert_eq!(
        message(|| store.decide_now(&Request::new(Operation::Peek, &checks))),
        r#"unexpected peek:
  limit `a=gcra:5/1m` for key "k" at cost 1: every expectation that fits has had all its calls
  limit `b=gcra:6/1m` for key "k" at cost 1: expected at another cost only
expected calls:
  peek of limit `a` for key "k" at cost 1, never: called 0 times
  peek of limit `a` for key "k" at cost 2, any number of times: called 0 times
  peek of limit `b` for key "k" at cost 2, any number of times: called 0 times
to expect another call, raise `.times(..)`, or add `store.expect_peek("a", "k")` with an answer, such as `.allow()`"#
    );
}

#[test]
fn message_of_a_mock_without_expectations_says_none() {
    let limiter = limiter(MockStore::new());
    assert_eq!(
        message(|| limiter.take_up_to("alice", 3).run()),
        r#"unexpected take_up_to:
  limit `attempts=sliding-log:5/1m` for key "alice" at cost 3: no expectation names this limit and key
expected calls: none
to expect this call, add `store.expect_take_up_to("attempts", "alice")` with an answer, such as `.allow()`"#
    );
}

#[test]
fn unexpected_request_shows_each_limit_and_the_instant() {
    let mut store = MockStore::new();
    store.expect_check("burst", "10.0.0.1").allow();
    store.expect_check("login", "10.0.0.1/login").never();
    let limits = [
        limit("burst", "gcra:10/1m,burst=3"),
        limit("steady", "fixed-window:20/1h"),
        limit("login", "gcra:5/1m"),
    ];
    let ip = Key::from("10.0.0.1");
    let request = Request::consume(Check::new(&limits[0], ip, 2))
        .and(Check::new(&limits[1], b"\0\xfe".as_slice(), 1))
        .and(Check::new(&limits[2], ip.with_rest("/login"), 1))
        .at(Timestamp::from_micros(1_700_000_000_000_001).unwrap());
    assert_eq!(
        message(|| store.decide_now(&request)),
        r#"unexpected check at the caller's instant 2023-11-14T22:13:20.000001Z:
  limit `burst=gcra:10/1m,burst=3` for key "10.0.0.1" at cost 2: expected
  limit `steady=fixed-window:20/1h` for key b"\x00\xfe" at cost 1: no expectation names this limit and key
  limit `login=gcra:5/1m` for key "10.0.0.1" with rest "/login" at cost 1: every expectation that fits has had all its calls
expected calls:
  check of limit `burst` for key "10.0.0.1" at any cost, at least 1 time: called 0 times
  check of limit `login` for key "10.0.0.1/login" at any cost, never: called 0 times
to expect another call, raise `.times(..)`, or add `store.expect_check("login", "10.0.0.1/login")` with an answer, such as `.allow()`"#
    );
    // A call that fails the test does not count as an expected call.
    let unmet = message(move || drop(store));
    assert!(unmet.contains("called 0 times, too few"), "{unmet}");
}

#[test]
fn unexpected_request_without_any_expected_limit_suggests_the_first() {
    let store = MockStore::new();
    let limits = [limit("a", "gcra:5/1m"), limit("b", "gcra:6/1m")];
    let checks = [
        Check::new(&limits[0], b"\xff".as_slice(), 0),
        Check::new(&limits[1], "k", 7),
    ];
    assert_eq!(
        message(|| store.decide_now(&Request::new(Operation::Peek, &checks))),
        r#"unexpected peek:
  limit `a=gcra:5/1m` for key b"\xff" at cost 0: no expectation names this limit and key
  limit `b=gcra:6/1m` for key "k" at cost 7: no expectation names this limit and key
expected calls: none
to expect this call, add `store.expect_peek("a", b"\xff")` with an answer, such as `.allow()`"#
    );
}

#[test]
fn an_unexpected_block_is_named_without_a_cost() {
    let mut store = MockStore::new();
    store.expect_block("ban", "alice").times(1).succeed();
    let limiter = RateLimiter::new(store, [limit("ban", "block:15m")]).unwrap();
    assert_eq!(
        message(|| limiter.block("bob").run()),
        r#"unexpected block:
  limit `ban=block:15m` for key "bob": no expectation names this limit and key
expected calls:
  block of limit `ban` for key "alice", 1 time: called 0 times
to expect this call, add `store.expect_block("ban", "bob")` with an answer, such as `.succeed()`"#
    );
    let _ = limiter.block("alice").run().unwrap();
    let mut store = MockStore::new();
    assert_eq!(
        message(|| store.expect_block("ban", "k").cost(2).succeed()),
        "a block has no cost: remove `.cost(2)`"
    );
    let mut store = MockStore::new();
    assert_eq!(
        message(|| store.expect_block("ban", "k").allow()),
        "`allow()` answers no block: answer with `succeed`, `deny_for`, `deny_forever` or `fail`"
    );
}
