//! Promises about calls that are admitted now and start after a delay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{Limit, Receipt, Timestamp};

use super::composite::{agree_at_its_own_clock_on, agree_on, keys, peek};
use crate::bound::{Admitted, bound, most_within};
use crate::clock::{at_or_now, takes, wall_clock};
use crate::families::resized;
use crate::harness::{OwnedKey, Stores};
use crate::history::{
    Act, Acts, LONGEST, Move, PlannedCheck, Start, Step, costs, moves, reservations, starts,
};
use crate::machine::Machine;
use crate::naive::{self, Starts};
use crate::plan::{Outcome, Plan};
use crate::race::race;
use crate::session::{Session, checks, told};

/// The number of concurrent callers.
const CALLERS: usize = 24;
/// How often each race is run.
const ROUNDS: usize = 4;
/// Longer than any delay of a test.
const LONG: Duration = Duration::from_secs(1_000_000);

/// Every reservation gets the machine's answer: under one limit and several, with cancellations,
/// resets, other calls between them, and a clock that steps back.
pub async fn reservations_agree_with_the_machine(harness: &Stores, plan: &Plan) {
    agree_on(harness, plan, reservations(plan.limits(), 2, Acts::ALL));
}

/// By the store's own clock too, every reservation gets the machine's answer at the instant that
/// the decision reports.
pub async fn reservations_agree_with_the_machine_at_its_own_clock(harness: &Stores, plan: &Plan) {
    agree_at_its_own_clock_on(harness, plan, reservations(plan.limits(), 2, Acts::ALL));
}

/// Every reservation gets the least delay that the definition allows, or is denied for exactly as
/// long as no delay is short enough.
pub async fn reservations_agree_with_the_definition(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let start = prop_oneof![Just(0), 0..=1_000_000_000_u64];
    let history = (start, reservations(limits, 1, Acts::FORWARD));
    plan.check(&history, async |(start, history)| {
        let start = Start(Timestamp::saturating_from_micros(start));
        follows(harness, limits, start, &history).await
    });
}

async fn follows(harness: &Stores, limits: &[Limit], start: Start, history: &[Step]) -> Outcome {
    let Some(mut naive) = Starts::of(limits) else {
        return Ok(());
    };
    let mut session = Session::open(harness, start.0).await;
    let keys = keys();
    for step in history {
        let Some(answers) = session.step(limits, &keys, step).await? else {
            continue;
        };
        let now = session.now.as_micros();
        let verdicts = &answers.store;
        let planned: Vec<_> = step
            .planned
            .iter()
            .zip(verdicts.as_slice())
            .map(|(planned, verdict)| naive::Cost {
                place: (planned.limit, planned.key),
                cost: match step.act {
                    Act::TakeUpTo => verdict.consumed(),
                    _ => planned.cost,
                },
            })
            .collect();
        let most = match step.act {
            Act::Reserve(within) => within,
            _ => 0,
        };
        let delay = naive.delay(now, &planned);
        if matches!(step.act, Act::Reserve(_) | Act::Consume) {
            let defined = match delay.filter(|&delay| delay <= most) {
                Some(delay) => (true, Some(delay), Some(0)),
                None => (false, Some(0), naive.retry_after(now, most, &planned)),
            };
            let answer = (
                verdicts.is_allowed(),
                verdicts.delay().as_micros(),
                verdicts.retry_after().as_micros(),
            );
            session.ensure(answer == defined, || {
                format!("the definition says (allowed, delay, retry_after) = {defined:?}")
            })?;
        }
        if verdicts.is_allowed() && !matches!(step.act, Act::Peek) {
            naive.admit(now, delay.unwrap_or(0), &planned);
        }
    }
    Ok(())
}

