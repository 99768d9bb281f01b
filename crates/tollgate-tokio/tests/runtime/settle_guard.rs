//! A call is settled at no less than what was seen of it, whoever goes away.

use futures_util::{StreamExt, stream};
use tollgate_core::ErrorKind;
use tollgate_tokio::meter::{Meter, OnDrop, SettleGuard};

use crate::meter::{ESTIMATE, Ledger, Limiter, estimated, limiter_of, remaining, settled};
use crate::paused;

type Guard = SettleGuard<std::sync::Arc<Ledger>>;

fn limiter() -> Limiter {
    limiter_of(&["tokens=sliding-log:1000/1h"])
}

async fn guard(limiter: &Limiter) -> Guard {
    SettleGuard::new(limiter, "alice", estimated(limiter).await)
}

/// Returns what remains of each limit.
async fn each(limiter: &Limiter) -> Vec<u64> {
    let peeked = limiter.peek("alice").await.unwrap();
    let each = peeked.verdicts().map(|(_, verdict)| verdict.remaining());
    each.collect()
}

/// Reports what each part of an answer costs, and the total at its end.
fn parts(parts: &[(u64, Option<u64>)]) -> stream::Iter<std::vec::IntoIter<(u64, Option<u64>)>> {
    stream::iter(parts.to_vec())
}

fn record(part: &(u64, Option<u64>), used: &mut Guard) {
    used.add(part.0);
    if let Some(total) = part.1 {
        used.at_least(total);
    }
}

#[tokio::test(start_paused = true)]
async fn prompt_is_counted_beside_the_answer() {
    let limiter = limiter_of(&["tokens=sliding-log:10000/1h"]);
    let receipt = estimated(&limiter).await;
    let answer = stream::iter([20, 15]);
    let answer = answer.metered_by(&limiter, "alice", receipt, |&count, used| used.add(count));
    let mut answer = answer.base(300);
    assert_eq!(answer.cost(), 300);
    while answer.next().await.is_some() {}
    let done = answer.finish().await.unwrap();
    assert_eq!((done.cost(), done.remaining()), (335, 9_665));
}

#[tokio::test(start_paused = true)]
async fn measure_may_have_a_state_of_its_own() {
    let limiter = limiter();
    let (mut parts, weight) = (0, 3);
    let answer = stream::iter(["a", "b", "c", "d"]);
    let answer = answer.metered_by(&limiter, "alice", estimated(&limiter).await, |_, used| {
        // Every other part is free.
        parts += 1;
        used.add(weight * (parts % 2));
    });
    assert_eq!(answer.collect::<Vec<_>>().await.len(), 4);
    assert_eq!(settled(&limiter).await, [6]);
}

#[tokio::test(start_paused = true)]
async fn total_in_the_last_part_is_settled_if_it_comes() {
    let answer = [(0, None), (0, None), (0, Some(335))];
    for (read, settlements, left) in [(3, vec![335], 665), (2, vec![], 900), (0, vec![], 900)] {
        let limiter = limiter();
        let mut answer = guard(&limiter).await.meter_by(parts(&answer), record);
        for _ in 0..read {
            answer.next().await.unwrap();
        }
        drop(answer);
        assert_eq!(settled(&limiter).await, settlements, "{read} parts");
        assert_eq!(remaining(&limiter).await, left, "{read} parts");
    }
}

