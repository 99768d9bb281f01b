//! Blocks.

use std::time::Duration;

use tollgate_core::store::{BlockSpan, Check, MAX_EXACT, Request};
use tollgate_core::{ErrorKind, Limit, RateLimiter, SyncStore, Timestamp, Wait};
use tollgate_mock::MockStore;

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

#[test]
fn a_block_that_succeeds_lasts_as_the_call_says() {
    let ban = || limit("ban=block:15m");
    let until = Timestamp::from_micros(5_000_007).unwrap();
    let then = Timestamp::from_micros(5_000_000).unwrap();
    let mut store = MockStore::new();
    store.expect_block("ban", "mallory").times(4).succeed();
    let wait = Duration::from_secs(7);
    store.expect_block("ban", "eve").times(1).deny_for(wait);
    store.expect_block("ban", "eve").times(1).deny_forever();
    let expected = store.expect_block("ban", "eve");
    expected.times(1).fail(ErrorKind::Unavailable);
    store.expect_block("ban", "alice").never();
    let limiter = RateLimiter::new(store, [limit("attempts=sliding-log:5/1m"), ban()]).unwrap();
    let block = || limiter.block("mallory");
    let usual = Duration::from_secs(15 * 60);
    for (call, lasts) in [
        (block(), usual),
        (block().lasting(wait), wait),
        (block().until(until).at(then), Duration::from_micros(7)),
        // By the clock of a mock, it is the first instant.
        (block().until(until), Duration::from_micros(5_000_007)),
    ] {
        let shown = format!("{call:?}");
        assert_eq!(call.run().unwrap().duration(), Some(lasts), "{shown}");
    }
    let block = || limiter.block("eve").run();
    assert_eq!(block().unwrap().duration(), Some(wait));
    assert_eq!(block().unwrap(), Wait::NEVER);
    assert_eq!(block().unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_block_of_a_limit_without_expectation_is_the_usual_one() {
    let mut store = MockStore::new();
    let second = Duration::from_secs(1);
    store.expect_block("ban", "k").deny_for(second);
    let limits = [limit("ban=block:15m"), limit("out=block:2s")];
    let limiter = RateLimiter::new(store, limits).unwrap();
    let wait = limiter.block("k").run().unwrap();
    assert_eq!(wait.duration(), Some(Duration::from_secs(2)));
}

#[test]
fn a_block_that_is_over_leaves_everything() {
    let mut store = MockStore::new();
    store.expect_block("a", "k").succeed();
    let limit: Limit = "a=block:15m".parse().unwrap();
    let check = Check::new(&limit, "k", 0);
    let left = |span| {
        let verdicts = store.decide_now(&Request::block(span, check)).unwrap();
        (verdicts.is_allowed(), verdicts.remaining())
    };
    assert_eq!(left(BlockSpan::Usual), (false, 0));
    assert_eq!(left(BlockSpan::Lasting(Duration::ZERO)), (true, MAX_EXACT));
}
