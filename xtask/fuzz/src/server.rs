//! A server whose replies are any bytes.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::schedule::Schedule;
use tollgate_core::store::{Check, Operation, Prefetch, Request};
use tollgate_core::{ErrorKind, RateLimiter, StoreError, Timestamp};
use tollgate_wire::{Engine, Failure, Options, ScriptCall, WireStore};

pub(crate) const LIMITS: [&str; 8] = [
    "a=gcra:7/1s,burst=3",
    "b=fixed-window:10/1s",
    "c=fixed-window:10/1s,anchored",
    "d=sliding-counter:10/1s",
    "e=sliding-buckets:10/1s,buckets=4",
    "f=sliding-log:10/1s,count-denied",
    "g=fixed-window:10/month@Europe/Berlin",
    "h=block:15m",
];
pub(crate) const QUOTAS: [&str; 3] = ["2/10s", "3/1d", "9/day@Europe/Berlin"];
pub(crate) const NOW: Timestamp = Timestamp::saturating_from_micros(1_780_000_000_000_000);

/// Makes a call, and has the server reply these bytes to it: that must be a decision or an error of
/// the protocol. The first byte says which call.
pub fn replies(data: &[u8]) {
    let Some((&choice, reply)) = data.split_first() else {
        return;
    };
    let store = WireStore::new(Replying(reply.to_vec()), Options::new());
    let choice = usize::from(choice);
    let outcome = match choice % 16 {
        0..8 => call(&store, &LIMITS[choice % 8..][..1], choice / 16),
        8 => call(&store, &LIMITS[..3], choice / 16),
        9 => call(&store, &LIMITS[5..], choice / 16),
        10..13 => plan(&store, choice),
        _ => hold(&store, choice),
    };
    if let Err(error) = outcome {
        let expected = [ErrorKind::Protocol, ErrorKind::Misconfigured];
        assert!(expected.contains(&error.kind()), "{error:?}");
    }
}

/// Checks, peeks, takes or asks for units ahead, by the server's clock or at an instant.
fn call(store: &WireStore<Replying>, limits: &[&str], which: usize) -> Result<(), StoreError> {
    let limiter = RateLimiter::new(store, limits.iter().copied());
    let limiter = limiter.unwrap_or_else(|error| panic!("{error}"));
    if which == 4 {
        let checks = limiter.limits().iter();
        let checks = checks.map(|limit| Check::new(limit, "k", 1));
        let ahead = Prefetch::new(8, Duration::from_secs(1));
        let request = Request::new(Operation::Prefetch(ahead), checks);
        return at_once(store.execute(&request)).map(drop);
    }
    match which % 4 {
        0 => at_once(limiter.check("k")).map(drop),
        1 => at_once(limiter.check("k").at(NOW)).map(drop),
        2 => at_once(limiter.peek("k")).map(drop),
        _ => at_once(limiter.take_up_to("k", 3)).map(drop),
    }
}

fn plan(store: &WireStore<Replying>, choice: usize) -> Result<(), StoreError> {
    let schedule = Schedule::new(store, "plans", QUOTAS);
    let schedule = schedule.unwrap_or_else(|error| panic!("{error}"));
    match choice / 16 % 6 {
        0 => at_once(schedule.add("k", "a", NOW).at(NOW)).map(drop),
        1 => at_once(schedule.reschedule("k", "a", NOW).at(NOW)).map(drop),
        2 => at_once(schedule.cancel("k", "a").at(NOW)).map(drop),
        3 => at_once(schedule.next_free("k", NOW).at(NOW)).map(drop),
        4 => at_once(schedule.reserve_next("k", "a", NOW).at(NOW)).map(drop),
        _ => at_once(schedule.list("k", NOW, Timestamp::MAX).at(NOW)).map(drop),
    }
}

fn hold(store: &WireStore<Replying>, choice: usize) -> Result<(), StoreError> {
    let places = ConcurrencyLimiter::new(store, "places", 5, Duration::from_secs(30));
    let places = places.unwrap_or_else(|error| panic!("{error}"));
    match choice / 16 % 2 {
        0 => at_once(places.acquire("k", "a")).map(drop),
        _ => at_once(places.peek("k")).map(drop),
    }
}

/// Completes a call that waits for nothing.
pub(crate) fn at_once<F: IntoFuture>(call: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(call.into_future()).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

/// Replies the same to every script.
struct Replying(Vec<u8>);

impl Engine for Replying {
    async fn run(&self, _call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        Ok(self.0.clone())
    }

    async fn load(&self, _call: &ScriptCall<'_>) -> Result<(), Failure> {
        Ok(())
    }

    async fn forget(&self, _keys: &[Vec<u8>]) -> Result<(), Failure> {
        Ok(())
    }

    async fn within<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn now(&self) -> SystemTime {
        NOW.into()
    }

    fn is_clustered(&self) -> bool {
        false
    }
}
