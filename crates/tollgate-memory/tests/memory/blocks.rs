//! Blocks, and calls that change what a key may do: how long, at which instant, and what they leave
//! as it is.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{
    BlockSpan, Check, Fingerprint, MAX_EXACT, Operation, Request, Verdicts,
};
use tollgate_core::{CallId, SyncStore};
use tollgate_memory::{
    ErrorKind, Limit, ManualClock, MemoryStore, RateLimiter, Receipt, Timestamp,
};

const START: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn limiter(limits: &[&str]) -> (RateLimiter<MemoryStore>, ManualClock) {
    let clock = ManualClock::at(at(START));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (
        RateLimiter::new(store, limits.iter().copied()).unwrap(),
        clock,
    )
}

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

#[test]
fn a_check_that_an_ended_block_lets_pass_leaves_the_block_as_it_is() {
    let clock = ManualClock::at(at(START));
    let store = Arc::new(MemoryStore::builder().clock(clock.clone()).build());
    let doubling = RateLimiter::new(Arc::clone(&store), ["ban=block:10s,doublings=3"]).unwrap();
    let limits = ["ban=block:10s", "all=fixed-window:9/1d"];
    let checked = RateLimiter::new(Arc::clone(&store), limits).unwrap();
    let lasts = || doubling.block("k").run().unwrap().as_micros();
    assert_eq!(lasts(), Some(10 * SECOND));
    clock.advance(Duration::from_secs(11));
    for _ in 0..2 {
        assert!(checked.check("k").run().unwrap().is_allowed());
    }
    // Only by the limit that doubles is the block still remembered.
    store.sweep();
    assert_eq!(lasts(), Some(20 * SECOND));
}

#[tokio::test]
async fn a_block_lasts_as_long_as_the_call_says() {
    let (limiter, clock) = limiter(&["api=gcra:5/1s", "ban=block:5s"]);
    let left = |key: &str| {
        let decision = limiter.check(key).run().unwrap();
        decision.retry_after().as_micros().unwrap()
    };
    let micros = |wait: tollgate_memory::Wait| wait.as_micros().unwrap();
    assert_eq!(micros(limiter.block("usual").run().unwrap()), 5 * SECOND);
    assert_eq!(left("usual"), 5 * SECOND);
    let until = at(START + 7);
    assert_eq!(
        micros(limiter.block("until").until(until).run().unwrap()),
        7
    );
    assert_eq!(left("until"), 7);
    let time = Duration::from_nanos(8_001);
    assert_eq!(
        micros(limiter.block("lasting").lasting(time).await.unwrap()),
        9
    );
    assert_eq!(left("lasting"), 9);
    clock.advance(Duration::from_micros(6));
    assert_eq!((left("until"), left("lasting")), (1, 3));
    clock.advance(Duration::from_micros(1));
    assert_eq!((left("until"), left("lasting")), (0, 2));
    // At a caller's instant, by which it is kept apart.
    let then = at(SECOND);
    let wait = limiter.block("then").until(at(SECOND + 3)).at(then).run();
    assert_eq!(micros(wait.unwrap()), 3);
    assert_eq!(left("then"), 0);
    let denied = limiter.check("then").at(then).run().unwrap();
    assert_eq!(micros(denied.retry_after()), 3);
}

