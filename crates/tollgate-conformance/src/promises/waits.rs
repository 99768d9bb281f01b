//! Promises about waits: exact to the microsecond, even if the clock steps back.

use proptest::strategy::Strategy;
use tollgate_core::Limit;

use crate::harness::Stores;
use crate::history::{Acts, Move, Start, Step, histories, starts};
use crate::plan::{Outcome, Plan};
use crate::scene::{ALICE, BOB, Scene};

/// A denied call is allowed after exactly its `retry_after`, and not a microsecond earlier.
pub async fn retry_after_is_exact(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| denials(limit, Acts::ALL),
        async |limit, (start, history, cost, part)| {
            let mut scene = Scene::open(harness, limit, start).await;
            scene.play(&history).await?;
            waits_exactly(&mut scene, cost, part).await
        },
    );
}

/// After the clock steps back, waits count from its new reading, and no more is admitted than
/// before.
pub async fn a_clock_that_steps_back_admits_no_more(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| (denials(limit, Acts::FORWARD), 1..=1_000_000_u64),
        async |limit, ((start, history, cost, part), back)| {
            let mut scene = Scene::open(harness, limit, start).await;
            scene.play_twins(&history).await?;
            // These calls make the current instant the latest that the states remember.
            scene.consume(ALICE, 1).await?;
            scene.consume(BOB, 1).await?;
            let (late_alice, late_bob) = (scene.peek(ALICE, 0).await?, scene.peek(BOB, 0).await?);
            scene.session.travel(Move::Back(back));
            let early = scene.take(ALICE, u64::MAX).await?;
            scene.ensure(early.consumed() <= late_alice.remaining(), || {
                "more than before the clock stepped back".to_owned()
            })?;
            let early = scene.peek(BOB, 0).await?;
            scene.ensure(early.remaining() <= late_bob.remaining(), || {
                "more than before the clock stepped back".to_owned()
            })?;
            waits_exactly(&mut scene, cost, part).await
        },
    );
}

/// A consumed cost is remembered until exactly `reset_after`.
pub async fn reset_after_is_exact(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| (starts(limit), histories(limit, 1, Acts::ALL)),
        async |limit, (start, history)| {
            let mut scene = Scene::open(harness, limit, start).await;
            scene.play(&history).await?;
            let capacity = limit.algorithm().capacity();
            let seen = scene.peek(ALICE, 0).await?;
            if !seen.reset_after().is_zero() {
                let wait = seen.reset_after().as_micros().unwrap();
                scene.session.wait(wait - 1)?;
                let before = scene.peek(ALICE, 0).await?;
                scene.ensure(before.remaining() < capacity, || {
                    "as new, one microsecond too early".to_owned()
                })?;
                scene.session.wait(1)?;
            }
            let after = scene.peek(ALICE, 0).await?;
            scene.ensure(
                after.remaining() == capacity && after.reset_after().is_zero(),
                || "not as new after its reset_after".to_owned(),
            )
        },
    );
}

type Denial = (Start, Vec<Step>, u64, u64);

/// Returns histories, a cost that may be denied after them, and a fraction of its wait in
/// millionths.
fn denials(limit: &Limit, acts: Acts) -> impl Strategy<Value = Denial> + use<> {
    let costs = 1..=limit.algorithm().capacity();
    let history = histories(limit, 1, acts);
    (starts(limit), history, costs, 0..1_000_000_u64)
}

/// Uses up the limit until `cost` is denied, and checks that the wait is exact.
async fn waits_exactly(scene: &mut Scene<'_>, cost: u64, part: u64) -> Outcome {
    let mut denied = scene.consume(ALICE, cost).await?;
    // Consume the rest, so that `cost` is denied; two rounds always suffice.
    for _ in 0..2 {
        if !denied.is_allowed() {
            break;
        }
        let left = denied.remaining();
        scene.consume(ALICE, left).await?;
        denied = scene.consume(ALICE, cost).await?;
    }
    let Some(wait) = denied.retry_after().as_micros().filter(|&wait| wait > 0) else {
        return Err(scene.session.failure("neither allowed nor given a wait"));
    };
    let earlier = u64::try_from(u128::from(wait - 1) * u128::from(part) / 1_000_000).unwrap();
    for step in [earlier, wait - 1 - earlier] {
        scene.session.wait(step)?;
        let counts = scene.limit.algorithm().counts_denied();
        let seen = scene.peek(ALICE, cost).await?;
        let denied =
            !seen.is_allowed() && (counts || !scene.consume(ALICE, cost).await?.is_allowed());
        scene.ensure(denied, || {
            format!("allowed before its wait of {wait} µs was over")
        })?;
    }
    scene.session.wait(1)?;
    let seen = scene.peek(ALICE, cost).await?;
    let consumed = scene.consume(ALICE, cost).await?;
    scene.ensure(seen.is_allowed() && consumed.is_allowed(), || {
        format!("denied after its wait of {wait} µs")
    })
}
