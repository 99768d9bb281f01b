//! Promises about many concurrent callers on several threads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Check, Limit, Request, Store, Timestamp, Verdicts};

use super::change::{limit_of, with_quota};
use crate::bound::{Admitted, bound, most_within};
use crate::clock::{at_or_now, takes, wall_clock, whatever_the_clock};
use crate::harness::{OwnedKey, Stores};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::race::race;
use crate::session::told;

/// The number of concurrent callers.
const CALLERS: u64 = 32;
/// How often each race is run, since lost updates only show by chance.
const ROUNDS: usize = 8;

/// Of many concurrent calls, all at one instant if the store takes instants, exactly as many are
/// admitted as fit.
///
/// They get the same answers as the same calls made one after another.
///
/// # Panics
///
/// When the promise is broken.
pub async fn admits_exactly_the_bound_under_concurrency(harness: &Stores, plan: &Plan) {
    for limit in supported(harness, plan).await {
        let amount = limit.algorithm().capacity().min(CALLERS / 4);
        let limit = resized(&limit, amount, limit.algorithm().quota().window_us());
        for _ in 0..ROUNDS {
            let store = harness.store().await;
            let key = OwnedKey::fresh("alice");
            let costs = vec![1; usize::try_from(CALLERS).unwrap()];
            let mut told_all = at_once(&store, &limit, &key, &costs).await;
            let admitted = told_all
                .iter()
                .filter(|(.., said)| said.is_allowed())
                .count();
            let capacity = limit.algorithm().capacity();
            assert!(
                u64::try_from(admitted).unwrap() == capacity,
                "{limit}: {admitted} of {CALLERS} concurrent calls were admitted, where {capacity} fit"
            );
            let mut machine = Machine::default();
            // At one instant, each admitted call leaves less than the one before, and denials come
            // last.
            told_all.sort_unstable_by_key(|(now, _, said)| {
                (*now, std::cmp::Reverse(said.remaining()), said.is_denied())
            });
            for (now, cost, said) in &told_all {
                let expected = machine.answer(&consume(&limit, &key, *cost), *now);
                assert!(
                    expected == *said,
                    "{limit}: no order of the calls gives the answer\n  {}",
                    told(said)
                );
            }
        }
    }
}

/// Concurrent calls of different costs get the answers of some sequential order.
///
/// # Panics
///
/// When the promise is broken.
pub async fn concurrent_calls_are_linearizable(harness: &Stores, plan: &Plan) {
    let costs: Vec<u64> = (0..CALLERS).map(|caller| 1 + caller % 5).collect();
    for limit in supported(harness, plan).await {
        if limit.algorithm().counts_denied() {
            // Denied calls would also have a place in the order, which their answers do not reveal.
            continue;
        }
        let limit = resized(&limit, CALLERS / 2, limit.algorithm().quota().window_us());
        for _ in 0..ROUNDS {
            let store = harness.store().await;
            let key = OwnedKey::fresh("alice");
            let mut said = at_once(&store, &limit, &key, &costs).await;
            // At one instant, each admitted call leaves less than the one before, which gives their
            // order.
            said.sort_unstable_by_key(|(now, _, said)| (*now, std::cmp::Reverse(said.remaining())));
            let (admitted, denied): (Vec<_>, Vec<_>) =
                said.into_iter().partition(|(.., said)| said.is_allowed());
            let mut machine = Machine::default();
            // Check each denied call's answer before, between and after the admitted calls.
            let mut explained = vec![false; denied.len()];
            let explain = |machine: &mut Machine, explained: &mut Vec<bool>| {
                for ((now, cost, said), explained) in denied.iter().zip(explained) {
                    let request = Request::peek(Check::new(&limit, key.key(), *cost));
                    *explained |= machine.answer(&request, *now) == *said;
                }
            };
            explain(&mut machine, &mut explained);
            for (now, cost, said) in &admitted {
                let expected = machine.answer(&consume(&limit, &key, *cost), *now);
                assert!(
                    expected == *said,
                    "{limit}: in order of what remained, a call of {cost} got\n  {}\ninstead of\n  {}",
                    told(said),
                    told(&expected)
                );
                explain(&mut machine, &mut explained);
            }
            for ((_, cost, said), explained) in denied.iter().zip(explained) {
                assert!(
                    explained,
                    "{limit}: no order of the calls gives a call of {cost} the answer\n  {}",
                    told(said)
                );
            }
        }
    }
}

/// By the store's own clock and with more demand than fits, no span holds more than the bound. The
/// clock goes on, and at least half of what fits at the instants of the calls is admitted.
///
/// # Panics
///
/// When the promise is broken.
pub async fn keeps_its_rate_in_real_time(harness: &Stores, plan: &Plan) {
    // If the machine is busy with something else, all calls of a round may come late. A store that
    // admits too little does so in every round.
    const ROUNDS: u32 = 4;
    for _ in 1..ROUNDS {
        if admitted_too_little(harness, plan).await.is_none() {
            return;
        }
    }
    let complaint = admitted_too_little(harness, plan).await;
    assert!(complaint.is_none(), "{}", complaint.unwrap_or_default());
}

