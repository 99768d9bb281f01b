//! Calls with a cost of its own for each limit, such as requests and tokens.

use std::time::Duration;

use tollgate_memory::store::Verdict;
use tollgate_memory::{Decision, ErrorKind, ManualClock, MemoryStore, RateLimiter, Timestamp};

const LIMITS: [&str; 2] = ["requests=sliding-log:60/1m", "tokens=sliding-log:1000/1m"];

fn limiter(limits: &[&str]) -> RateLimiter<MemoryStore> {
    let store = MemoryStore::builder().clock(ManualClock::new()).build();
    RateLimiter::new(store, limits.iter().copied()).unwrap()
}

fn each(decision: &Decision<'_>, read: impl Fn(&Verdict) -> u64) -> Vec<u64> {
    decision
        .verdicts()
        .map(|(_, verdict)| read(&verdict))
        .collect()
}

fn remaining(limiter: &RateLimiter<MemoryStore>) -> Vec<u64> {
    each(&limiter.peek("k").run().unwrap(), Verdict::remaining)
}

#[tokio::test]
async fn each_limit_consumes_its_own_cost() {
    let limiter = limiter(&LIMITS);
    let first = limiter.check("k").cost_of("tokens", 800).run().unwrap();
    assert_eq!(each(&first, Verdict::consumed), [1, 800]);
    assert_eq!(each(&first, Verdict::remaining), [59, 200]);
    // The cost is that of all other limits, whichever is set first.
    let second = limiter.check("k").cost_of("tokens", 150).cost(9);
    let second = second.await.unwrap();
    assert_eq!(each(&second, Verdict::consumed), [9, 150]);
    // The last cost of a limit counts.
    let third = limiter.check("k").cost(7).cost_of("tokens", 999);
    let third = third.cost_of("requests", 2).cost_of("tokens", 50);
    assert_eq!(each(&third.run().unwrap(), Verdict::consumed), [2, 50]);
    assert_eq!(remaining(&limiter), [48, 0]);
}

#[tokio::test]
async fn settlements_and_refunds_know_the_cost_of_each_limit() {
    let limiter = limiter(&LIMITS);
    let estimated = || async {
        let decision = limiter.check("k").cost_of("tokens", 800).await.unwrap();
        decision.into_receipt().unwrap()
    };
    let receipt = estimated().await;
    let left = limiter.settle("k", receipt, 1).cost_of("tokens", 335).run();
    assert_eq!(
        each(left.unwrap().decision(), Verdict::remaining),
        [59, 665]
    );
    let receipt = limiter.check("k").cost_of("tokens", 100).run().unwrap();
    let settle = limiter.settle("k", receipt.into_receipt().unwrap(), 700);
    let left = settle.cost_of("requests", 1).await.unwrap();
    assert_eq!(each(left.decision(), Verdict::remaining), [58, 0]);
    limiter.reset("k").run().unwrap();

    let receipt = estimated().await;
    assert_eq!(remaining(&limiter), [59, 200]);
    limiter.refund("k", receipt).await.unwrap();
    assert_eq!(remaining(&limiter), [60, 1_000]);
}

#[tokio::test]
async fn name_that_no_limit_has_fails_and_lists_the_names() {
    let limiter = limiter(&LIMITS);
    let expected = "no limit is called `token`: name one of the limiter's, `requests`, `tokens`";
    let call = || {
        let call = limiter.check("k").cost_of("token", 5);
        call.cost_of("tokens", 5).cost_of("day", 5).cost(5)
    };
    for error in [
        call().run().unwrap_err(),
        call().await.unwrap_err(),
        call().into_request().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(remaining(&limiter), [60, 1_000]);

    let receipt = limiter.check("k").run().unwrap().into_receipt().unwrap();
    let failed = limiter.settle("k", receipt, 1).cost_of("token", 5).run();
    let failed = failed.unwrap_err();
    assert_eq!(failed.to_string(), expected);
    let receipt = failed.into_receipt().unwrap();
    let failed = limiter.settle("k", receipt, 1).cost_of("token", 5).await;
    let receipt = failed.unwrap_err().into_receipt().unwrap();
    limiter.refund("k", receipt).run().unwrap();
}

#[tokio::test]
async fn ids_belong_to_calls_of_the_same_costs() {
    let limiter = limiter(&LIMITS);
    let call = |tokens| limiter.check("k").cost_of("tokens", tokens).id("one");
    let first = call(800).await.unwrap();
    assert_eq!(first, call(800).await.unwrap());
    assert_eq!(first, call(800).run().unwrap());
    assert_eq!(call(799).await.unwrap_err().kind(), ErrorKind::Malformed);
    // `id` may also be set first.
    let other = limiter.check("k").id("one").cost_of("requests", 800);
    assert_eq!(other.run().unwrap_err().kind(), ErrorKind::Malformed);
    assert_eq!(remaining(&limiter), [59, 200]);
}

#[test]
fn reservations_and_takes_have_costs_of_their_own() {
    let limiter = limiter(&["requests=gcra:1/1s,burst=1", "tokens=gcra:10/1s,burst=10"]);
    let second = Duration::from_secs(1);
    let reserve = |tokens| {
        let call = limiter.reserve("k").cost_of("tokens", tokens);
        call.within(9 * second).at(Timestamp::UNIX_EPOCH).run()
    };
    assert!(reserve(10).unwrap().delay().is_zero());
    let later = reserve(10).unwrap();
    assert_eq!(each(&later, Verdict::consumed), [1, 10]);
    assert_eq!(later.delay().duration(), Some(second));
    let last = limiter.reserve("k").cost(2).within(9 * second);
    let last = last.cost_of("tokens", 11).at(Timestamp::UNIX_EPOCH).run();
    assert!(last.unwrap().is_denied());

    // The same is taken from every limit.
    let taken = limiter.take_up_to("k", 8).cost_of("requests", 1);
    assert_eq!(taken.run().unwrap().consumed(), 1);
}

#[test]
fn more_limits_than_are_held_in_place_have_costs_too() {
    let texts: Vec<_> = (0..9).map(|n| format!("l{n}=sliding-log:9/1m")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let limiter = limiter(&texts);
    let call = limiter.check("k").cost_of("l8", 3).cost_of("l1", 0);
    let costs = [1, 0, 1, 1, 1, 1, 1, 1, 3];
    assert_eq!(each(&call.run().unwrap(), Verdict::consumed), costs);
}
