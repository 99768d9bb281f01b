//! `MockStore` returns the answers of its expectations, and unexpected calls fail the test;
//! `FaultyStore` fails as it is set to.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod blocks;
mod calls;
mod faulty;
mod matchers;
mod messages;
mod operations;
mod others;
mod requests;
mod stores;

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Request, Verdict, Verdicts};
use tollgate_core::{
    FixedWindow, Key, Limit, Quota, RateLimiter, SlidingLog, SyncStore, Timestamp,
};
use tollgate_mock::{Expectation, MockStore};

const NOON: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::saturating_from_micros(1_700_000_000_000_000);

fn limits() -> [Limit; 2] {
    let quota = Quota::per_minute(5);
    [
        Limit::new("log", SlidingLog::new(quota).unwrap()).unwrap(),
        Limit::new("window", FixedWindow::aligned(quota)).unwrap(),
    ]
}

/// Returns the decision of a store with the expectations of `expect`, at a cost of 2 for both
/// limits.
fn decide(expect: impl FnOnce(&mut MockStore), operation: Operation<'_>) -> Verdicts {
    let mut store = MockStore::new();
    expect(&mut store);
    let limits = limits();
    let checks = [
        Check::new(&limits[0], "k", 2),
        Check::new(&limits[1], Key::from("k"), 2),
    ];
    store
        .decide_now(&Request::new(operation, &checks).at(NOW))
        .unwrap()
}

const WITHIN_A_SECOND: Operation<'_> = Operation::Reserve { max_delay: SECOND };

/// Returns what a store decides for the limit `mail` that answers `operation` so.
fn mail(operation: Operation<'_>, cost: u64, answer: &dyn Fn(Expectation<'_>)) -> Verdict {
    let mut store = MockStore::new();
    answer(match operation {
        Operation::Charge => store.expect_charge("mail", "k"),
        Operation::Give => store.expect_give("mail", "k"),
        Operation::Lower => store.expect_lower("mail", "k"),
        Operation::Peek => store.expect_peek("mail", "k"),
        Operation::Reserve { .. } => store.expect_reserve("mail", "k"),
        Operation::TakeUpTo => store.expect_take_up_to("mail", "k"),
        _ => store.expect_check("mail", "k"),
    });
    let limit: Limit = "mail=gcra:10/1m,burst=5".parse().unwrap();
    let check = [Check::new(&limit, "k", cost)];
    let decided = store.decide_now(&Request::new(operation, &check));
    decided.unwrap().as_slice()[0]
}

/// Returns each limit's verdict: whether it allows, what remains, and what was consumed.
fn said(decision: &Verdicts) -> Vec<(bool, u64, u64)> {
    let said = |v: &Verdict| (v.is_allowed(), v.remaining(), v.consumed());
    decision.as_slice().iter().map(said).collect()
}

/// Returns what the store decides of `operation` at `cost` for all limits of `limiter`.
fn ask(limiter: &RateLimiter<&MockStore>, operation: Operation<'_>, cost: u64) -> Verdicts {
    let checks = limiter.limits().iter();
    let checks = checks.map(|limit| Check::new(limit, "k", cost));
    limiter
        .store()
        .decide_now(&Request::new(operation, checks))
        .unwrap()
}
