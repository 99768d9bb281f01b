//! Promises that expired, reset or refunded calls leave no trace.

use proptest::prelude::*;
use tollgate_core::Limit;

use crate::clock::whatever_the_clock;
use crate::harness::Stores;
use crate::history::{Acts, Move, costs, histories, moves, starts};
use crate::plan::Plan;
use crate::scene::{ALICE, BOB, Scene};

/// Into this many parts, the time since a call is divided.
const PARTS: u64 = 1_000_000;

/// After `reset_after`, a key behaves like one never seen, however much later it is called.
///
/// A store may therefore drop its state then, and no answer shows whether it did.
pub async fn an_idle_key_equals_a_new_key(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| {
            let before = histories(limit, 1, Acts::FORWARD);
            let after = histories(limit, 1, Acts::CALLS);
            (starts(limit), before, moves(limit, false), after)
        },
        async |limit, (start, before, later, after)| {
            let mut scene = Scene::open(harness, limit, start).await;
            scene.play(&before).await?;
            let reset_after = scene.peek(ALICE, 0).await?.reset_after();
            let micros = reset_after.as_micros().unwrap();
            scene.session.wait(micros)?;
            scene.session.travel(later);
            scene.play_twins(&after).await
        },
    );
}

/// A reset forgets everything that was consumed, at any instant.
pub async fn reset_forgets_everything(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| {
        let before = histories(limit, 1, Acts::CALLS);
        let after = histories(limit, 1, Acts::CALLS);
        (before, after)
    };
    plan.in_scenes(harness, values, async |mut scene, (before, after)| {
        scene.play(&before).await?;
        scene.reset(ALICE).await?;
        let seen = scene.peek(ALICE, 0).await?;
        let capacity = scene.limit.algorithm().capacity();
        scene.ensure(
            seen.remaining() == capacity && seen.reset_after().is_zero(),
            || "something is remembered after a reset".to_owned(),
        )?;
        scene.play_twins(&after).await
    });
}

/// A refund at the same instant undoes the call completely.
pub async fn a_refund_at_once_undoes(harness: &Stores, plan: &Plan) {
    let plan = whatever_the_clock(harness, plan).await;
    let values = |limit: &Limit| {
        let before = histories(limit, 1, Acts::FORWARD);
        let after = histories(limit, 1, Acts::FORWARD);
        (before, costs(limit), after)
    };
    plan.in_scenes(harness, values, async |mut scene, (before, cost, after)| {
        scene.play_twins(&before).await?;
        let left = scene.peek(ALICE, 0).await?.remaining();
        if let Some(receipt) = scene.acquire(ALICE, cost.min(left)).await? {
            let verdict = scene.refund(ALICE, &receipt).await?;
            scene.ensure(
                verdict.remaining() == left && verdict.consumed() == 0,
                || format!("{left} remained before what was refunded"),
            )?;
        }
        scene.look_alike(1).await?;
        scene.play_twins(&after).await
    });
}

/// A refund does not give back what time has already given back, even if the clock has stepped back
/// since.
pub async fn a_late_refund_gives_nothing(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| {
            let after = histories(limit, 1, Acts::FORWARD);
            let back = prop_oneof![Just(0), Just(PARTS), 0..=PARTS];
            (starts(limit), 1..=limit.algorithm().capacity(), back, after)
        },
        async |limit, (start, cost, back, after)| {
            let mut scene = Scene::open(harness, limit, start).await;
            let Some(receipt) = scene.acquire(ALICE, cost).await? else {
                return Err(scene.session.failure("a fresh key was refused"));
            };
            let reset_after = scene.peek(ALICE, 0).await?.reset_after();
            let micros = reset_after.as_micros().unwrap();
            scene.session.wait(micros)?;
            // Both keys consume the same again; only one then refunds the old, expired call.
            scene.consume(ALICE, cost).await?;
            scene.consume(BOB, cost).await?;
            let back = u128::from(micros) * u128::from(back) / u128::from(PARTS);
            let back = u64::try_from(back).unwrap();
            scene.session.travel(Move::Back(back));
            scene.refund(ALICE, &receipt).await?;
            scene.look_alike(1).await?;
            scene.play_twins(&after).await
        },
    );
}