#[test]
fn only_limits_that_block_are_blocked() {
    let (both, _) = limiter(&["api=gcra:5/1s", "ban=block:5s", "out=block:2s"]);
    let _ = both.block("k").run().unwrap();
    let peek = both.peek("k").run().unwrap();
    let left: Vec<u64> = peek
        .verdicts()
        .map(|(_, verdict)| verdict.remaining())
        .collect();
    assert_eq!(left, [5, 0, 0]);
    let (none, _) = limiter(&["api=gcra:5/1s"]);
    // In shadow, it would deny nobody.
    let trial = "trial=block:1m,shadow";
    let only_shadow = RateLimiter::new(MemoryStore::new(), ["api=gcra:10/1s", trial]).unwrap();
    let error = only_shadow.block("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("`trial` is in shadow"),
        "{error}"
    );
    let supported = only_shadow.block("k").supported().unwrap_err();
    assert_eq!(supported.to_string(), error.to_string());
    let beside = RateLimiter::new(MemoryStore::new(), ["ban=block:1m", trial]).unwrap();
    let _ = beside.block("k").run().unwrap();
    assert!(beside.check("k").run().unwrap().is_denied());
    let error = none.block("k").run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("block:5m"), "{error}");
    assert_eq!(none.peek("k").run().unwrap().remaining(), 5);
}

#[test]
fn a_block_that_admits_a_call_takes_no_memory() {
    for limits in [
        &["ban=block:5s"] as &[_],
        &["ban=block:5s", "out=block:2s"],
        &["ban=block:5s", "api=gcra:5/1s"],
        &["ban=block:5s", "out=block:2s", "api=gcra:5/1s"],
    ] {
        let (limiter, _) = limiter(limits);
        let _ = limiter.check("k").run().unwrap();
        let counting = limits.iter().filter(|limit| limit.contains("gcra"));
        assert_eq!(limiter.store().len(), counting.count(), "{limits:?}");
    }
}

#[test]
fn a_store_without_answers_says_that_it_keeps_none() {
    let ban = limit("ban=block:5s");
    let check = Check::new(&ban, "k", 1);
    let with_id = Request::consume(check).id("one");
    assert!(with_id.validate_operation().is_err());
    assert!(Request::consume(check).validate_operation().is_ok());
    let told = |request: &Request<'_>| request.validate(Fingerprint::of).unwrap_err().to_string();
    assert!(told(&with_id).contains("answers by id"));
    // What is wrong with a request without an id is something else.
    let api = limit("api=gcra:5/1s");
    let block = Request::block(BlockSpan::Usual, Check::new(&api, "k", 1));
    assert!(told(&block).contains("block:5m"));
    let within = Operation::Reserve {
        max_delay: Duration::ZERO,
    };
    let beside = [Check::new(&api, "k", 1), check];
    assert!(told(&Request::new(within, beside)).contains("gcra"));
}

#[test]
fn what_changes_nothing_takes_no_room() {
    let (limiter, _) = limiter(&["ban=block:5s,doublings=2"]);
    for until in [0, 1, START - 1, START] {
        let wait = limiter.block("k").until(at(until)).run().unwrap();
        assert!(wait.is_zero());
    }
    let wait = limiter.block("k").lasting(Duration::ZERO).run().unwrap();
    assert!(wait.is_zero());
    assert!(limiter.store().is_empty());
    let (lowered, _) = self::limiter(&["api=gcra:5/1s"]);
    for remaining in [5, 6, u64::MAX] {
        let left = lowered.lower("k", remaining).run().unwrap();
        assert_eq!(left.remaining(), 5);
    }
    assert!(lowered.store().is_empty());
}

#[test]
fn a_block_of_several_limits_is_in_force_while_one_of_them_is() {
    let (limiter, _) = limiter(&["ban=block:5s"]);
    let _ = limiter.block("k").run().unwrap();
    let [ban, out] = ["ban=block:5s", "out=block:5s"].map(limit);
    for (first, second) in [(&ban, &out), (&out, &ban)] {
        let past = BlockSpan::Until(at(START));
        let request = Request::block(past, Check::new(first, "k", 1));
        let request = request.and(Check::new(second, "k", 1));
        let verdicts: Verdicts = limiter.store().decide_now(&request).unwrap();
        assert!(verdicts.is_denied());
        assert_eq!(verdicts.retry_after().as_micros(), Some(5 * SECOND));
    }
}