/// Whatever is cancelled, refunded or settled, the starts that are kept stay within each limit's bound; also if
/// some calls are made under a burst and others under a larger one.
pub async fn starts_keep_the_bound_whatever_is_cancelled(harness: &Stores, plan: &Plan) {
    let narrow = plan.limits();
    let widened = narrow.iter().map(|limit| {
        let (algorithm, quota) = (limit.algorithm(), limit.algorithm().quota());
        let burst = 4 * algorithm.capacity();
        resized(limit, quota.amount(), quota.window_us(), burst)
    });
    let wide: Vec<_> = widened.collect();
    let history = reservations(&wide, 1, Acts::FORWARD_REFUNDS);
    plan.check(
        &(
            earlier_starts(&wide[0]),
            history,
            vec(any::<bool>(), LONGEST),
        ),
        async |(start, history, are_wide)| {
            let mut session = Session::open(harness, start.0).await;
            let keys = keys();
            let mut kept: Vec<(Vec<PlannedCheck>, Receipt)> = Vec::new();
            // What is left of calls that were settled, and their limits.
            let mut settled: Vec<(usize, Admitted)> = Vec::new();
            for (step, is_wide) in history.iter().zip(are_wide) {
                let limits = if is_wide { &wide } else { narrow };
                session.travel(step.time);
                let operation = match step.act {
                    Act::Refund(index) if !kept.is_empty() => {
                        let (planned, receipt) = kept.remove(index % kept.len());
                        let checks = checks(limits, &keys, &planned);
                        let request = Request::new(Operation::Refund(&receipt), checks);
                        let _ = session.call(&request).await?;
                        continue;
                    }
                    Act::Settle(index) if !kept.is_empty() => {
                        let (mut planned, receipt) = kept.remove(index % kept.len());
                        for (planned, consumed) in planned.iter_mut().zip(receipt.consumed()) {
                            planned.cost = step.planned[0].cost.min(consumed.cost());
                            let (at, amount) = (consumed.at(), planned.cost);
                            settled.push((planned.limit, Admitted { at, amount }));
                        }
                        let checks = checks(limits, &keys, &planned);
                        let request = Request::new(Operation::Settle(&receipt), checks);
                        let _ = session.call(&request).await?;
                        continue;
                    }
                    Act::Reserve(within) => Operation::Reserve {
                        max_delay: Duration::from_micros(within),
                    },
                    _ => Operation::Consume,
                };
                let request = Request::new(operation, checks(limits, &keys, &step.planned));
                let answer = session.call(&request).await?;
                if let Some(receipt) = answer.into_receipt() {
                    kept.push((step.planned.clone(), receipt));
                }
                within_bounds(&session, &wide, &kept, &settled)?;
            }
            // All that is left at the starts to come is taken.
            let receipts = kept.iter().flat_map(|(_, receipt)| receipt.consumed());
            let starts: BTreeSet<_> = receipts.map(|consumed| consumed.at()).collect();
            for start in starts.range(session.now..).copied().collect::<Vec<_>>() {
                session.travel(Move::Forward(start.as_micros() - session.now.as_micros()));
                for limit in 0..wide.len() {
                    let planned = vec![PlannedCheck {
                        limit,
                        key: 0,
                        cost: u64::MAX,
                    }];
                    let request = Request::new(Operation::TakeUpTo, checks(&wide, &keys, &planned));
                    let receipt = session.call(&request).await?.into_receipt();
                    kept.extend(receipt.map(|receipt| (planned, receipt)));
                }
            }
            within_bounds(&session, &wide, &kept, &settled)
        },
    );
}

/// Fails if a span holds more starts than its limit may admit.
fn within_bounds(
    session: &Session,
    limits: &[Limit],
    kept: &[(Vec<PlannedCheck>, Receipt)],
    settled: &[(usize, Admitted)],
) -> Outcome {
    let mut admitted: BTreeMap<usize, Vec<Admitted>> = BTreeMap::new();
    for &(limit, left) in settled {
        admitted.entry(limit).or_default().push(left);
    }
    for (planned, receipt) in kept {
        for (planned, consumed) in planned.iter().zip(receipt.consumed()) {
            admitted.entry(planned.limit).or_default().push(Admitted {
                at: consumed.at(),
                amount: consumed.cost(),
            });
        }
    }
    for (index, starts) in admitted {
        let limit = &limits[index];
        // The span from each start to just after each later one.
        for from in &starts {
            for to in starts.iter().filter(|to| to.at >= from.at) {
                let span = to.at.as_micros() - from.at.as_micros() + 1;
                let (most, bound) = (most_within(&starts, span), bound(limit, span));
                session.ensure(most <= bound, || {
                    format!("{limit}: {most} start within {span} µs, where at most {bound} may")
                })?;
            }
        }
    }
    Ok(())
}

