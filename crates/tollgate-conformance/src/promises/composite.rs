//! Promises about requests with several limits.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::task::JoinSet;
use tollgate_core::Limit;
use tollgate_core::store::{Check, Operation, Request, Verdicts};

use crate::clock::wall_clock;
use crate::harness::{OwnedKey, Stores, fresh_key};
use crate::history::{Act, Acts, Move, PlannedCheck, Step, composites, costs, starts};
use crate::plan::{Outcome, Plan};
use crate::session::{Session, checks};

/// How many crossing requests each round makes, and how many rounds there are.
const CALLS: usize = 100;
const ROUNDS: usize = 4;

/// Returns keys of the same partition, which every store can decide together.
pub(super) fn keys() -> [OwnedKey; 2] {
    let partition = fresh_key("tenant");
    [
        OwnedKey::of(partition.clone(), "/a"),
        OwnedKey::of(partition, "/b"),
    ]
}

/// Every decision on several limits equals the machine's, all-or-nothing.
pub async fn composites_agree_with_the_machine(harness: &Stores, plan: &Plan) {
    agree_on(harness, plan, composites(plan.limits(), 2, Acts::ALL));
}

/// Checks that the store agrees with the machines on `histories` of all limits.
pub(super) fn agree_on(harness: &Stores, plan: &Plan, histories: impl Strategy<Value = Vec<Step>>) {
    let limits = plan.limits();
    plan.check(
        &(starts(&limits[0]), histories),
        async |(start, history)| {
            let mut session = Session::open(harness, start.0).await;
            session
                .play_as_the_machines(limits, &keys(), &history)
                .await
        },
    );
}

/// The same, by the store's own clock.
pub(super) fn agree_at_its_own_clock_on(
    harness: &Stores,
    plan: &Plan,
    histories: impl Strategy<Value = Vec<Step>>,
) {
    plan.check(&histories, async |history| {
        let mut session = Session::open_by_its_own_clock(harness).await;
        session
            .play_as_the_machines(plan.limits(), &keys(), &history)
            .await
    });
}

/// If one limit denies, nothing is consumed from any of them, and each still allows what it did
/// before.
pub async fn is_all_or_nothing(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let history = composites(limits, 2, Acts::CALLS);
    plan.check(&(starts(&limits[0]), history), async |(start, history)| {
        let mut session = Session::open(harness, start.0).await;
        let keys = keys();
        for step in &history {
            session.travel(step.time);
            let mut before = Vec::new();
            for planned in &step.planned {
                before.push(look(&mut session, limits, &keys, planned).await?);
            }
            let mut step = step.clone();
            step.time = Move::Stay;
            let Some(answers) = session.step(limits, &keys, &step).await? else {
                continue;
            };
            for (index, planned) in step.planned.iter().enumerate() {
                let after = look(&mut session, limits, &keys, planned).await?;
                let verdict = answers.store.as_slice()[index];
                let counts = limits[planned.limit].algorithm().counts_denied();
                let consumed = match step.act {
                    Act::Consume if answers.store.is_allowed() => planned.cost,
                    Act::TakeUpTo => answers.store.consumed(),
                    _ => 0,
                };
                session.ensure(
                    verdict.consumed() == consumed
                        && (after.remaining() == before[index].remaining() - consumed || counts)
                        && (consumed > 0 || counts || after == before[index]),
                    || format!("check {index} should consume {consumed}"),
                )?;
            }
        }
        Ok(())
    });
}