/// The total may be missing although the stream ends as it should.
#[tokio::test(start_paused = true)]
async fn stream_that_ends_without_a_record_keeps_the_estimate() {
    for (on_drop, total, cost) in [
        (None, None, ESTIMATE),
        (Some(OnDrop::KeepEstimate), None, ESTIMATE),
        (Some(OnDrop::Settle), None, 30),
        (None, Some(35), 35),
        (Some(OnDrop::KeepEstimate), Some(35), 35),
    ] {
        let limiter = limiter();
        let answer = [(0, None), (0, total)];
        let answer = guard(&limiter).await.meter_by(parts(&answer), record);
        let mut answer = answer.base(30);
        if let Some(on_drop) = on_drop {
            answer = answer.on_drop(on_drop);
        }
        while answer.next().await.is_some() {}
        let settled = answer.finish().await.unwrap();
        assert_eq!(settled.cost(), cost, "{on_drop:?} {total:?}");
        let found = remaining(&limiter).await;
        assert_eq!(found, 1_000 - cost, "{on_drop:?} {total:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn total_never_lowers_what_was_recorded() {
    let limiter = limiter();
    let mut used = guard(&limiter).await.base(10);
    used.at_least(4);
    assert_eq!(used.cost(), 10);
    used.add(5);
    // Totals include the base.
    used.at_least(14);
    assert_eq!(used.cost(), 15);
    used.at_least(20);
    assert_eq!(used.cost(), 20);
    used.add(1);
    assert_eq!(used.cost(), 21);
    used.at_least(u64::MAX);
    used.add(1);
    assert_eq!(used.cost(), u64::MAX);
}

/// The estimate of each is 100.
#[tokio::test(start_paused = true)]
async fn dropped_call_is_settled_as_it_says() {
    use OnDrop::{KeepEstimate, Settle, SettleIfRecorded};
    for (on_drop, base, recorded, expected) in [
        (None, 0, 0, None),
        (None, 30, 0, None),
        (None, 30, 5, Some(35)),
        (None, 130, 0, Some(130)),
        (None, 130, 5, Some(135)),
        (Some(SettleIfRecorded), 30, 0, None),
        (Some(SettleIfRecorded), 30, 5, Some(35)),
        (Some(Settle), 0, 0, Some(0)),
        (Some(Settle), 30, 0, Some(30)),
        (Some(KeepEstimate), 30, 5, None),
        (Some(KeepEstimate), 30, 70, None),
        (Some(KeepEstimate), 30, 71, Some(101)),
    ] {
        let case = format!("{on_drop:?} {base} {recorded}");
        let limiter = limiter();
        let mut used = guard(&limiter).await.base(base);
        if let Some(on_drop) = on_drop {
            used = used.on_drop(on_drop);
        }
        used.add(recorded);
        drop(used);
        assert_eq!(settled(&limiter).await, Vec::from_iter(expected), "{case}");
        let left = 1_000 - expected.unwrap_or(ESTIMATE);
        assert_eq!(remaining(&limiter).await, left, "{case}");

        // A stream that has yielded one part is dropped alike.
        limiter.reset("alice").await.unwrap();
        let stream = guard(&limiter).await;
        let stream = stream.meter_by(parts(&[(recorded, None); 2]), record);
        let mut stream = stream.base(base);
        if let Some(on_drop) = on_drop {
            stream = stream.on_drop(on_drop);
        }
        assert!(stream.next().await.is_some());
        drop(stream);
        settled(&limiter).await;
        assert_eq!(remaining(&limiter).await, left, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn guard_settles_once_at_the_cost_it_is_told() {
    let limiter = limiter();
    let mut used = guard(&limiter).await.base(10);
    used.add(12);
    assert_eq!(used.estimate(), ESTIMATE);
    let done = used.settle(420).await.unwrap();
    assert_eq!((done.cost(), done.remaining()), (420, 580));

    let mut used = guard(&limiter).await.base(10);
    used.add(12);
    assert_eq!(used.finish().await.unwrap().cost(), 22);
    // Also if nothing was recorded, because it says that this is all.
    assert_eq!(guard(&limiter).await.finish().await.unwrap().cost(), 0);
    assert_eq!(settled(&limiter).await, [420, 22, 0]);

    let receipt = guard(&limiter).await.into_receipt().unwrap();
    assert_eq!(settled(&limiter).await, [420, 22, 0]);
    let left = limiter.refund("alice", receipt).await.unwrap();
    assert_eq!(left.remaining(), 558);
}

const BOTH: [&str; 3] = [
    "requests=sliding-log:60/1h",
    "minute=sliding-log:1000/1h",
    "day=sliding-log:9000/1d",
];

async fn guard_of_both(limiter: &Limiter) -> Guard {
    let call = limiter.check("alice").cost_of("minute", 800);
    let decision = call.cost_of("day", 700).await.unwrap();
    SettleGuard::new(limiter, "alice", decision.into_receipt().unwrap())
}

#[tokio::test(start_paused = true)]
async fn only_the_named_limits_are_settled() {
    let limiter = limiter_of(&BOTH);
    let guard = || guard_of_both(&limiter);
    let named = guard().await.only("minute").only("day").base(300);
    assert_eq!(named.estimate(), 800);
    let stream = named.meter_by(parts(&[(35, None)]), record);
    drop(stream.collect::<Vec<_>>().await);
    settled(&limiter).await;
    assert_eq!(each(&limiter).await, [59, 665, 8_665]);
    limiter.reset("alice").await.unwrap();

    let named = guard().await.only("day");
    assert_eq!(named.estimate(), 700);
    named.settle(5).await.unwrap();
    assert_eq!(each(&limiter).await, [59, 200, 8_995]);
    limiter.reset("alice").await.unwrap();

    // Without names, all limits are settled at the same cost.
    guard().await.settle(5).await.unwrap();
    assert_eq!(each(&limiter).await, [55, 995, 8_995]);
    limiter.reset("alice").await.unwrap();

    // No limit is settled below its own estimate.
    let mut used = guard().await.only("minute").only("day");
    used = used.on_drop(OnDrop::KeepEstimate);
    used.add(750);
    drop(used);
    settled(&limiter).await;
    assert_eq!(each(&limiter).await, [59, 200, 8_250]);
}

#[tokio::test(start_paused = true)]
async fn name_that_no_limit_has_leaves_the_estimate() {
    let limiter = limiter_of(&BOTH);
    let used = guard_of_both(&limiter).await.only("minute").only("token");
    let error = used.finish().await.unwrap_err();
    assert_eq!(error.error().kind(), ErrorKind::Malformed);
    assert_eq!(
        error.to_string(),
        "no limit is called `token`: name one of the limiter's, `requests`, `minute`, `day`"
    );
    assert_eq!(each(&limiter).await, [59, 200, 8_300]);
    let receipt = error.into_receipt().unwrap();
    limiter.refund("alice", receipt).await.unwrap();
    assert_eq!(each(&limiter).await, [60, 1_000, 9_000]);
}

#[test]
fn guard_that_is_dropped_outside_of_its_runtime_is_settled_there() {
    let runtime = paused();
    let (limiter, mut used) = runtime.block_on(async {
        let limiter = limiter();
        let used = guard(&limiter).await;
        (limiter, used)
    });
    used.add(7);
    drop(used);
    assert_eq!(runtime.block_on(settled(&limiter)), [7]);
}
