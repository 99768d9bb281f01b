//! The promise about callers who want more than fits, while time passes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Limit, Store};

use super::concurrency::consume;
use crate::bound::{Admitted, bound, most_within};
use crate::families::resized;
use crate::harness::{OwnedKey, Stores};
use crate::machine::Machine;
use crate::plan::Plan;

/// The concurrent callers of each limit.
const CALLERS: usize = 8;
/// The fewest calls that each of them makes, however slow the machine is: together, several times
/// what fits.
const LEAST_CALLS: usize = 10;
const AMOUNT: u64 = 20;
const WINDOW: Duration = Duration::from_millis(80);
const WINDOWS: u32 = 5;

/// A call by the store's own clock.
#[derive(Clone, Copy, Debug)]
struct Timed {
    /// When it was made and answered, by this process's clock.
    began: Instant,
    ended: Instant,
    /// What was admitted, and when, by the store's clock.
    admitted: Admitted,
}

/// By the store's own clock and with more demand than fits, no span holds more than the bound. The
/// clock goes on, and at least half of what fits at the instants of the calls is admitted.
///
/// Nothing depends on how fast the machine is: if calls are late, their instants are late, too.
pub async fn keeps_its_rate_in_real_time(harness: &Stores, plan: &Plan) {
    let mut runs = Vec::new();
    for limit in plan.limits() {
        let window_us = u64::try_from(WINDOW.as_micros()).unwrap();
        let burst = limit.algorithm().capacity().min(AMOUNT);
        let limit = resized(limit, AMOUNT, window_us, burst);
        let store = harness.store().await;
        if store
            .supports(&consume(&limit, &OwnedKey::fresh("alice"), 1))
            .is_ok()
        {
            runs.push((limit, store, OwnedKey::fresh("alice")));
        }
    }
    let until = Instant::now() + WINDOW * WINDOWS;
    let mut callers = JoinSet::new();
    for (index, (limit, store, key)) in runs.iter().enumerate() {
        for _ in 0..CALLERS {
            let (limit, store, key) = (limit.clone(), Arc::clone(store), key.clone());
            callers.spawn(async move { (index, call_until(until, &limit, &store, &key).await) });
        }
    }
    let made = callers.join_all().await;
    for (index, (limit, ..)) in runs.iter().enumerate() {
        let of_this = made.iter().filter(|(of, _)| *of == index);
        let calls: Vec<Timed> = of_this.flat_map(|(_, calls)| calls).copied().collect();
        keeps_the_bound(limit, &calls);
        is_timed_by_a_clock(limit, &calls);
        admits_half_of_what_fits(limit, &calls);
    }
}

/// Calls again and again until this instant.
async fn call_until(
    until: Instant,
    limit: &Limit,
    store: &Arc<dyn Store>,
    key: &OwnedKey,
) -> Vec<Timed> {
    let mut calls = Vec::new();
    while calls.len() < LEAST_CALLS || Instant::now() < until {
        let began = Instant::now();
        let decided = store.decide(consume(limit, key, 1)).await;
        let decided = decided.unwrap_or_else(|error| panic!("{limit}: {error:?}"));
        calls.push(Timed {
            began,
            ended: Instant::now(),
            admitted: Admitted::by(&decided.as_slice()[0]),
        });
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    calls
}

fn keeps_the_bound(limit: &Limit, calls: &[Timed]) {
    let admitted: Vec<_> = calls.iter().map(|call| call.admitted).collect();
    let window_us = limit.algorithm().quota().window_us();
    for span in [window_us / 4, window_us, window_us * 2] {
        let (most, bound) = (most_within(&admitted, span), bound(limit, span));
        assert!(
            most <= bound,
            "{limit}: {most} were admitted within {span} µs, where at most {bound} may be"
        );
    }
}

/// Fails if the store's clock takes less than half of the time that passes here between the answer
/// to its first call and the last one.
fn is_timed_by_a_clock(limit: &Limit, calls: &[Timed]) {
    let at = |call: &&Timed| call.admitted.at;
    let (first, last) = (calls.iter().min_by_key(at), calls.iter().max_by_key(at));
    let (first, last) = (first.unwrap(), last.unwrap());
    let passed = last.began.saturating_duration_since(first.ended);
    let told = at(&last).saturating_duration_since(at(&first));
    assert!(
        2 * told >= passed,
        "{limit}: {told:?} passed by the store's clock, and {passed:?} in fact"
    );
}

fn admits_half_of_what_fits(limit: &Limit, calls: &[Timed]) {
    let mut instants: Vec<_> = calls.iter().map(|call| call.admitted.at).collect();
    instants.sort_unstable();
    // What is admitted if the same calls are decided one after another.
    let (mut machine, key) = (Machine::default(), OwnedKey::fresh("alice"));
    let mut decide = |at| machine.answer(&consume(limit, &key, 1), at).is_allowed();
    let fits = instants.into_iter().filter(|at| decide(*at)).count();
    let fits = u64::try_from(fits).unwrap();
    let total: u64 = calls.iter().map(|call| call.admitted.amount).sum();
    assert!(
        2 * total >= fits,
        "{limit}: only {total} were admitted, where {fits} fit"
    );
}