/// Makes calls for five windows, and fails if any span holds more than the bound. Returns a
/// complaint if the clock stood still, or too few calls were admitted.
async fn admitted_too_little(harness: &Stores, plan: &Plan) -> Option<String> {
    const AMOUNT: u64 = 20;
    const WINDOW: Duration = Duration::from_millis(80);
    const WINDOWS: u32 = 5;
    let mut runs = Vec::new();
    for limit in plan.limits() {
        let window_us = u64::try_from(WINDOW.as_micros()).unwrap();
        let limit = resized(limit, AMOUNT, window_us);
        let store = harness.store().await;
        if store.supports(&consume(&limit, &OwnedKey::fresh("alice"), 1)) {
            runs.push((limit, store, OwnedKey::fresh("alice")));
        }
    }
    let until = Instant::now() + WINDOW * WINDOWS;
    let mut callers = JoinSet::new();
    for (index, (limit, store, key)) in runs.iter().enumerate() {
        for _ in 0..CALLERS / 4 {
            let (limit, store, key) = (limit.clone(), Arc::clone(store), key.clone());
            callers.spawn(async move {
                let mut admitted = Vec::new();
                while Instant::now() < until {
                    let decision = store.decide(consume(&limit, &key, 1)).await;
                    let decision = decision.unwrap_or_else(|error| panic!("{limit}: {error:?}"));
                    admitted.push((index, Admitted::by(&decision.as_slice()[0])));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                admitted
            });
        }
    }
    let calls: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    for (index, (limit, ..)) in runs.iter().enumerate() {
        let of_this = calls
            .iter()
            .filter(|(of, call)| *of == index && call.amount > 0);
        let admitted: Vec<_> = of_this.map(|(_, call)| *call).collect();
        let window_us = limit.algorithm().quota().window_us();
        for span in [window_us / 4, window_us, window_us * 2] {
            let (most, bound) = (most_within(&admitted, span), bound(limit, span));
            assert!(
                most <= bound,
                "{limit}: {most} were admitted within {span} us, where at most {bound} may be"
            );
        }
        let of_this = calls.iter().filter(|(of, _)| *of == index);
        let mut instants: Vec<_> = of_this.map(|(_, call)| call.at).collect();
        instants.sort_unstable();
        let span = instants[instants.len() - 1].saturating_duration_since(instants[0]);
        if span < WINDOW * WINDOWS / 2 {
            return Some(format!(
                "{limit}: calls of {WINDOWS} windows of {WINDOW:?} were decided within {span:?}"
            ));
        }
        // What is admitted if the same calls are decided one after another.
        let (mut machine, key) = (Machine::default(), OwnedKey::fresh("alice"));
        let fits = |at: &Timestamp| machine.answer(&consume(limit, &key, 1), *at).is_allowed();
        let least = instants.into_iter().filter(fits).count() as u64 / 2;
        let total: u64 = admitted.iter().map(|call| call.amount).sum();
        if total < least {
            return Some(format!(
                "{limit}: only {total} were admitted in {WINDOWS} windows, where at least {least} \
                 should be"
            ));
        }
    }
    None
}

/// Returns the limits that the store supports, with long windows if it only has its own clock.
async fn supported(harness: &Stores, plan: &Plan) -> Vec<Limit> {
    let store = harness.store().await;
    let key = OwnedKey::fresh("alice");
    let supports = |limit: &&Limit| {
        takes(&*store, limit, wall_clock()) || store.supports(&consume(limit, &key, 1))
    };
    let plan = whatever_the_clock(harness, plan).await;
    plan.limits().iter().filter(supports).cloned().collect()
}

/// Returns `limit` with another amount and window. A burst of one stays one.
fn resized(limit: &Limit, amount: u64, window_us: u64) -> Limit {
    let burst = limit.algorithm().capacity().min(amount);
    limit_of(
        limit,
        with_quota(limit.algorithm(), amount, window_us, burst),
    )
}

fn consume<'a>(limit: &'a Limit, key: &'a OwnedKey, cost: u64) -> Request<'a> {
    Request::consume(Check::new(limit, key.key(), cost))
}

/// Makes one call per cost, all at once, and returns for each its instant, its cost and its answer.
async fn at_once(
    store: &Arc<dyn Store>,
    limit: &Limit,
    key: &OwnedKey,
    costs: &[u64],
) -> Vec<(Timestamp, u64, Verdicts)> {
    let now = wall_clock();
    let given = takes(&**store, limit, now).then_some(now);
    race(costs.len(), |caller| {
        let (limit, store, key) = (limit.clone(), Arc::clone(store), key.clone());
        let cost = costs[caller];
        async move {
            let request = at_or_now(consume(&limit, &key, cost), given);
            let decision = store.decide(request).await;
            let decision = decision.unwrap_or_else(|error| panic!("{limit}: {error:?}"));
            let now = given.unwrap_or_else(|| decision.as_slice()[0].decided_at());
            (now, cost, decision)
        }
    })
    .await
}