#[test]
fn an_id_has_up_to_a_thousand_bytes_and_is_kept_for_some_time() {
    let (limiter, _) = limiter(&["api=gcra:5/1d"]);
    let bytes = [7; 1_001];
    let outcome = |id: CallId<'_>| limiter.check("k").id(id).run().map(|_| ());
    outcome(CallId::new(&bytes[..1_000])).unwrap();
    for id in [
        CallId::new(&bytes[..1_001]),
        CallId::new(""),
        CallId::new("one").kept(Duration::ZERO),
    ] {
        assert_eq!(outcome(id).unwrap_err().kind(), ErrorKind::Malformed);
    }
    let kept = |time| CallId::new("one").kept(time).kept_us();
    assert_eq!(CallId::new("one").kept_us(), 600 * SECOND);
    for (nanos, micros) in [
        (1, 1_000),
        (1_000_000, 1_000),
        (1_000_001, 2_000),
        (1_000_000_000_000_000, 1_000_000_000_000),
        (1_000_000_999_999_999, 1_000_001_000_000),
    ] {
        assert_eq!(kept(Duration::from_nanos(nanos)), micros, "{nanos}");
    }
    // As long as any state lasts.
    let most = MAX_EXACT / 1_000 * 1_000;
    assert_eq!(kept(Duration::MAX), most);
    assert_eq!(kept(Duration::from_micros(most)), most);
    assert_eq!(kept(Duration::from_micros(most + 1_000)), most);
    assert_eq!(kept(Duration::from_micros(most - 1_000)), most - 1_000);
    assert!(!CallId::new("one").is_repeated());
    assert!(CallId::new("one").repeated().is_repeated());
}

/// Returns receipts of calls that cost these amounts.
fn receipts(limiter: &RateLimiter<MemoryStore>, costs: [u64; 2]) -> [Receipt; 2] {
    costs.map(|cost| {
        let decision = limiter.check("k").cost(cost).run().unwrap();
        decision.into_receipt().unwrap()
    })
}

#[test]
fn no_settlement_is_too_large_to_count() {
    let after = |text: &str, cost: u64| {
        let (limiter, _) = limiter(&[text]);
        let [first, second] = receipts(&limiter, [1, 2]);
        let left = limiter.settle("k", first, cost).run().unwrap();
        assert_eq!(left.remaining(), 0, "{text}, {cost}");
        let denied = limiter.check("k").run().unwrap();
        assert!(denied.is_denied(), "{text}, {cost}");
        let waits = (denied.retry_after(), denied.reset_after());
        let again = limiter.settle("k", second, u64::MAX).run().unwrap();
        assert_eq!(again.remaining(), 0, "{text}, {cost}");
        waits
    };
    for text in [
        "api=gcra:5/1s",
        "api=gcra:4/1m",
        "api=sliding-buckets:5/1s,buckets=4",
        "api=sliding-counter:5/1s",
        "api=fixed-window:5/1s",
        "api=sliding-log:5/1s",
    ] {
        let most = after(text, MAX_EXACT);
        for cost in [MAX_EXACT + 1, 1 << 60, 1 << 63, (1 << 63) + 1, u64::MAX] {
            assert_eq!(after(text, cost), most, "{text}, {cost}");
        }
    }
}

#[test]
fn what_is_given_back_after_the_largest_settlement_remains() {
    for (text, capacity) in [
        ("api=sliding-counter:10/1s", 10),
        (
            "api=sliding-buckets:9007199254740991/1s,buckets=1",
            MAX_EXACT,
        ),
    ] {
        for cost in [capacity + 7, u64::MAX] {
            let (limiter, _) = limiter(&[text]);
            let [first, second] = receipts(&limiter, [1, capacity - 1]);
            let left = limiter.settle("k", first, cost).run().unwrap();
            assert_eq!(left.remaining(), 0);
            let left = limiter.refund("k", second).run().unwrap();
            assert_eq!(left.remaining(), capacity - 1, "{text}, {cost}");
        }
    }
}
