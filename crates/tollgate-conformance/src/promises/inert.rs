//! Promises that peeks, denied calls and calls for other keys change nothing.

use proptest::collection::vec;
use tollgate_core::Limit;

use crate::clock::whatever_the_clock;
use crate::harness::Stores;
use crate::history::{Acts, LONGEST, Move, costs, histories, starts};
use crate::plan::Plan;
use crate::scene::{ALICE, BOB, Scene};

/// A peek changes nothing: a key with peeks between its calls gets the same answers as its twin.
pub async fn peek_changes_nothing(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| (histories(limit, 1, Acts::CALLS), vec(costs(limit), LONGEST));
    plan.in_scenes(harness, values, async |mut scene, (history, costs)| {
        for (step, cost) in history.iter().zip(costs) {
            scene.session.travel(step.time);
            let once = scene.peek(BOB, cost).await?;
            let twice = scene.peek(BOB, cost).await?;
            scene.ensure(scene.session.same(&once, &twice), || {
                "a second peek differs".to_owned()
            })?;
            let mut step = step.clone();
            step.time = Move::Stay;
            scene.play_twins(&[step]).await?;
        }
        scene.look_alike(1).await
    });
}

/// A denied call changes nothing: a key with denied calls between its calls gets the same answers
/// as its twin.
///
/// Limits that count denied calls are the exception: they count each attempt as if it were
/// admitted.
pub async fn denied_calls_change_nothing(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| (histories(limit, 1, Acts::CALLS), vec(costs(limit), LONGEST));
    plan.in_scenes(harness, values, async |mut scene, (history, costs)| {
        let counts = scene.limit.algorithm().counts_denied();
        for (step, cost) in history.iter().zip(costs) {
            scene.session.travel(step.time);
            let before = scene.peek(BOB, 0).await?;
            let too_much = cost.max(before.remaining().saturating_add(1));
            let denied = scene.consume(BOB, too_much).await?;
            let after = scene.peek(BOB, 0).await?;
            let unchanged = counts || scene.session.same(&before, &after);
            scene.ensure(
                !denied.is_allowed() && denied.consumed() == 0 && unchanged,
                || format!("{too_much} was too much, and something changed"),
            )?;
            if counts {
                scene.ensure(after.remaining() == 0, || {
                    "a denied call did not count".to_owned()
                })?;
            }
            let mut step = step.clone();
            step.time = Move::Stay;
            if counts {
                scene.step(&step).await?;
            } else {
                scene.play_twins(&[step]).await?;
            }
        }
        if counts {
            return Ok(());
        }
        scene.look_alike(1).await
    });
}

/// Two keys are counted separately, and resetting one leaves the other unchanged.
///
/// A key gets the same answers whether or not its store also serves another key.
pub async fn keys_are_independent(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    plan.check_each(
        |limit| (starts(limit), histories(limit, 2, Acts::FORWARD)),
        async |limit, (start, history)| {
            let mut crowded = Scene::open_whatever_the_clock(harness, limit, start).await;
            let mut alone = Scene::open_whatever_the_clock(harness, limit, start).await;
            for step in &history {
                let among = crowded.step(step).await?;
                if step.planned[0].key == BOB {
                    alone.session.travel(step.time);
                    if among.as_ref().is_some_and(|among| among.is_denied()) {
                        crowded.reset(BOB).await?;
                    }
                    continue;
                }
                let apart = alone.step(step).await?;
                let same = crowded.same(among.as_ref(), apart.as_ref());
                crowded.session.ensure(same, || {
                    format!("alone on a store, the key got\n  {apart:?}")
                })?;
            }
            let (among, apart) = (crowded.peek(ALICE, 1).await?, alone.peek(ALICE, 1).await?);
            let same = crowded.session.same(&among, &apart);
            crowded.session.ensure(same, || {
                format!("alone on a store, the key looks\n  {apart:?}")
            })
        },
    );
}
