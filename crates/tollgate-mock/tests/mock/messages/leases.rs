//! Calls of concurrency limiters.

use tollgate_core::Wait;
use tollgate_core::lease::{ConcurrencyLimiter, Lease};
use tollgate_mock::MockStore;

use super::message;
use crate::leases::{lease, uploads};
use crate::{LATER, NOON};

#[test]
fn unexpected_call_of_leases_is_named_beside_all_expectations() {
    let mut store = MockStore::new();
    store.expect_check("attempts", "alice").times(..).allow();
    store
        .expect_cancel("reminders", "alice")
        .times(..)
        .cancelled(true);
    store
        .expect_acquire("uploads", "alice")
        .id("a")
        .granted(lease("a", 7, 1));
    store.expect_renew("uploads", "alice").times(..=2).lost();
    store
        .expect_release("uploads", "alice")
        .id([0xff])
        .times(..)
        .released(true);
    store
        .expect_peek_leases("uploads", "alice")
        .times(..)
        .occupied(1);
    store.expect_reset_leases("uploads", "alice").never();
    let uploads = uploads(store);
    assert!(uploads.acquire("alice", "a").run().unwrap().is_granted());
    assert_eq!(
        message(|| uploads.acquire("bob", "b").weight(2).at(LATER).run()),
        r#"unexpected acquire at the caller's instant 2027-01-15T08:01:00Z:
  leases `uploads` for key "bob", lease "b" of weight 2: no expectation names these leases and key
expected calls:
  check of limit `attempts` for key "alice" at any cost, any number of times: called 0 times
  cancel of schedule `reminders` for key "alice", any event, any number of times: called 0 times
  acquire of leases `uploads` for key "alice", lease "a", at least 1 time: called 1 time
  renew of leases `uploads` for key "alice", any lease, at most 2 times: called 0 times
  release of leases `uploads` for key "alice", lease b"\xff", any number of times: called 0 times
  peek of leases `uploads` for key "alice", any number of times: called 0 times
  reset of leases `uploads` for key "alice", never: called 0 times
to expect this call, add `store.expect_acquire("uploads", "bob")` with an answer, such as `.granted_at(now, 1)`"#
    );
    let text = message(|| uploads.release("alice", &lease("x", 9, 1)).run());
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[1],
        r#"  leases `uploads` for key "alice", lease "x" with token 9: expected for another lease only"#
    );
    assert_eq!(
        *lines.last().unwrap(),
        r#"to expect this, add `store.expect_release("uploads", "alice").id("x")` with an answer, such as `.released(true)`"#
    );
    for (text, call) in [
        (
            message(|| uploads.renew("bob", &lease("x", 9, 1)).run()),
            r#", lease "x" with token 9"#,
        ),
        (message(|| uploads.peek("bob").run()), ""),
        (message(|| uploads.reset("bob").run()), ""),
    ] {
        let line = format!(
            r#"  leases `uploads` for key "bob"{call}: no expectation names these leases and key"#
        );
        assert_eq!(text.lines().nth(1), Some(&line[..]));
    }
}

#[test]
fn a_call_of_leases_too_many_or_too_few_says_so() {
    let mut store = MockStore::new();
    store
        .expect_peek_leases("uploads", "alice")
        .times(1)
        .occupied(1);
    let uploads = uploads(store);
    assert_eq!(uploads.peek("alice").run().unwrap().held(), 1);
    let text = message(|| uploads.peek("alice").run());
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[1].ends_with("every expectation that fits has had all its calls"),
        "{text}"
    );
    assert_eq!(
        *lines.last().unwrap(),
        r#"to expect another call, raise `.times(..)`, or add `store.expect_peek_leases("uploads", "alice")` with an answer, such as `.occupied(0)`"#
    );
    let mut store = MockStore::new();
    store.expect_renew("uploads", "alice").lost();
    let text = message(|| store.checkpoint());
    assert!(
        text.contains("renew of leases `uploads` for key \"alice\", any lease, at least 1 time: called 0 times, too few"),
        "{text}"
    );
}

