//! Calls as values: what they do before they are ended, and what their answers say.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use tollgate_memory::{
    Decision, Limit, ManualClock, MemoryStore, RateLimiter, SyncStore, Timestamp, Wait,
};

/// Neither can be cloned nor shown.
struct Opaque(MemoryStore);

fn limits() -> [Limit; 2] {
    ["burst=gcra:3/1s", "daily=sliding-log:50/1d"].map(|text| text.parse().unwrap())
}

fn limiter() -> (RateLimiter<MemoryStore>, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (RateLimiter::new(store, limits()).unwrap(), clock)
}

#[tokio::test]
async fn a_call_does_nothing_before_it_is_ended() {
    let (limiter, _) = limiter();
    drop(limiter.check("k").cost(3));
    drop(limiter.check("k").cost(3).into_future());
    drop(limiter.reset("k").into_future());
    let call = limiter.check("k");
    assert_eq!(limiter.peek("k").await.unwrap().remaining(), 3);
    assert!(call.await.unwrap().is_allowed());
    let receipt = limiter.check("k").await.unwrap().into_receipt().unwrap();
    let refund = limiter.refund("k", receipt);
    assert_eq!(limiter.peek("k").run().unwrap().remaining(), 1);
    assert_eq!(refund.await.unwrap().remaining(), 2);
}

#[tokio::test]
async fn a_key_need_not_outlive_the_call() {
    let (limiter, _) = limiter();
    let decision = limiter.check(&format!("{}", 1)).cost(2).await.unwrap();
    assert_eq!(decision.remaining(), 1);
    let decision = limiter.check(&format!("{}", 1)).run().unwrap();
    assert_eq!(decision.remaining(), 0);
    // Nor need a call be ended where it was made.
    let task = tokio::spawn({
        let limiter = limiter.clone();
        async move {
            let key = "1".to_owned();
            limiter.check(&key).await.map(Decision::into_verdicts)
        }
    });
    assert!(task.await.unwrap().unwrap().is_denied());
}

#[test]
fn a_clone_shares_the_store_whatever_it_is() {
    let limiter = RateLimiter::new(Opaque(MemoryStore::new()), limits()).unwrap();
    let clone = limiter.clone();
    assert_eq!(clone.store().0.len(), 0);
    assert!(std::ptr::eq(limiter.store(), clone.store()));
    assert_eq!(limiter.limits(), clone.limits());
}

#[test]
fn a_decision_names_the_limit_that_binds() {
    let (limiter, clock) = limiter();
    let first = limiter.check("k").run().unwrap();
    let (binding, verdict) = first.binding();
    assert_eq!((binding.name(), verdict.remaining()), ("burst", 2));
    let names = first
        .verdicts()
        .map(|(limit, said)| (limit.name(), said.remaining()));
    assert!(names.eq([("burst", 2), ("daily", 49)]));
    assert_eq!(first.verdict("daily").unwrap().capacity(), 50);
    assert_eq!(first.verdict("dail"), None);
    assert_eq!(first.permit(), Ok(()));

    let denied = limiter.check("k").cost(3).run().unwrap();
    let error = denied.permit().unwrap_err();
    assert_eq!(error.limit().name(), "burst");
    assert_eq!(error.retry_after(), denied.retry_after());
    assert_eq!(error.verdict().capacity(), 3);
    assert_eq!(error.to_string(), "limit `burst`: retry in 333.334ms");
    clock.advance(Duration::from_secs(1));
    let denied = limiter.check("k").cost(51).run().unwrap();
    let error = denied.permit().unwrap_err();
    assert_eq!(error.retry_after(), Wait::NEVER);
    assert_eq!(
        error.to_string(),
        "limit `burst`: never allowed, because the cost exceeds the capacity of 3"
    );
}

#[test]
fn a_request_of_a_call_is_the_call() {
    let (limiter, _) = limiter();
    let now = Timestamp::from_micros(5).unwrap();
    let request = limiter.check("k").cost(2).at(now).into_request();
    assert_eq!(request.checks().len(), 2);
    assert_eq!(request.caller_time(), Some(now));
    let verdicts = limiter.store().decide_now(&request).unwrap();
    assert_eq!(verdicts.as_slice()[0].consumed(), 2);
    assert_eq!(limiter.peek("k").at(now).run().unwrap().remaining(), 1);
    let shown = format!("{:?}", limiter.check("secret").cost(2));
    assert!(
        shown.contains("Consume") && !shown.contains("secret"),
        "{shown}"
    );
}
