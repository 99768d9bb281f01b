//! Which calls an expectation accepts, what its closure answers, and in which order calls come.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use mockall::PredicateBooleanExt;
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Key, RateLimiter, SyncStore};
use tollgate_mock::predicate::str::contains;
use tollgate_mock::predicate::{always, eq, ge, in_iter, ne};
use tollgate_mock::{Answer, MockStore, Sequence};

use crate::messages::message;
use crate::{SECOND, limits, said};

/// Checks whether expectations of each name, key and cost accept a call of `api` for this key at 2.
macro_rules! check_accepted {
    ($called:expr, $is_accepted:expr, [$(($name:expr, $key:expr, $cost:expr)),+]) => {$(
        let text = message(|| {
            let mut store = MockStore::new();
            store.expect_check($name, $key).cost($cost).allow();
            let limiter = RateLimiter::new(&store, ["api=gcra:9/1s"]).unwrap();
            assert!(limiter.check($called).cost(2).run().unwrap().is_allowed());
        });
        let of = stringify!($name, $key, $cost);
        assert_eq!(text == "no panic", $is_accepted, "{of}: {text}");
    )+};
}

#[test]
fn expectations_accept_values_predicates_and_closures() {
    let login = Key::from("alice").with_rest("/login");
    let is_login = |key: &Key<'_>| key.rest() == b"/login";
    check_accepted!(
        login,
        true,
        [
            ("api", "alice/login", 2),
            ("api", contains("e/l").and(ne("alice")), always()),
            (String::from("api"), login, ge(2)),
            (eq("api"), eq("alice/login"), in_iter([1, 2])),
            (always(), is_login, |cost| cost > 1),
            (|name: &str| name == "api", always(), eq(2))
        ]
    );
    check_accepted!(
        login,
        false,
        [
            ("ap", always(), always()),
            (ne("api"), always(), always()),
            (|name: &str| name != "api", always(), always()),
            ("api", "alice", always()),
            ("api", contains("e/l").not(), always()),
            ("api", |key: &Key<'_>| key.rest() == b"", always()),
            ("api", login, 3),
            ("api", login, ge(3)),
            ("api", login, |cost| cost > 2)
        ]
    );
    let local = IpAddr::from(Ipv4Addr::LOCALHOST);
    let text = String::from("17");
    check_accepted!(17_u64, true, [("api", 17_u64, 2), ("api", &text, 2)]);
    check_accepted!(local, true, [("api", local, 2), ("api", ne("::1"), 2)]);
    check_accepted!(b"\xff", true, [("api", eq("\u{fffd}"), 2)]);
    check_accepted!(b"\xff", true, [("api", b"\xff", 2)]);
}

#[test]
fn closure_answers_for_each_limit_and_call_and_these_count_as_usual() {
    let mut store = MockStore::new();
    let mut calls = 0;
    let expected = store.expect_check(always(), "k").times(2);
    expected.returning(move |check| {
        calls += 1;
        match (calls, check.limit().name()) {
            (1, _) => Answer::allow_with_remaining(check.cost()),
            (2, "window") => Answer::deny_for(SECOND),
            _ => Answer::fail(ErrorKind::Full),
        }
    });
    let limits = limits();
    let request = Request::consume_all(&limits, "k", 2);
    let denied = store.decide_now(&request).unwrap();
    assert_eq!(said(&denied), [(true, 4, 0), (false, 0, 0)]);
    let error = store.decide_now(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full);
    // A refund is asked at what it gives back.
    store.expect_check("log", "r").allow();
    let returned = |check: &Check<'_>| Answer::allow_with_remaining(check.cost() + 2);
    store.expect_refund("log", "r").returning(returned);
    let limiter = RateLimiter::new(store, [limits[0].clone()]).unwrap();
    let taken = limiter.check("r").cost(3).run().unwrap();
    let refunded = limiter.refund("r", taken.into_receipt().unwrap()).run();
    assert_eq!(refunded.unwrap().remaining(), 5);
}

mockall::mock! {
    Mailer {
        fn send(&self);
    }
}

#[test]
fn expectations_of_a_sequence_answer_in_its_order_with_other_mocks() {
    let mut store = MockStore::new();
    let mut mailer = MockMailer::new();
    let mut sequence = Sequence::new();
    let expected = store.expect_check("log", always()).times(1..=2);
    expected.in_sequence(&mut sequence).allow();
    let send = mailer.expect_send().times(1).return_const(());
    send.in_sequence(&mut sequence);
    let expected = store.expect_check("log", always()).times(2);
    expected.in_sequence(&mut sequence).deny_for(SECOND);
    // Of no sequence, and only asked when the others are used up.
    store.expect_check("log", always()).times(1).deny_forever();
    let limiter = RateLimiter::new(store, ["log=sliding-log:5/1m"]).unwrap();
    let denied = || limiter.check("k").run().unwrap().retry_after().duration();
    assert_eq!(denied(), Some(Duration::ZERO));
    mailer.send();
    // The sequence has gone on, although the first expectation accepts two calls.
    assert_eq!(
        [(); 3].map(|()| denied()),
        [Some(SECOND), Some(SECOND), None]
    );
}
