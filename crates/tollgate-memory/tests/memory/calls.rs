//! Calls as values: they do nothing until awaited or run, and what they return.

use std::error::Error;
use std::fmt::Debug;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Begun, Check, Checks, Fingerprint, Operation, Request, Verdicts};
use tollgate_memory::call::SettleError;
use tollgate_memory::store::Verdict;
use tollgate_memory::{
    CallId, Decision, ErrorKind, Limit, ManualClock, MemoryStore, RateLimiter, Receipt, Store,
    StoreError, SyncStore, Timestamp, Wait,
};

/// A store that implements neither `Clone` nor `Debug`.
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
async fn an_awaited_call_keeps_its_id_and_its_receipt() {
    for count in 1..=2 {
        let store = MemoryStore::builder().clock(ManualClock::new()).build();
        let limiter = RateLimiter::new(store, &limits()[..count]).unwrap();
        for _ in 0..2 {
            let decision = limiter.check("k").id("one").await.unwrap();
            assert_eq!(decision.remaining(), 2);
        }
        let decision = limiter.check("k").await.unwrap();
        assert_eq!(decision.remaining(), 1);
        let receipt = decision.into_receipt().unwrap();
        assert_eq!(limiter.refund("k", receipt).await.unwrap().remaining(), 2);
    }
}

#[tokio::test]
async fn a_call_does_nothing_until_awaited_or_run() {
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

/// So layers around the store need no future.
#[tokio::test]
async fn a_request_is_decided_as_it_begins() {
    let (limiter, _) = limiter();
    let check = Check::new(&limiter.limits()[0], "k", 3);
    let begin = |request| limiter.store().begin(&request);
    for is_allowed in [true, false] {
        let Begun::Decided(verdicts) = begin(Request::consume(check)) else {
            panic!("it waits");
        };
        assert_eq!(verdicts.is_allowed(), is_allowed);
    }
    let twice = begin(Request::consume(check).and(check)).await;
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Malformed);
}

#[tokio::test]
async fn a_key_need_not_outlive_the_call() {
    let (limiter, _) = limiter();
    let decision = limiter.check(&format!("{}", 1)).cost(2).await.unwrap();
    assert_eq!(decision.remaining(), 1);
    let decision = limiter.check(&format!("{}", 1)).run().unwrap();
    assert_eq!(decision.remaining(), 0);
    // A spawned task can own the key, too.
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
fn a_clone_shares_the_store() {
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
    assert_eq!(error.to_string(), "limit `burst`: retry in 334ms");
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
fn a_call_can_be_read_as_its_request() {
    let (limiter, _) = limiter();
    let now = Timestamp::from_micros(5).unwrap();
    let call = limiter.check("k").cost(2).at(now);
    let request = call.into_request().unwrap();
    assert_eq!(request.checks().len(), 2);
    assert_eq!(request.caller_time(), Some(now));
    let verdicts = limiter.store().decide_now(&request).unwrap();
    assert_eq!(verdicts.as_slice()[0].consumed(), 2);
    assert_eq!(limiter.peek("k").at(now).run().unwrap().remaining(), 1);
}

/// Returns this number of verdicts, and fails refunds with an error of this kind.
#[derive(Debug)]
struct Scripted(usize, ErrorKind);

impl SyncStore for Scripted {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        if let Operation::Refund(_) = request.operation() {
            return Err(StoreError::new(self.1, "no").with_source("because"));
        }
        let allowed = Verdict::allow(9, 4)
            .with_reset_after(Wait::from_micros(7))
            .with_consumed(1, Timestamp::UNIX_EPOCH);
        let verdicts = std::iter::repeat_n(allowed, self.0);
        Ok(Verdicts::new(Fingerprint::of(request), verdicts))
    }

    fn reset_now(&self, _checks: &[Check<'_>]) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Makes stores that need not wait awaitable.
macro_rules! awaitable {
    ($($store:ty)+) => {$(
        #[async_trait]
        impl Store for $store {
            async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
                self.decide_now(&request)
            }

            async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
                self.reset_now(&checks)
            }

            fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
                request.validate_operation()
            }
        }
    )+};
}

awaitable!(Away Scripted WithTotal);

#[tokio::test]
async fn a_store_that_answers_about_another_number_of_limits_is_an_error() {
    for limits in [&limits()[..1], &limits()[..]] {
        for verdicts in 0..4 {
            let store = Scripted(verdicts, ErrorKind::Full);
            let limiter = RateLimiter::new(store, limits.to_vec()).unwrap();
            for answer in [limiter.check("k").run(), limiter.check("k").await] {
                if verdicts == limits.len() {
                    assert!(answer.unwrap().is_allowed());
                    continue;
                }
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Protocol);
                let expected = format!("for {verdicts} limits instead of {}:", limits.len());
                assert!(error.to_string().contains(&expected), "{error}");
            }
        }
    }
}

