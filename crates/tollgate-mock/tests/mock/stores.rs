//! What a mock is told to answer, it answers as a store would, also when the limit is full again.

use std::fmt::Debug;
use std::time::Duration;

use tollgate_core::store::Verdict;
use tollgate_core::{Decision, RateLimiter, Receipt, SyncStore, Timestamp};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Expectation, MockStore};

const NOW: Timestamp = Timestamp::saturating_from_micros(1_700_000_000_250_000);
const WITHIN: Duration = Duration::from_millis(300);
const LIMITS: [&str; 9] = [
    // Full after a cost of 4, it delays a reservation by 250 ms.
    "api=gcra:4/1s",
    "api=gcra:10/1m,burst=3",
    "api=gcra:7/1s",
    "api=fixed-window:5/1m",
    "api=fixed-window:5/1m,anchored",
    "api=fixed-window:5/1m,anchored,count-denied",
    "api=sliding-log:5/1m",
    "api=sliding-buckets:5/1m,buckets=6",
    "api=sliding-counter:5/1m",
];

fn limiter<S>(store: S, limit: &str) -> RateLimiter<S> {
    RateLimiter::new(store, [limit]).unwrap()
}

fn verdict(decision: &Decision<'_>) -> Verdict {
    decision.verdict("api").unwrap()
}

/// Returns what a caller can see of a verdict.
fn seen(of: &Verdict) -> impl PartialEq + Debug {
    (
        (
            of.is_allowed(),
            of.capacity(),
            of.remaining(),
            of.consumed(),
        ),
        (of.retry_after(), of.delay(), of.reset_after()),
        // A reservation is counted at its start.
        of.delay().is_zero().then(|| of.decided_at()),
    )
}

/// Consumes 3, for which there is a receipt.
fn checked(on: &RateLimiter<&dyn SyncStore>) -> Receipt {
    let decision = on.check("k").cost(3).at(NOW).run().unwrap();
    decision.into_receipt().unwrap()
}

const OPERATIONS: [&str; 7] = [
    "check",
    "lower",
    "peek",
    "refund",
    "reserve",
    "settle",
    "take_up_to",
];

/// Makes a store expect a call of `api` for `k`.
fn expect<'s>(store: &'s mut MockStore, operation: &str) -> Expectation<'s> {
    match operation {
        "check" => store.expect_check("api", "k"),
        "lower" => store.expect_lower("api", "k"),
        "peek" => store.expect_peek("api", "k"),
        "refund" => store.expect_refund("api", "k"),
        "reserve" => store.expect_reserve("api", "k"),
        "settle" => store.expect_settle("api", "k"),
        _ => store.expect_take_up_to("api", "k"),
    }
}

fn call(on: &RateLimiter<&dyn SyncStore>, operation: &str, cost: u64) -> Verdict {
    let changed = match operation {
        "lower" => on.lower("k", cost).at(NOW).run(),
        "refund" => on
            .refund("k", checked(on))
            .at(NOW)
            .run()
            .map_err(Into::into),
        "settle" => on
            .settle("k", checked(on), cost)
            .at(NOW)
            .run()
            .map_err(Into::into),
        _ => {
            let decision = match operation {
                "check" => on.check("k").cost(cost).at(NOW).run(),
                "peek" => on.peek("k").cost(cost).at(NOW).run(),
                "reserve" => on.reserve("k").cost(cost).within(WITHIN).at(NOW).run(),
                _ => on.take_up_to("k", cost).at(NOW).run(),
            };
            return verdict(&decision.unwrap());
        }
    };
    verdict(changed.unwrap().decision())
}

/// Returns what a mock answers that is told to answer as `real` is.
fn told(real: &Verdict, limit: &str, operation: &str, cost: u64) -> Verdict {
    let mut store = MockStore::new();
    store.expect_check("api", "k").cost(3).times(..).allow();
    let (wait, delay) = (real.retry_after(), real.delay());
    let counted = if operation == "refund" { 3 } else { cost };
    let expected = expect(&mut store, operation).cost(counted);
    match wait.duration() {
        None => expected.deny_forever(),
        Some(wait) if !wait.is_zero() => expected.deny_for(wait),
        _ if !delay.is_zero() => expected.delay_by(delay.duration().unwrap()),
        _ if real.consumed() < cost && operation == "take_up_to" => expected.grant(real.consumed()),
        _ => expected.allow_with_remaining(real.remaining()),
    }
    call(&limiter(&store as &dyn SyncStore, limit), operation, cost)
}

/// Returns what a store answers after a call that cost `earlier`, if a mock can be told to say it.
fn real(limit: &str, operation: &str, earlier: u64, cost: u64) -> Option<Verdict> {
    let store = MemoryStore::new();
    let on = limiter(&store as &dyn SyncStore, limit);
    let before = on.check("k").cost(earlier).at(NOW).run().unwrap();
    let is_possible = match operation {
        // A mock knows of no debt.
        "settle" | "refund" => before.remaining() >= cost.max(3),
        "reserve" => limit.contains("gcra"),
        _ => true,
    };
    if before.is_denied() || !is_possible {
        return None;
    }
    let verdict = call(&on, operation, cost);
    // What a mock denies has nothing left, or everything if it is denied for ever.
    let left = match verdict.retry_after().is_never() {
        true => verdict.capacity(),
        false => 0,
    };
    let can_be_told = verdict.remaining() == left && !limit.contains("count-denied");
    (verdict.is_allowed() || can_be_told).then_some(verdict)
}

#[test]
fn answers_have_the_verdicts_of_stores() {
    let mut compared = 0;
    for limit in LIMITS {
        for earlier in 0..=5 {
            for cost in [0, 1, 2, 9] {
                for operation in OPERATIONS {
                    let Some(real) = real(limit, operation, earlier, cost) else {
                        continue;
                    };
                    let told = told(&real, limit, operation, cost);
                    let what = format!("{operation} at {cost} after {earlier} of {limit}");
                    assert!(seen(&told) == seen(&real), "{what}: {told:?}, not {real:?}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn limit_that_allows_what_another_denies_is_reset_already() {
    let mut store = MockStore::new();
    let second = Duration::from_secs(1);
    store.expect_check("day", "k").deny_for(second);
    let limits = ["hour=sliding-log:5/1h", "day=sliding-log:9/1d"];
    let mock = RateLimiter::new(store, limits).unwrap();
    let denied = mock.check("k").at(NOW).run().unwrap();
    let resets = denied.verdicts();
    let resets = resets.map(|(_, verdict)| verdict.reset_after().duration());
    assert!(resets.eq([Some(Duration::ZERO), Some(second)]));
}