/// A reservation beyond its longest delay changes nothing, and is accepted after exactly its
/// `retry_after`.
pub async fn refused_reservations_change_nothing(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let costs: Vec<_> = limits
        .iter()
        .map(|limit| 1..=limit.algorithm().capacity().min(5))
        .collect();
    let history = reservations(limits, 1, Acts::ALL);
    let values = (starts(&limits[0]), history, costs, 0..1_000_000_u64);
    plan.check(&values, async |(start, history, costs, part)| {
        let mut session = Session::open(harness, start.0).await;
        let keys = keys();
        session.play(limits, &keys, &history).await?;
        let planned: Vec<_> = (0..limits.len())
            .map(|limit| PlannedCheck {
                limit,
                key: 0,
                cost: costs[limit],
            })
            .collect();
        let longest = LONG.as_micros();
        // Reserve until the next one has to wait.
        let mut full = reserve(&mut session, limits, &keys, &planned, longest).await?;
        for _ in 0..20 {
            if !full.delay().is_zero() || full.is_denied() {
                break;
            }
            full = reserve(&mut session, limits, &keys, &planned, longest).await?;
        }
        let Some(delay) = full.delay().as_micros().filter(|&delay| delay > 0) else {
            return Ok(());
        };
        let within = u128::from(delay) * u128::from(part) / 1_000_000;
        let before = peek(&mut session, limits, &keys, &planned).await?;
        let denied = reserve(&mut session, limits, &keys, &planned, within).await?;
        let after = peek(&mut session, limits, &keys, &planned).await?;
        session.ensure(
            denied.is_denied() && denied.delay().is_zero() && denied.consumed() == 0,
            || format!("the delay is at least {delay} µs, and {within} µs were accepted"),
        )?;
        session.ensure(before == after, || {
            "a refused reservation changed something".to_owned()
        })?;
        let Some(wait) = denied.retry_after().as_micros().filter(|&wait| wait > 0) else {
            return Err(session.failure("neither allowed nor given a wait"));
        };
        session.wait(wait - 1)?;
        let early = reserve(&mut session, limits, &keys, &planned, within).await?;
        session.wait(1)?;
        let late = reserve(&mut session, limits, &keys, &planned, within).await?;
        session.ensure(early.is_denied() && late.is_allowed(), || {
            format!("not accepted after exactly {wait} µs")
        })?;
        let within = u64::try_from(within).unwrap();
        session.ensure(late.delay().as_micros() == Some(within), || {
            "the first that is accepted waits as long as it may".to_owned()
        })
    });
}

/// Reservations that are cancelled in the opposite order, before they start, leave what would be
/// there without them.
pub async fn cancelling_the_last_reservation_undoes_it(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let cost = |limit: &Limit| prop_oneof![Just(1), costs(limit)];
    let all: Vec<_> = limits.iter().map(cost).collect();
    let moves = Union::new(limits.iter().map(|limit| moves(limit, false).boxed()));
    let reserved = vec(all, 1..4);
    let values = (
        earlier_starts(&limits[0]),
        reservations(limits, 1, Acts::FORWARD),
        (reserved, moves),
    );
    plan.check(&values, async |(start, history, (reserved, later))| {
        let mut session = Session::open(harness, start.0).await;
        // The keys of one partition are planned at the same instants.
        let [alice, bob] = keys();
        for step in &history {
            let mut step = step.clone();
            if matches!(step.act, Act::Refund(_) | Act::Settle(_) | Act::Reset) {
                continue;
            }
            for key in [&alice, &bob] {
                let keys = std::slice::from_ref(key);
                session.step(limits, keys, &step).await?;
                step.time = Move::Stay;
            }
        }
        let keys = [alice, bob];
        let mut receipts = Vec::new();
        for costs in &reserved {
            let planned = all_at(0, costs, limits);
            let answer = reserve(&mut session, limits, &keys, &planned, LONG.as_micros()).await?;
            // What starts at once is refunded as any other call.
            if answer.delay().is_zero() {
                if answer.is_allowed() {
                    // It counts for fewer limits than the reservations before it, which are then
                    // no longer the last.
                    if !receipts.is_empty() {
                        return Ok(());
                    }
                    let other = all_at(1, costs, limits);
                    let _ = reserve(&mut session, limits, &keys, &other, LONG.as_micros()).await?;
                }
                continue;
            }
            receipts.extend(answer.into_receipt().map(|receipt| (planned, receipt)));
        }
        let earliest = receipts
            .iter()
            .flat_map(|(_, receipt)| receipt.consumed())
            .filter(|consumed| consumed.cost() > 0)
            .map(|consumed| consumed.at())
            .min();
        let now = session.now.as_micros();
        let until = earliest.map_or(now, |start| start.as_micros());
        if let Move::Forward(micros) = later
            && now.saturating_add(micros) < until
        {
            session.travel(later);
        }
        while let Some((planned, receipt)) = receipts.pop() {
            let checks = checks(limits, &keys, &planned);
            let request = Request::new(Operation::Refund(&receipt), checks);
            let _ = session.call(&request).await?;
        }
        for costs in &reserved {
            for within in [0, LONG.as_micros()] {
                let mut both = Vec::new();
                for key in 0..2 {
                    let planned = all_at(key, costs, limits);
                    both.push(reserve(&mut session, limits, &keys, &planned, within).await?);
                }
                session.ensure(both[0] == both[1], || {
                    "what was cancelled has left something".to_owned()
                })?;
            }
        }
        Ok(())
    });
}