#[test]
fn calls_show_all_but_the_key() {
    let limiter = RateLimiter::new(Scripted(2, ErrorKind::Full), limits()).unwrap();
    let receipt = || -> Receipt { limiter.check("k").run().unwrap().into_receipt().unwrap() };
    let [then, until] = [1_234_567, 7_654_321].map(|at| Timestamp::from_micros(at).unwrap());
    let id = CallId::new("secret").kept(Duration::from_secs(9));
    let shown: [(&dyn Debug, &[&str]); 7] = [
        (&limiter, &[]),
        (&limiter.check("secret").cost(2), &["Consume", "Same(2)"]),
        (&limiter.check("secret").into_future(), &[]),
        (&limiter.refund("secret", receipt()), &["Refund(Receipt"]),
        (
            &limiter.settle("secret", receipt(), 99).at(then),
            &["Settle(Receipt", "Same(99)", "1234567"],
        ),
        (
            &limiter.block("secret").until(until).at(then),
            &["Block(Until", "7654321", "at: Some", "1234567"],
        ),
        (&id.repeated(), &["bytes: 6", "kept: 9s", "repeats: true"]),
    ];
    for (index, (call, parts)) in shown.into_iter().enumerate() {
        let shown = format!("{call:?}");
        let has_all = parts.iter().all(|part| shown.contains(part));
        // Neither as text nor as a list of bytes.
        let has_key = shown.contains("secret") || shown.contains("115, 101");
        assert!(has_all && !has_key, "{shown}");
        assert_eq!(shown.contains("burst=gcra:3/1s"), index < 6, "{shown}");
    }
}

#[tokio::test]
async fn a_failed_refund_returns_its_receipt() {
    for (kind, is_returned) in [
        (ErrorKind::Full, true),
        (ErrorKind::Malformed, true),
        (ErrorKind::Misconfigured, false),
        (ErrorKind::Protocol, false),
        (ErrorKind::Unavailable, true),
        (ErrorKind::Unknown, false),
        (ErrorKind::Unsupported, true),
    ] {
        let limiter = RateLimiter::new(Scripted(2, kind), limits()).unwrap();
        let receipt = || -> Receipt { limiter.check("k").run().unwrap().into_receipt().unwrap() };
        let refused: [SettleError; 2] = [
            limiter.refund("k", receipt()).run().unwrap_err(),
            limiter.refund("k", receipt()).await.unwrap_err(),
        ];
        for error in refused {
            assert_eq!((error.kind(), error.error().kind()), (kind, kind));
            assert_eq!(error.to_string(), "no");
            assert_eq!(error.source().unwrap().to_string(), "because");
            assert_eq!(error.into_receipt(), is_returned.then(receipt));
        }
        let error = limiter.refund("k", receipt()).run().unwrap_err();
        assert_eq!(StoreError::from(error).kind(), kind);
    }
}

/// Also counts each call against a limit for all callers together.
struct WithTotal(MemoryStore, Limit);

impl SyncStore for WithTotal {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        let total = Check::new(&self.1, "everyone", 1);
        let both = self.0.decide_now(&request.clone().and(total))?;
        let [own @ .., _] = both.as_slice() else {
            panic!("no verdict in {both:?}");
        };
        Ok(Verdicts::new(Fingerprint::of(request), own.to_vec()))
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        self.0.reset_now(checks)
    }
}

#[test]
fn a_store_adds_a_check_to_the_request_of_a_limiter() {
    let total = "total=gcra:100/1h".parse::<Limit>().unwrap();
    let limiter = RateLimiter::new(WithTotal(MemoryStore::new(), total.clone()), limits()).unwrap();
    for key in ["a", "b", "c"] {
        assert!(limiter.peek(key).run().unwrap().is_allowed());
        assert_eq!(limiter.check(key).run().unwrap().remaining(), 2);
    }
    let all = RateLimiter::new(&limiter.store().0, [total]).unwrap();
    assert_eq!(all.peek("everyone").run().unwrap().remaining(), 97);
}

