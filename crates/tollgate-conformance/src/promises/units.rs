//! Promises that a call of cost `n` counts like `n` calls of cost 1.

use proptest::strategy::Strategy;
use tollgate_core::Limit;

use crate::clock::whatever_the_clock;
use crate::harness::Stores;
use crate::history::{Acts, Move, Step, costs, histories, moves};
use crate::plan::Plan;
use crate::scene::{ALICE, BOB};

/// Costs above this are not split into single calls.
const MOST_UNITS: u64 = 30;

/// Returns histories, a cost, and a time that passes after it.
fn calls(limit: &Limit) -> impl Strategy<Value = (Vec<Step>, u64, Move)> + use<> {
    let history = histories(limit, 1, Acts::CALLS);
    (history, costs(limit), moves(limit, false))
}

/// One call of cost `n` leaves the same as `n` calls of cost 1 at the same instant.
pub async fn a_cost_is_as_many_unit_calls(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    plan.in_scenes(harness, calls, async |mut scene, (history, cost, later)| {
        scene.play_twins(&history).await?;
        let left = scene.peek(ALICE, 0).await?.remaining();
        let cost = cost.min(left).min(MOST_UNITS);
        let whole = scene.consume(ALICE, cost).await?;
        let mut units = whole.is_allowed();
        for _ in 0..cost {
            units &= scene.consume(BOB, 1).await?.is_allowed();
        }
        scene.ensure(units, || format!("{left} remained, so {cost} fit"))?;
        scene.look_alike(1).await?;
        scene.session.travel(later);
        scene.look_alike(cost).await
    });
}

/// Taking up to `m` takes as much as would be admitted of `m` successive calls of cost 1.
pub async fn takes_what_unit_calls_would(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    plan.in_scenes(harness, calls, async |mut scene, (history, most, later)| {
        scene.play_twins(&history).await?;
        let left = scene.peek(ALICE, 0).await?.remaining();
        let most = if left > MOST_UNITS {
            most.min(MOST_UNITS)
        } else {
            most
        };
        let taken = scene.take(ALICE, most).await?;
        let expected = most.min(left);
        scene.ensure(
            taken.consumed() == expected && taken.is_allowed() == (expected > 0 || most == 0),
            || format!("{left} remained, so {expected} of {most} should be taken"),
        )?;
        let mut units = 0;
        for _ in 0..expected {
            units += scene.consume(BOB, 1).await?.consumed();
        }
        scene.ensure(units == expected, || format!("{units} unit calls fit"))?;
        if expected == 0 && most > 0 {
            // Limits that count denied calls count this as one call of cost 1.
            let denied = scene.consume(BOB, 1).await?;
            let same = scene.session.same(&denied, &taken);
            scene.ensure(same, || {
                "taking when nothing is left differs from a call of cost 1".to_owned()
            })?;
        }
        scene.look_alike(1).await?;
        scene.session.travel(later);
        scene.look_alike(1).await
    });
}
