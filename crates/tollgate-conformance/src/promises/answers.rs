//! Promises about answers: what remains, and which calls are allowed.

use proptest::strategy::Strategy;
use tollgate_core::{Limit, Timestamp};

use crate::clock::whatever_the_clock;
use crate::harness::Stores;
use crate::history::{Act, Acts, costs, histories, moves};
use crate::plan::Plan;
use crate::scene::ALICE;

/// A call is allowed exactly if its cost is at most what a peek says remains.
///
/// Its wait is zero exactly if it is allowed, and "never" exactly if its cost exceeds the capacity.
pub async fn allows_exactly_what_remains(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| (histories(limit, 1, Acts::ALL), costs(limit));
    plan.in_scenes(harness, values, async |mut scene, (mut history, cost)| {
        if scene.session.by_its_own_clock {
            // A refund leaves out what has leaked since the call, which a moment later may add
            // up to a unit.
            history.retain(|step| !matches!(step.act, Act::Refund(_) | Act::Settle(_)));
        }
        scene.play(&history).await?;
        let left = scene.peek(ALICE, 0).await?;
        let remaining = left.remaining();
        let capacity = scene.limit.algorithm().capacity();
        scene.ensure(
            left.is_allowed() && left.capacity() == capacity && remaining <= capacity,
            || format!("a peek of a limit of {capacity} is wrong"),
        )?;
        let beside = [remaining.saturating_add(1), remaining, cost];
        for cost in beside {
            let seen = scene.peek(ALICE, cost).await?;
            let expected = cost <= remaining;
            let wait = seen.retry_after();
            scene.ensure(
                seen.is_allowed() == expected
                    && wait.is_zero() == expected
                    && wait.is_never() == (cost > capacity),
                || format!("{remaining} of {capacity} remain, which contradicts the answer to a cost of {cost}"),
            )?;
        }
        let consumed = scene.consume(ALICE, cost).await?;
        scene.ensure(consumed.is_allowed() == (cost <= remaining), || {
            format!("{remaining} remained, which contradicts the answer to a cost of {cost}")
        })
    });
}

/// An allowed call takes exactly its cost from what remains; a denied call consumes nothing.
pub async fn takes_exactly_the_cost(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| (histories(limit, 1, Acts::CALLS), costs(limit));
    plan.in_scenes(harness, values, async |mut scene, (history, cost)| {
        scene.play(&history).await?;
        let before = scene.peek(ALICE, 0).await?.remaining();
        let verdict = scene.consume(ALICE, cost).await?;
        let consumed = if verdict.is_allowed() { cost } else { 0 };
        scene.ensure(verdict.consumed() == consumed, || {
            format!("consumed other than {consumed}")
        })?;
        let after = scene.peek(ALICE, 0).await?.remaining();
        if !verdict.is_allowed() && scene.limit.algorithm().counts_denied() {
            return Ok(());
        }
        let expected = before.saturating_sub(consumed);
        scene.ensure(after == expected && verdict.remaining() == expected, || {
            format!("{before} remained, {consumed} was taken, so {expected} should remain")
        })
    });
}

/// If a call is allowed at some cost, it is allowed at any smaller cost; smaller costs never wait
/// longer.
pub async fn smaller_costs_wait_no_longer(harness: &Stores, plan: &Plan) {
    let values = |limit: &Limit| {
        let history = histories(limit, 1, Acts::ALL);
        let costs = proptest::collection::vec(costs(limit), 2..=8).prop_map(|mut costs| {
            costs.sort_unstable();
            costs
        });
        (history, costs)
    };
    plan.in_scenes(harness, values, async |mut scene, (history, costs)| {
        scene.play(&history).await?;
        let mut earliest = None;
        for cost in costs {
            let wait = scene.peek(ALICE, cost).await?.retry_after();
            // The store's own clock may advance between peeks, so compare when the waits end.
            let now = scene.session.now;
            let until = wait.duration().map(|wait| now.saturating_add(wait));
            let end = (until.is_none(), until);
            scene.ensure(Some(end) >= earliest, || {
                format!("a smaller cost waits longer than {cost}, which waits {wait}")
            })?;
            earliest = Some(end);
        }
        Ok(())
    });
}

/// Without calls, what remains never falls, and `reset_after` never moves to a later instant.
pub async fn time_only_gives_back(harness: &Stores, plan: &Plan) {
    let values = |limit: &Limit| {
        let history = histories(limit, 1, Acts::ALL);
        let moves = proptest::collection::vec(moves(limit, false), 1..=10);
        (history, moves)
    };
    plan.in_scenes(harness, values, async |mut scene, (history, moves)| {
        scene.play(&history).await?;
        let mut before = scene.peek(ALICE, 0).await?;
        let mut fresh_at = scene
            .session
            .now
            .saturating_add(before.reset_after().duration().unwrap());
        for time in moves {
            scene.session.travel(time);
            let after = scene.peek(ALICE, 0).await?;
            let now = scene.session.now;
            scene.ensure(after.remaining() >= before.remaining(), || {
                format!("{} remained before", before.remaining())
            })?;
            let expected = fresh_at.saturating_duration_since(now);
            // Waits that end after the last representable instant cannot be compared.
            if fresh_at < Timestamp::MAX {
                let reset_after = after.reset_after().duration();
                scene.ensure(reset_after == Some(expected), || {
                    format!("it should be as new in {expected:?}")
                })?;
            }
            fresh_at = now.saturating_add(after.reset_after().duration().unwrap());
            before = after;
        }
        Ok(())
    });
}
