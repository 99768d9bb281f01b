//! Promises about limits that change while in use, and about limits with extreme values.

use proptest::collection::vec;
use tollgate_core::Limit;
use tollgate_core::store::{Check, MAX_EXACT};

use super::agreement::agree_on;
use crate::families::{resized, with_quota};
use crate::harness::{OwnedKey, Stores};
use crate::history::{Acts, LONGEST, Move, histories, starts};
use crate::plan::Plan;
use crate::scene::{ALICE, Scene};
use crate::session::Session;

/// After a limit changes, calls counted before it are judged by the new limit, exactly as the
/// machine does it, and what remains never falls below zero.
///
/// The limit's amount and window change at random while it is in use.
pub async fn a_changed_limit_applies_at_once(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| {
            let steps = histories(limit, 1, Acts::FORWARD_REFUNDS);
            (starts(limit), steps, vec(0..4_usize, LONGEST))
        },
        async |limit, (start, mut history, versions)| {
            let limits = [
                limit.clone(),
                changed(limit, 2, 1),
                changed(limit, 1, 2),
                changed(limit, 1, 3),
            ];
            let mut session = Session::open(harness, start.0).await;
            let keys = [OwnedKey::fresh("alice")];
            for (step, version) in history.iter_mut().zip(versions) {
                step.planned[0].limit = version;
                session.travel(step.time);
                // A store may have dropped a state that expired under one version, but that another
                // would still count.
                if session.machine.may_have_dropped(session.now) {
                    for limit in &limits {
                        let check = Check::new(limit, keys[0].key(), 0);
                        session.reset(&[check]).await?;
                    }
                }
                step.time = Move::Stay;
                let Some(answers) = session.step(&limits, &keys, step).await? else {
                    continue;
                };
                let verdict = answers.store.as_slice()[0];
                session.ensure(verdict.remaining() <= verdict.capacity(), || {
                    "more remains than there ever may".to_owned()
                })?;
                session.alike(&answers)?;
            }
            Ok(())
        },
    );
}

/// A limit of zero denies every call with a cost above zero, forever, and is always reset.
pub async fn zero_denies_everything(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |limit| {
            let zero = resized(limit, 0, 1_000_000, 0);
            (starts(&zero), histories(&zero, 1, Acts::CALLS))
        },
        async |limit, (start, history)| {
            let zero = resized(limit, 0, 1_000_000, 0);
            let mut scene = Scene::open_whatever_the_clock(harness, &zero, start).await;
            scene.play(&history).await?;
            for cost in [1, u64::MAX] {
                let denied = scene.consume(ALICE, cost).await?;
                scene.ensure(
                    !denied.is_allowed()
                        && denied.retry_after().is_never()
                        && denied.reset_after().is_zero()
                        && (denied.capacity(), denied.remaining(), denied.consumed()) == (0, 0, 0),
                    || format!("a limit of zero must deny {cost} forever, and reset at once"),
                )?;
            }
            let nothing = scene.consume(ALICE, 0).await?;
            scene.ensure(nothing.is_allowed(), || {
                "what costs nothing is always allowed".to_owned()
            })
        },
    );
}

/// At the largest amounts, windows, costs and instants, nothing wraps, rounds or panics.
pub async fn extremes_are_exact(harness: &Stores, plan: &Plan) {
    let mut extremes: Vec<Limit> = Vec::new();
    for limit in plan.limits() {
        for (amount, window_us) in [
            (MAX_EXACT, MAX_EXACT),
            (MAX_EXACT, 1),
            (1, MAX_EXACT),
            (100_000, MAX_EXACT - 1),
            (MAX_EXACT / 1_000, 1_000),
            (1, 1),
        ] {
            // Constructors refuse combinations that are not valid.
            let extreme = with_quota(limit.algorithm(), amount, window_us, amount);
            extremes.extend(extreme.and_then(|machine| Limit::new("extreme", machine).ok()));
        }
    }
    let plan = plan.clone().with_limits(extremes);
    agree_on(harness, &plan, Acts::REFUNDS);
}

/// Returns `limit` with its amount times `times`, and its window divided by `part`.
fn changed(limit: &Limit, times: u64, part: u64) -> Limit {
    let quota = limit.algorithm().quota();
    let amount = if times > 1 {
        quota.amount() * times
    } else {
        quota.amount() / part
    };
    let window_us = (quota.window_us() / part).max(1);
    let burst = (limit.algorithm().capacity() * times / part).max(1);
    resized(limit, amount.max(1), window_us, burst)
}
