//! Promises about a store as a whole, independent of the algorithm.

use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, Limit, RateLimiter, Store, Timestamp};

use crate::clock::{at_or_now, takes, wall_clock, whatever_the_clock};
use crate::families::{self, resized};
use crate::harness::{OwnedKey, Stores, fresh_key};
use crate::plan::Plan;

/// A store decides every request that it says it supports, and fails all others with
/// `ErrorKind::Unsupported`.
///
/// Covers every algorithm and operation, with the caller's time and the store's own. A store that
/// supports nothing breaks this promise.
pub async fn says_what_it_supports(harness: &Stores, _plan: &Plan) {
    let store = harness.store().await;
    let mut supported = 0;
    for limit in every_algorithm() {
        let limit = &limit;
        for at in [None, Some(wall_clock())] {
            let key = OwnedKey::fresh("alice");
            let check = Check::new(limit, key.key(), 1);
            let receipt = match ask(&store, Request::consume(check), at).await {
                Some(decision) => decision.into_receipt(),
                None => continue,
            };
            supported += 1;
            ask(&store, Request::peek(check), at).await;
            ask(&store, Request::take_up_to(check), at).await;
            let reserve = Request::reserve(check, Duration::from_secs(1));
            let reserved = ask(&store, reserve, at).await;
            let holds = reserved.is_none() || limit.algorithm().can_reserve();
            assert!(holds, "{limit}: no call of this algorithm can be delayed");
            let receipt = receipt.unwrap_or_else(|| panic!("{limit}: a fresh key was refused"));
            ask(&store, Request::refund(&receipt, check), at).await;
        }
    }
    let limits = families::composite();
    let (near, far) = (OwnedKey::fresh("near"), OwnedKey::fresh("far"));
    for at in [None, Some(wall_clock())] {
        let together = Request::consume(Check::new(&limits[0], near.key(), 1));
        for key in [&near, &far] {
            let beside = Check::new(&limits[1], key.key(), 1);
            ask(&store, together.clone().and(beside), at).await;
        }
    }
    assert!(supported > 0, "the store supports nothing");
}

/// Returns the limits of all families of one algorithm.
fn every_algorithm() -> impl Iterator<Item = Limit> {
    let all = [
        families::fixed_window(),
        families::gcra(),
        families::sliding_buckets(),
        families::sliding_counter(),
        families::sliding_log(),
    ];
    all.into_iter().flatten()
}

/// A store that says it need not wait decides the same, on the same states, without waiting.
pub async fn decides_alike_without_waiting(harness: &Stores, _plan: &Plan) {
    let store = harness.store().await;
    for limit in every_algorithm() {
        let limit = &limit;
        // Nothing comes back while this runs.
        let limits = [resized(limit, 10, 864_000_000_000, 10)];
        let key = OwnedKey::fresh("alice");
        let check = Check::new(&limits[0], key.key(), 2);
        let mut left = 10;
        let mut takes_two = |way: &str, remaining: u64| {
            left -= 2;
            let holds = remaining == left;
            assert!(holds, "{limit}: {way} left {remaining} instead of {left}");
        };
        let Some(first) = ask(&store, Request::consume(check), None).await else {
            continue;
        };
        takes_two("`decide`", first.remaining());
        let begun = store.begin(&Request::consume(check)).await.unwrap();
        takes_two("`begin`", begun.remaining());
        let Some(sync) = store.as_sync() else {
            continue;
        };
        let second = sync.decide_now(&Request::consume(check)).unwrap();
        takes_two("`decide_now`", second.remaining());
        let limiter = RateLimiter::new(sync, &limits).unwrap();
        let third = limiter.check(key.key()).cost(2).run().unwrap();
        takes_two("`consume_now`", third.remaining());
        for (way, remains) in [("them", 2), ("`reset_now`", 10)] {
            let seen = store.decide(Request::peek(check)).await.unwrap();
            let seen = seen.remaining();
            let holds = seen == remains;
            assert!(holds, "{limit}: {seen} of 10 remained after {way}");
            sync.reset_now(&[check]).unwrap();
        }
    }
}