/// A denied request waits as long as its slowest limit, and is then allowed.
///
/// An allowed request leaves the least that any of its limits leaves. The order of the limits does
/// not matter.
pub async fn waits_for_the_slowest_limit(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let history = composites(limits, 2, Acts::FORWARD);
    let costs: Vec<_> = limits
        .iter()
        .map(|limit| prop_oneof![costs(limit), Just(limit.algorithm().capacity())])
        .collect();
    plan.check(
        &(starts(&limits[0]), history, costs),
        async |(start, history, costs)| {
            let mut session = Session::open(harness, start.0).await;
            let keys = keys();
            session.play(limits, &keys, &history).await?;
            let mut planned: Vec<_> = (0..limits.len())
                .map(|limit| PlannedCheck {
                    limit,
                    key: limit % 2,
                    cost: costs[limit].min(limits[limit].algorithm().capacity()),
                })
                .collect();
            // Consume something from each limit, so that a call for its whole capacity has to wait.
            for one in &planned {
                let check = Check::new(&limits[one.limit], keys[one.key].key(), 1);
                let _ = session.call(&Request::consume(check)).await?;
            }
            let seen = peek(&mut session, limits, &keys, &planned).await?;
            planned.reverse();
            let reversed = peek(&mut session, limits, &keys, &planned).await?;
            session.ensure(
                seen.as_slice().iter().eq(reversed.as_slice().iter().rev()),
                || "with the limits in reverse order, the verdicts differ".to_owned(),
            )?;
            let waits = seen.as_slice().iter().map(|verdict| verdict.retry_after());
            let slowest = waits.max().unwrap_or_default();
            session.ensure(
                seen.retry_after() == slowest && seen.is_allowed() == slowest.is_zero(),
                || format!("the slowest limit waits {slowest}"),
            )?;
            let Some(wait) = slowest.as_micros().filter(|&wait| wait > 0) else {
                return Ok(());
            };
            session.wait(wait - 1)?;
            let early = peek(&mut session, limits, &keys, &planned).await?;
            session.wait(1)?;
            let request = Request::new(Operation::Consume, checks(limits, &keys, &planned));
            let late = session.call(&request).await?;
            let consumed = late.as_slice().iter().map(|verdict| verdict.consumed());
            session.ensure(
                early.is_denied() && consumed.eq(planned.iter().map(|planned| planned.cost)),
                || format!("not allowed after exactly {wait} µs"),
            )
        },
    );
}

/// Requests that name the same limits in opposite orders all complete, and admit exactly what fits.
pub async fn crossing_requests_do_not_deadlock(harness: &Stores, plan: &Plan) {
    let limit = plan.limits()[0].clone();
    for _ in 0..ROUNDS {
        cross(harness, &limit).await;
    }
}

async fn cross(harness: &Stores, limit: &Limit) {
    let store = harness.store().await;
    let [a, b] = keys();
    let now = wall_clock();
    let probe = Request::consume(Check::new(limit, a.key(), 1));
    let probe = probe.and(Check::new(limit, b.key(), 1)).at(now);
    if store.supports(&probe).is_err() {
        return;
    }
    let mut callers = JoinSet::new();
    for call in 0..CALLS {
        let (store, limit) = (Arc::clone(&store), limit.clone());
        let (first, second) = if call % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let (first, second) = (first.clone(), second.clone());
        callers.spawn(async move {
            let request = Request::consume(Check::new(&limit, first.key(), 1));
            let request = request.and(Check::new(&limit, second.key(), 1)).at(now);
            let decision = store.decide(request).await;
            let decision = decision.unwrap_or_else(|error| panic!("{limit}: {error:?}"));
            u64::from(decision.is_allowed())
        });
    }
    let ended = tokio::time::timeout(Duration::from_secs(30), callers.join_all()).await;
    let admitted = ended.map(|admitted| admitted.into_iter().sum::<u64>());
    let capacity = limit.algorithm().capacity();
    assert!(
        admitted == Ok(capacity),
        "{limit}: of requests that cross, {admitted:?} were admitted, where {capacity} fit"
    );
}

pub(super) async fn peek(
    session: &mut Session,
    limits: &[Limit],
    keys: &[OwnedKey],
    planned: &[PlannedCheck],
) -> Outcome<Verdicts> {
    let request = Request::new(Operation::Peek, checks(limits, keys, planned));
    session.call(&request).await
}

/// Peeks at one limit alone.
async fn look(
    session: &mut Session,
    limits: &[Limit],
    keys: &[OwnedKey],
    planned: &PlannedCheck,
) -> Outcome<Verdicts> {
    let check = Check::new(&limits[planned.limit], keys[planned.key].key(), 0);
    session.call(&Request::peek(check)).await
}