#[test]
fn answers_that_no_store_gives_to_a_call_of_leases_fail_the_test() {
    type Expect = fn(&mut MockStore);
    type Call = fn(&ConcurrencyLimiter<MockStore>);
    let acquire: Call = |uploads| drop(uploads.acquire("k", "a").run());
    let heavy: Call = |uploads| drop(uploads.acquire("k", "a").weight(4).run());
    let renew: Call = |uploads| drop(uploads.renew("k", &lease("a", 7, 1)).run());
    let later: Call = |uploads| drop(uploads.acquire("k", "a").at(LATER).run());
    let earlier: Call = |uploads| drop(uploads.acquire("k", "a").at(NOON).run());
    let table: [(&str, Expect, Call); 11] = [
        (
            "`granted(\"b\" with token 7)` to this acquire",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.granted(lease("b", 7, 1));
            },
            acquire,
        ),
        (
            "has another weight",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.granted(lease("a", 7, 2));
            },
            acquire,
        ),
        (
            "the lease has ended",
            |store| {
                let ended = Lease::new(*b"a", 7, 1, NOON, NOON);
                store.expect_acquire("uploads", "k").already_held(ended);
            },
            acquire,
        ),
        (
            "at the caller's instant",
            |store| store.expect_acquire("uploads", "k").granted_at(NOON, 7),
            later,
        ),
        (
            "at the caller's instant",
            |store| store.expect_acquire("uploads", "k").granted_at(LATER, 7),
            earlier,
        ),
        (
            "a weight above the amount is always denied",
            |store| store.expect_acquire("uploads", "k").granted_at(NOON, 7),
            heavy,
        ),
        (
            "`denied(2, 1s)`",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.denied(2, Wait::from_micros(1_000_000));
            },
            acquire,
        ),
        (
            "`denied(3, never)`",
            |store| {
                store.expect_acquire("uploads", "k").denied(3, Wait::NEVER);
            },
            acquire,
        ),
        (
            "never finds room",
            |store| {
                let expectation = store.expect_acquire("uploads", "k");
                expectation.denied(0, Wait::from_micros(1));
            },
            heavy,
        ),
        (
            "has another token",
            |store| {
                let expectation = store.expect_renew("uploads", "k");
                expectation.renewed(lease("a", 8, 1));
            },
            renew,
        ),
        (
            "has another id",
            |store| {
                let expectation = store.expect_renew("uploads", "k");
                expectation.renewed(lease("b", 7, 1));
            },
            renew,
        ),
    ];
    for (expected, expect, call) in table {
        let mut store = MockStore::new();
        expect(&mut store);
        let uploads = uploads(store);
        let text = message(|| call(&uploads));
        assert!(text.starts_with("no store answers"), "{text}");
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn answers_of_other_operations_on_leases_fail_the_test() {
    type Expect = fn(&mut MockStore);
    let table: [(&str, Expect); 6] = [
        (
            "`lost()` answers no acquire: answer with `granted`",
            |store| store.expect_acquire("uploads", "k").lost(),
        ),
        (
            "`released(true)` answers no renew: answer with `renewed`",
            |store| store.expect_renew("uploads", "k").released(true),
        ),
        (
            "`occupied(1)` answers no release: answer with `released`",
            |store| store.expect_release("uploads", "k").occupied(1),
        ),
        (
            "`succeed()` answers no peek: answer with `occupied`",
            |store| store.expect_peek_leases("uploads", "k").succeed(),
        ),
        (
            "`denied(1, never)` answers no reset: answer with `succeed`",
            |store| {
                let expectation = store.expect_reset_leases("uploads", "k");
                expectation.denied(1, Wait::NEVER);
            },
        ),
        ("a peek is about no lease: remove `.id(..)`", |store| {
            let expectation = store.expect_peek_leases("uploads", "k");
            expectation.id("a").occupied(1);
        }),
    ];
    for (expected, expect) in table {
        let text = message(|| expect(&mut MockStore::new()));
        assert!(text.starts_with(expected), "{text}");
    }
}