#[tokio::test]
async fn numbers_addresses_and_pairs_are_the_keys_of_their_text() {
    let ip = IpAddr::from([203, 0, 113, 7]);
    for limits in [&["a=gcra:9/1h"][..], &["a=gcra:9/1h", "b=sliding-log:9/1h"]] {
        let limiter = RateLimiter::new(MemoryStore::new(), limits.iter().copied()).unwrap();
        assert_eq!(limiter.check(ip).run().unwrap().remaining(), 8);
        assert_eq!(limiter.check(ip).await.unwrap().remaining(), 7);
        assert_eq!(limiter.check("203.0.113.7").run().unwrap().remaining(), 6);
        assert_eq!(limiter.peek(ip).run().unwrap().remaining(), 6);
        assert_eq!(limiter.check((42, "/login")).await.unwrap().remaining(), 8);
        let same = tollgate_memory::Key::from("42").with_rest("/login");
        assert_eq!(limiter.check(same).run().unwrap().remaining(), 7);
        limiter.reset((42_u64, "/login")).run().unwrap();
        assert_eq!(limiter.peek(same).run().unwrap().remaining(), 9);
    }
}

/// Counts what it hears of.
#[derive(Default)]
struct Heard(std::sync::atomic::AtomicUsize);

impl tollgate_core::call::Companion for Heard {
    fn given_back(&self, key: tollgate_memory::Key<'_>) {
        assert_eq!(*key.partition(), *b"k");
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Looks at what remains whenever something is given back.
struct Looking(AssertUnwindSafe<Arc<MemoryStore>>, Mutex<Vec<u64>>);

impl tollgate_core::call::Companion for Looking {
    fn given_back(&self, key: tollgate_memory::Key<'_>) {
        let limiter = RateLimiter::new(Arc::clone(&self.0), ["a=gcra:9/1h"]).unwrap();
        let left = limiter.peek(key).run().unwrap().remaining();
        self.1.lock().unwrap().push(left);
    }
}

/// If a waiting call were woken earlier, it would find nothing, and sleep on.
#[tokio::test]
async fn listener_hears_of_units_once_they_have_been_given_back() {
    let store = Arc::new(MemoryStore::new());
    let limiter = RateLimiter::new(Arc::clone(&store), ["a=gcra:9/1h"]).unwrap();
    let looking = || Looking(AssertUnwindSafe(store.clone()), Mutex::default());
    let looking = limiter.companion(looking);
    let call = || {
        let decision = limiter.check("k").cost(9).run().unwrap();
        decision.into_receipt().unwrap()
    };
    let _ = limiter.refund("k", call()).run().unwrap();
    let _ = limiter.refund("k", call()).await.unwrap();
    let _ = limiter.settle("k", call(), 0).await.unwrap();
    // Nothing is given back to another key.
    limiter.refund("other", call()).run().unwrap_err();
    limiter.reset("k").run().unwrap();
    let _ = call();
    limiter.reset("k").await.unwrap();
    assert_eq!(*looking.1.lock().unwrap(), [9; 5]);
}

/// A store that cannot be reached.
struct Away;

fn away<T>() -> Result<T, StoreError> {
    Err(StoreError::new(ErrorKind::Unavailable, "away"))
}

impl SyncStore for Away {
    fn decide_now(&self, _: &Request<'_>) -> Result<Verdicts, StoreError> {
        away()
    }

    fn reset_now(&self, _: &[Check<'_>]) -> Result<(), StoreError> {
        away()
    }
}

#[tokio::test]
async fn a_reset_that_fails_is_an_error_and_nobody_hears_of_it() {
    let limiter = RateLimiter::new(Away, ["a=gcra:9/1h"]).unwrap();
    for _ in 0..2 {
        let errors = [limiter.reset("k").run(), limiter.reset("k").await];
        let kinds = errors.map(|error| error.unwrap_err().kind());
        assert_eq!(kinds, [ErrorKind::Unavailable; 2]);
        // The second time, somebody listens.
        let heard = limiter.companion(Heard::default);
        assert_eq!(heard.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    }
}
