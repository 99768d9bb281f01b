//! Promises that a store's decisions equal those of the machine and of the algorithms' definitions.

use tollgate_core::Limit;

use crate::harness::Stores;
use crate::history::{Act, Acts, Step, histories, settled};
use crate::naive::{Answer, Naive};
use crate::plan::{Outcome, Plan};
use crate::scene::Scene;

/// Every decision equals the machine's for the same history.
///
/// Compared field by field, over two interleaved keys, with refunds, resets and a clock that steps
/// back.
pub async fn agrees_with_the_machine(harness: &Stores, plan: &Plan) {
    agree_on(harness, plan, Acts::ALL);
}

/// By the store's own clock too, every decision equals the machine's at the instant that the
/// decision reports.
pub async fn agrees_with_the_machine_at_its_own_clock(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| histories(limit, 2, Acts::ALL),
        async |limit, history| {
            let mut scene = Scene::open_by_its_own_clock(harness, limit).await;
            scene.play_as_the_machine(&history).await
        },
    );
}

/// Checks that the store agrees with the machine on histories of `kind`.
pub(super) fn agree_on(harness: &Stores, plan: &Plan, kind: Acts) {
    let values = |limit: &Limit| histories(limit, 2, kind);
    plan.in_scenes(harness, values, async |mut scene, history| {
        scene.play_as_the_machine(&history).await
    });
}

/// Every decision follows from the algorithm's definition and the list of counted calls.
pub async fn agrees_with_the_definition(harness: &Stores, plan: &Plan) {
    // With refunds, the clock only moves forward: a refunded call no longer records how far it had
    // come.
    for kind in [
        Acts::CALLS,
        Acts::FORWARD_REFUNDS,
        Acts::FORWARD_AHEAD,
        Acts::FORWARD_GIVES,
    ] {
        plan.in_scenes(harness, |limit| histories(limit, 1, kind), follows);
    }
}

async fn follows(mut scene: Scene<'_>, history: Vec<Step>) -> Outcome {
    let limit = scene.limit;
    let Some(mut naive) = Naive::of(limit) else {
        return Ok(());
    };
    // When and how much was consumed by each call that was not refunded or settled yet.
    let mut held: Vec<(u64, u64)> = Vec::new();
    for step in history {
        let refunded = match step.act {
            // The session takes the receipt at this same index.
            Act::Refund(index) | Act::Settle(index) if !held.is_empty() => {
                Some(held.swap_remove(index % held.len()))
            }
            _ => None,
        };
        let Some(decision) = scene.step(&step).await? else {
            continue;
        };
        let (now, cost) = (scene.session.now.as_micros(), step.planned[0].cost);
        let defined = match (step.act, refunded) {
            (Act::Consume, _) => naive.consume(now, cost),
            (Act::Peek, _) => naive.peek(now, cost),
            (Act::Prefetch(_), _) if scene.session.by_its_own_clock => naive.consume(now, cost),
            (Act::Prefetch(ahead), _) => naive.prefetch(now, cost, ahead),
            (Act::TakeUpTo, _) => naive.take_up_to(now, cost),
            (Act::Refund(_), Some((at, cost))) => naive.refund(now, at, cost),
            (Act::Settle(_), Some((at, was))) => naive.settle(now, at, was, settled(limit, cost)),
            (Act::Charge, _) => naive.charge(now, settled(limit, cost)),
            (Act::Give, _) => naive.give(now, cost),
            (Act::Lower, _) => naive.lower(now, cost),
            _ => continue,
        };
        let verdict = decision.as_slice()[0];
        if verdict.consumed() > 0 && !matches!(step.act, Act::Give) {
            held.push((verdict.decided_at().as_micros(), verdict.consumed()));
        }
        let answer = Answer::from(&verdict);
        scene.ensure(answer == defined, || {
            format!("the definition says\n  {defined:?}, not\n  {answer:?}")
        })?;
    }
    Ok(())
}
