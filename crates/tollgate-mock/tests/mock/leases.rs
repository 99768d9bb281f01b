//! Concurrency limiters.

use std::time::Duration;

use tollgate_core::lease::{Acquisition, ConcurrencyLimiter, Lease};
use tollgate_core::{ErrorKind, Key, Wait};
use tollgate_mock::MockStore;

use super::NOON;

const TTL: Duration = Duration::from_secs(30);

pub(super) fn uploads<S>(store: S) -> ConcurrencyLimiter<S> {
    ConcurrencyLimiter::new(store, "uploads", 3, TTL).unwrap()
}

pub(super) fn lease(id: &str, token: u64, weight: u64) -> Lease {
    Lease::new(id.as_bytes(), token, weight, NOON, NOON.saturating_add(TTL))
}

#[test]
fn leases_get_the_answers_of_their_expectations() {
    let mut store = MockStore::new();
    let expected = store.expect_acquire("uploads", "alice/x").id("a");
    expected.times(1).granted(lease("a", 7, 2));
    let expected = store.expect_acquire("uploads", "alice/x");
    expected.id("a").already_held(lease("a", 7, 2));
    let expected = store.expect_acquire("uploads", "alice/x");
    expected.id("b").denied(2, Wait::from_micros(5));
    store
        .expect_acquire("uploads", "alice/x")
        .granted_at(NOON, 8);
    let expected = store.expect_renew("uploads", "alice/x");
    expected.id("a").renewed(lease("a", 7, 2));
    store.expect_renew("uploads", "alice/x").lost();
    let expected = store.expect_release("uploads", "alice/x");
    expected.times(1).released(true);
    let key = Key::from("alice").with_rest("/x");
    store.expect_release("uploads", key).released(false);
    store.expect_peek_leases("uploads", key).occupied(2);
    let uploads = uploads(store);
    let acquire = |id: &'static str| uploads.acquire(key, id).weight(2).run().unwrap();
    let granted = |lease, is_new| Acquisition::Granted { lease, is_new };
    assert_eq!(acquire("a"), granted(lease("a", 7, 2), true));
    assert_eq!(acquire("a"), granted(lease("a", 7, 2), false));
    let denied = acquire("b").permit().unwrap_err();
    assert_eq!((denied.held(), denied.amount()), (2, 3));
    assert_eq!(denied.ends_within(), Wait::from_micros(5));
    // Any id and weight, such as those of a guard.
    assert_eq!(acquire("any"), granted(lease("any", 8, 2), true));
    let renewed = |lease| uploads.renew(key, &lease).run().unwrap();
    assert_eq!(renewed(lease("a", 7, 2)), Some(lease("a", 7, 2)));
    assert_eq!(renewed(lease("b", 7, 2)), None);
    assert!(uploads.release(key, &lease("a", 7, 2)).run().unwrap());
    assert!(!uploads.release(key, &lease("a", 7, 2)).run().unwrap());
    assert_eq!(uploads.peek(key).run().unwrap().remaining(), 1);
}

#[test]
fn leases_get_answers_that_are_just_possible() {
    let mut store = MockStore::new();
    let short = Wait::from_micros(5);
    // The whole amount, at the instant of the caller.
    let expectation = store.expect_acquire("uploads", "k").id("all");
    expectation.granted_at(NOON, 7);
    let expectation = store.expect_acquire("uploads", "k").id("other");
    expectation.denied(1, short);
    // The amount was greater before, and a lease that is held keeps its weight.
    let expectation = store.expect_acquire("uploads", "k").id("more");
    expectation.denied(4, short);
    let expectation = store.expect_acquire("uploads", "k").id("held");
    expectation.already_held(lease("held", 7, 2));
    let uploads = uploads(store);
    let acquire = |id: &'static str, weight| {
        let call = uploads.acquire("k", id).weight(weight).at(NOON);
        call.run().unwrap()
    };
    assert_eq!(acquire("all", 3).permit(), Ok(lease("all", 7, 3)));
    assert_eq!(acquire("other", 3).permit().unwrap_err().held(), 1);
    assert_eq!(acquire("more", 1).permit().unwrap_err().held(), 4);
    assert_eq!(acquire("held", 4).permit(), Ok(lease("held", 7, 2)));
}

#[tokio::test]
async fn calls_of_leases_fail_as_the_test_says_and_are_counted() {
    let mut store = MockStore::new();
    let expected = store.expect_acquire("uploads", "k");
    expected.times(2).fail(ErrorKind::Unknown);
    store.expect_reset_leases("uploads", "k").times(1).succeed();
    let expected = store.expect_reset_leases("uploads", "k");
    expected.fail(ErrorKind::Unavailable);
    let uploads = uploads(store);
    let error = uploads.acquire("k", "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    // A call that is not valid is no call.
    let error = uploads.acquire("k", "").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let error = uploads.acquire("k", "a").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    uploads.reset("k").await.unwrap();
    let error = uploads.reset("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