/// A malformed request fails with `ErrorKind::Malformed` and changes nothing.
pub async fn malformed_requests_change_nothing(harness: &Stores, plan: &Plan) {
    let store = harness.store().await;
    let plan = whatever_the_clock(harness, plan).await;
    let keys = [OwnedKey::fresh("alice"), OwnedKey::fresh("bob")];
    let now = wall_clock();
    for limit in plan.limits() {
        let at = takes(&*store, limit, now).then_some(now);
        let check = Check::new(limit, keys[0].key(), 1);
        let other = Check::new(limit, keys[1].key(), 1);
        let Some(first) = ask(&store, Request::consume(check), at).await else {
            continue;
        };
        let receipt = first.into_receipt().unwrap();
        // Consume under the other key and limit, so that a misdirected refund would have something
        // to take.
        let namesake = Limit::new("namesake", *limit.algorithm()).unwrap();
        let elsewhere = Check::new(&namesake, keys[0].key(), 1);
        ask(&store, Request::consume(other), at).await;
        ask(&store, Request::consume(elsewhere), at).await;
        let seen = [check, other, elsewhere];
        let mut before = Vec::new();
        for check in seen {
            before.push(ask(&store, Request::peek(check), at).await);
        }
        let many: Vec<_> = (0..33).map(|_| OwnedKey::fresh("many")).collect();
        let malformed = [
            Request::new(Operation::Consume, [] as [Check<'_>; 0]),
            Request::consume(check).and(check),
            Request::take_up_to(check).and(other).and(check),
            Request::refund(&receipt, check).and(other),
            Request::refund(&receipt, other),
            Request::refund(&receipt, elsewhere),
            Request::new(Operation::Refund(&receipt), [] as [Check<'_>; 0]),
            Request::new(
                Operation::Consume,
                many.iter().map(|key| Check::new(limit, key.key(), 1)),
            ),
        ];
        let otherwise = at.is_none().then_some(now);
        let by_the_other_clock = at_or_now(Request::refund(&receipt, check), otherwise);
        let is_supported = store.supports(&by_the_other_clock).is_ok();
        let by_the_other_clock = is_supported.then_some(by_the_other_clock);
        let malformed = malformed.map(|request| at_or_now(request, at));
        for request in malformed.into_iter().chain(by_the_other_clock) {
            let answer = store.decide(request.clone()).await;
            let kind = answer.as_ref().err().map(|error| error.kind());
            assert!(
                kind == Some(ErrorKind::Malformed),
                "{limit}: {request:?} is malformed, and was answered {answer:?}"
            );
        }
        // The store's own clock has advanced, so compare only what remains.
        let left = |seen: &Option<Verdicts>| seen.as_ref().map(Verdicts::remaining);
        for (check, before) in seen.into_iter().zip(before) {
            let after = ask(&store, Request::peek(check), at).await;
            let holds = before == after || (at.is_none() && left(&before) == left(&after));
            assert!(holds, "{limit}: a malformed request changed something");
        }
    }
}

/// A receipt from before a reset frees nothing consumed after it, if the state stores the instants
/// of calls: in sliding logs and anchored windows.
pub async fn receipts_from_before_a_reset_free_nothing(harness: &Stores, _plan: &Plan) {
    let store = harness.store().await;
    let now = wall_clock();
    let knows_instants = |limit: &Limit| match limit.algorithm() {
        Algorithm::FixedWindow(window) => window.is_anchored(),
        Algorithm::SlidingLog(_) => true,
        _ => false,
    };
    let all = [families::fixed_window(), families::sliding_log()];
    for limit in all.iter().flatten().filter(|limit| knows_instants(limit)) {
        // Long enough for stores that decide by their own clock.
        let limit = resized(limit, 10, 3_600_000_000, 10);
        let key = OwnedKey::fresh("alice");
        let check = Check::new(&limit, key.key(), 3);
        let at = takes(&*store, &limit, now).then_some(now);
        let later = at.map(|at| at.saturating_add(Duration::from_micros(1)));
        let Some(first) = ask(&store, Request::consume(check), at).await else {
            continue;
        };
        let receipt = first.into_receipt().unwrap();
        store.reset([check].into()).await.unwrap();
        let second = ask(&store, Request::consume(check), later).await;
        let Some(second) = second else { continue };
        let refund = at_or_now(Request::refund(&receipt, check), later);
        if store.supports(&refund).is_err() {
            continue;
        }
        let refunded = store.decide(refund).await.unwrap();
        assert!(
            refunded.remaining() == second.remaining(),
            "{limit}: {} remained, and {} after the refund of a call that was reset",
            second.remaining(),
            refunded.remaining()
        );
    }
}

/// Keys that look alike are distinct, and so are limits that differ in name or algorithm.
///
/// Covers separators, braces, invalid UTF-8, empty parts, and bytes moved from one part to the
/// other.
pub async fn similar_keys_are_independent(harness: &Stores, plan: &Plan) {
    let store = harness.store().await;
    let base = fresh_key("k");
    let now = wall_clock();
    let plan = whatever_the_clock(harness, plan).await;
    let part = |suffix: &[u8]| [base.as_bytes(), suffix].concat();
    let long = |last: u8| [part(&[b'x'; 2_000]), vec![last]].concat();
    let keys = [
        OwnedKey::of(part(b""), ""),
        OwnedKey::of("", part(b"")),
        OwnedKey::of(part(b":"), "x"),
        OwnedKey::of(part(b""), ":x"),
        OwnedKey::of(part(b":x"), ""),
        OwnedKey::of(part(b"{a}"), ""),
        OwnedKey::of(part(b""), "{a}"),
        OwnedKey::of(part(b"}"), "{a}"),
        OwnedKey::of(part(b"a"), ""),
        OwnedKey::of(part(b"A"), ""),
        OwnedKey::of(part(b" "), ""),
        OwnedKey::of(part(b"\0"), ""),
        OwnedKey::of(part(b""), "\0"),
        OwnedKey::of(part(b"\r\n"), ""),
        OwnedKey::of(part(b"%00"), ""),
        OwnedKey::of(part(b"\\x00"), ""),
        OwnedKey::of(part(b"\xff"), ""),
        OwnedKey::of(part(b"\xfe"), ""),
        OwnedKey::of(part("\u{e9}".as_bytes()), ""),
        OwnedKey::of(part("e\u{301}".as_bytes()), ""),
        OwnedKey::of(long(b'1'), ""),
        OwnedKey::of(long(b'2'), ""),
    ];
    let mut alike: Vec<Limit> = plan.limits().to_vec();
    for limit in plan.limits() {
        for name in ["a", "A", "a.b", "a-b", "a_b", "a.", "a-0"] {
            alike.push(Limit::new(name, *limit.algorithm()).unwrap());
        }
    }
    // Use up each one in turn: no earlier one may have touched it, and no later one may reset it.
    for remains in [true, false] {
        for limit in &alike {
            let capacity = limit.algorithm().capacity();
            let at = takes(&*store, limit, now).then_some(now);
            for key in &keys {
                let check = Check::new(limit, key.key(), capacity);
                let answer = ask(&store, Request::consume(check), at).await;
                assert!(
                    answer.is_none_or(|decision| decision.is_allowed() == remains),
                    "{limit}: the key {}|{} was taken for another",
                    key.partition.escape_ascii(),
                    key.rest.escape_ascii()
                );
            }
        }
    }
}

/// A request with the caller's instant is decided at that instant; any other, by a clock that
/// advances.
pub async fn decides_at_the_given_instant(harness: &Stores, plan: &Plan) {
    let store = harness.store().await;
    let now = wall_clock();
    let year = Duration::from_secs(365 * 24 * 60 * 60);
    let a_year_ago = now.as_micros().saturating_sub(31_536_000_000_000);
    let a_year_ago = Timestamp::saturating_from_micros(a_year_ago);
    for limit in plan.limits() {
        for at in [
            Timestamp::UNIX_EPOCH,
            a_year_ago,
            now,
            now.saturating_add(year),
            Timestamp::MAX,
        ] {
            let key = OwnedKey::fresh("alice");
            let check = Check::new(limit, key.key(), 1);
            let Some(decision) = ask(&store, Request::consume(check), Some(at)).await else {
                continue;
            };
            let decided_at = decision.as_slice()[0].decided_at();
            assert!(
                decided_at == at,
                "{limit}: planned at {at:?}, and decided at {decided_at:?}"
            );
        }
        let key = OwnedKey::fresh("alice");
        let check = Check::new(limit, key.key(), 0);
        let mut decided = Vec::new();
        for _ in 0..2 {
            if let Some(decision) = ask(&store, Request::consume(check), None).await {
                decided.push(decision.as_slice()[0].decided_at());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if let [first, second] = decided[..] {
            let passed = second.saturating_duration_since(first);
            assert!(
                (Duration::from_millis(10)..Duration::from_secs(60)).contains(&passed),
                "{limit}: 20 ms passed, by the store's clock {passed:?}"
            );
        }
    }
}

/// Decides `request` at `at`. Returns `None` if the store says that it does not support it.
async fn ask(store: &impl Store, request: Request<'_>, at: Option<Timestamp>) -> Option<Verdicts> {
    let request = at_or_now(request, at);
    let supported = store.supports(&request);
    match store.decide(request.clone()).await {
        Ok(decision) if supported.is_ok() => Some(decision),
        Err(error)
            if error.kind() == ErrorKind::Unsupported
                && supported.is_err_and(|said| said.kind() == error.kind()) =>
        {
            None
        }
        answer => panic!("{request:?} was answered {answer:?}, against what `supports` says"),
    }
}
