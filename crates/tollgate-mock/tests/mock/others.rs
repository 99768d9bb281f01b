//! Schedules and concurrency limiters.

use std::panic::panic_any;
use std::time::Duration;

use tollgate_core::lease::{self, ConcurrencyLimiter};
use tollgate_core::schedule::{self, Operation, Reason, Refusal, Schedule};
use tollgate_core::{ErrorKind, Key, StoreError, Timestamp};
use tollgate_mock::{MockStore, Sequence};

use crate::NOON;
use crate::messages::message;

fn reminders<S>(store: S) -> Schedule<S> {
    Schedule::new(store, "reminders", ["1/1m", "hourly=5/1h"]).unwrap()
}

fn uploads<S>(store: S) -> ConcurrencyLimiter<S> {
    ConcurrencyLimiter::new(store, "uploads", 3, Duration::from_secs(30)).unwrap()
}

#[tokio::test]
async fn schedules_get_the_answers_of_their_expectations_awaited_or_run() {
    let mut store = MockStore::new();
    let mut sequence = Sequence::new();
    let is_add = |call: &schedule::Request<'_>| {
        matches!(call.operation(), Operation::Add(_)) && call.key() == Key::from("k")
    };
    let refusal = Refusal::new(Reason::Past(NOON));
    let answers = [
        Ok(schedule::Answer::Added(1)),
        Ok(schedule::Answer::Refused { index: 0, refusal }),
        Err(StoreError::new(ErrorKind::Unknown, "lost")),
    ];
    for answer in answers {
        let expected = store.expect_schedule().withf(is_add).times(2);
        expected.in_sequence(&mut sequence).return_const(answer);
    }
    let expected = store.expect_reset_schedule().times(2);
    expected
        .withf(|terms, key| terms.name() == "reminders" && *key == Key::from("k"))
        .return_const(Ok(()));
    let schedule = reminders(store);
    let add = || schedule.add("k", "a", Timestamp::UNIX_EPOCH);
    assert!(add().await.unwrap().is_planned() && add().run().unwrap().is_planned());
    let refused = [add().await, add().run()].map(|added| added.unwrap().permit().unwrap_err());
    assert!(refused.iter().all(|of| *of.reason() == Reason::Past(NOON)));
    let failed = [add().await, add().run()].map(|added| added.unwrap_err().kind());
    assert_eq!(failed, [ErrorKind::Unknown; 2]);
    schedule.reset("k").await.unwrap();
    schedule.reset("k").run().unwrap();
    // A call that is not valid is no call.
    let error = schedule.add("k", "", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn leases_get_the_answers_of_their_expectations_awaited_or_run() {
    let mut store = MockStore::new();
    let mut state = lease::State::default();
    let expected = store.expect_lease().times(4);
    expected.returning(move |call| Ok(call.decide_on(&mut state, NOON)));
    let expected = store.expect_reset_leases().times(2);
    expected.withf(|terms, _| terms.name() == "uploads");
    expected.return_const(Err(StoreError::new(ErrorKind::Unavailable, "down")));
    let uploads = uploads(store);
    let lease = uploads.acquire("k", "a").weight(2).await.unwrap();
    let lease = lease.permit().unwrap();
    let denied = uploads.acquire("k", "b").weight(2).run().unwrap();
    assert_eq!(denied.permit().unwrap_err().held(), 2);
    assert!(uploads.release("k", &lease).await.unwrap());
    assert!(!uploads.release("k", &lease).run().unwrap());
    let failed = [uploads.reset("k").await, uploads.reset("k").run()];
    let failed = failed.map(|reset| reset.unwrap_err().kind());
    assert_eq!(failed, [ErrorKind::Unavailable; 2]);
    let error = uploads.acquire("k", "").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
}

#[test]
fn unexpected_and_missing_calls_of_schedules_and_leases_fail_the_test() {
    let text = message(|| reminders(MockStore::new()).cancel("k", "a").run());
    assert!(text.contains("MockStore::schedule(Request {"), "{text}");
    let text = message(|| uploads(MockStore::new()).peek("k").run());
    assert!(text.contains("MockStore::lease(Request {"), "{text}");
    let expecting = || {
        let mut store = MockStore::new();
        let expected = store.expect_lease().times(1);
        expected.return_const(Ok(lease::Answer::Released(true)));
        store
    };
    let missing = "MockStore::lease: Expectation(<anything>) called 0 time(s)";
    let text = message(|| {
        let mut store = expecting();
        store.checkpoint();
        panic_any("it accepts a missing call");
    });
    assert!(text.starts_with(missing), "{text}");
    let text = message(|| drop(expecting()));
    assert!(text.starts_with(missing), "{text}");
}