/// Concurrent reservations get the starts of some sequential order, spaced as the limit demands.
pub async fn concurrent_reservations_have_an_order(harness: &Stores, plan: &Plan) {
    for limit in plan.limits() {
        let quota = limit.algorithm().quota();
        if quota.amount() > quota.window_us() {
            // A unit leaks within a microsecond, so two answers need not show which came first.
            continue;
        }
        for _ in 0..ROUNDS {
            race_for_starts(harness, limit).await;
        }
    }
}

async fn race_for_starts(harness: &Stores, limit: &Limit) {
    let store = harness.store().await;
    let key = OwnedKey::fresh("alice");
    let now = wall_clock();
    let given = takes(&*store, limit, now).then_some(now);
    let probe = at_or_now(
        Request::reserve(Check::new(limit, key.key(), 1), LONG),
        given,
    );
    if store.supports(&probe).is_err() {
        return;
    }
    let answers = race(CALLERS, |_| {
        let (limit, store, key) = (limit.clone(), Arc::clone(&store), key.clone());
        async move {
            let check = Check::new(&limit, key.key(), 1);
            let request = at_or_now(Request::reserve(check, LONG), given);
            let answer = store.decide(request).await;
            let answer = answer.unwrap_or_else(|error| panic!("{limit}: {error:?}"));
            let decided_at = answer.as_slice()[0].decided_at();
            (given.unwrap_or(decided_at), answer)
        }
    });
    let mut answers = answers.await;
    // Each reservation leaves a longer way to an empty state than the one before.
    let emptied = |(now, answer): &(Timestamp, Verdicts)| {
        now.as_micros() + answer.reset_after().as_micros().unwrap()
    };
    answers.sort_by_key(|answer| (emptied(answer), answer.0));
    let mut machine = Machine::default();
    let mut last = 0;
    for (now, answer) in &answers {
        let request = Request::reserve(Check::new(limit, key.key(), 1), LONG);
        let expected = machine.answer(&request, *now);
        assert!(
            expected == *answer,
            "{limit}: one after another, none would have been told\n  {}",
            told(answer)
        );
        let start = now.as_micros() + answer.delay().as_micros().unwrap();
        assert!(start >= last, "{limit}: a start before an earlier one");
        last = start;
    }
}

/// Returns start instants that are far from the last one: a call that starts after that has none.
fn earlier_starts(limit: &Limit) -> impl Strategy<Value = Start> + use<> {
    let half = Timestamp::saturating_from_micros(Timestamp::MAX.as_micros() / 2);
    starts(limit).prop_map(move |start| Start(start.0.min(half)))
}

/// Returns a check of every limit for the key at this index.
fn all_at(key: usize, costs: &[u64], limits: &[Limit]) -> Vec<PlannedCheck> {
    let limits = limits.iter().zip(costs).enumerate();
    limits
        .map(|(limit, (of, cost))| PlannedCheck {
            limit,
            key,
            cost: (*cost).min(of.algorithm().capacity()),
        })
        .collect()
}

async fn reserve(
    session: &mut Session,
    limits: &[Limit],
    keys: &[OwnedKey],
    planned: &[PlannedCheck],
    within_us: u128,
) -> Outcome<Verdicts> {
    let max_delay = Duration::from_micros(u64::try_from(within_us).unwrap_or(u64::MAX));
    let operation = Operation::Reserve { max_delay };
    let request = Request::new(operation, checks(limits, keys, planned));
    session.call(&request).await
}
