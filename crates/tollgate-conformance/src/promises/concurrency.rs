//! Promises about many concurrent callers on several threads, at one instant.

use std::sync::Arc;

use tollgate_core::store::{Check, Request, Verdicts};
use tollgate_core::{Limit, Store, Timestamp};

use crate::clock::{at_or_now, takes, wall_clock, whatever_the_clock};
use crate::families::resized;
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
pub async fn admits_exactly_the_bound_under_concurrency(harness: &Stores, plan: &Plan) {
    for limit in supported(harness, plan).await {
        let amount = limit.algorithm().capacity().min(CALLERS / 4);
        let limit = of_amount(&limit, amount);
        for _ in 0..ROUNDS {
            let store = harness.store().await;
            let key = OwnedKey::fresh("alice");
            let costs = vec![1; usize::try_from(CALLERS).unwrap()];
            let mut told_all = at_once(&store, &limit, &key, &costs).await;
            let admitted = told_all.iter().filter(|(.., said)| said.is_allowed());
            let admitted = admitted.count();
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
pub async fn concurrent_calls_are_linearizable(harness: &Stores, plan: &Plan) {
    let costs: Vec<u64> = (0..CALLERS).map(|caller| 1 + caller % 5).collect();
    for limit in supported(harness, plan).await {
        // The answers of denied calls do not reveal their place in the order: where it matters, because
        // they count, too, there is room for all.
        let amount = if limit.algorithm().counts_denied() {
            costs.iter().sum()
        } else {
            CALLERS / 2
        };
        let limit = of_amount(&limit, amount);
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

/// Returns the limits that the store supports, with long windows if it only has its own clock.
async fn supported(harness: &Stores, plan: &Plan) -> Vec<Limit> {
    let store = harness.store().await;
    let key = OwnedKey::fresh("alice");
    let supports = |limit: &&Limit| {
        takes(&*store, limit, wall_clock()) || store.supports(&consume(limit, &key, 1)).is_ok()
    };
    let plan = whatever_the_clock(harness, plan).await;
    plan.limits().iter().filter(supports).cloned().collect()
}

/// Returns `limit` with another amount. A burst of one stays one.
fn of_amount(limit: &Limit, amount: u64) -> Limit {
    let (algorithm, window_us) = (limit.algorithm(), limit.algorithm().quota().window_us());
    resized(limit, amount, window_us, algorithm.capacity().min(amount))
}

pub(super) fn consume<'a>(limit: &'a Limit, key: &'a OwnedKey, cost: u64) -> Request<'a> {
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
