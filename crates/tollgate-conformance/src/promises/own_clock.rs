//! Promises about requests without a caller's instant, which a store decides by its own clock.

use tollgate_core::store::{Check, Operation, Request, Verdict, Verdicts};

use super::composite::keys;
use crate::clock::by_the_day;
use crate::harness::Stores;
use crate::plan::{Outcome, Plan, unless_moot};
use crate::scene::{ALICE, BOB, Scene};
use crate::session::Session;

/// The amount that each limit admits per day.
const AMOUNT: u64 = 10;

/// By the store's own clock, a peek returns what is left, a denied call consumes nothing, and
/// `take_up_to` takes the rest.
pub async fn counts_at_its_own_clock(harness: &Stores, plan: &Plan) {
    daily(plan).check_each(
        |_| 1..AMOUNT,
        async |limit, first| {
            let left = AMOUNT - first;
            let mut scene = Scene::open_by_its_own_clock(harness, limit).await;
            let consumed = scene.consume(ALICE, first).await?;
            says(&scene, consumed, true, first, left)?;
            let fits = scene.peek(ALICE, left).await?;
            says(&scene, fits, true, 0, left)?;
            let exceeds = scene.peek(ALICE, left + 1).await?;
            says(&scene, exceeds, false, 0, left)?;
            let denied = scene.consume(ALICE, left + 1).await?;
            says(&scene, denied, false, 0, left)?;
            // A store without `take_up_to` gets a call for exactly the rest.
            let taken = match unless_moot(scene.take(ALICE, AMOUNT).await)? {
                Some(taken) => taken,
                None => scene.consume(ALICE, left).await?,
            };
            says(&scene, taken, true, left, 0)?;
            let denied = scene.consume(ALICE, 1).await?;
            says(&scene, denied, false, 0, 0)?;
            let other = scene.peek(BOB, AMOUNT).await?;
            says(&scene, other, true, 0, AMOUNT)
        },
    );
}

/// By the store's own clock, a refund gives back what was consumed, and a reset forgets everything.
pub async fn gives_back_at_its_own_clock(harness: &Stores, plan: &Plan) {
    daily(plan).check_each(
        |_| 1..AMOUNT,
        async |limit, first| {
            let left = AMOUNT - first;
            let mut scene = Scene::open_by_its_own_clock(harness, limit).await;
            let Some(receipt) = scene.acquire(ALICE, first).await? else {
                return Err(scene.session.failure("a fresh key was refused"));
            };
            let rest = scene.consume(ALICE, left).await?;
            says(&scene, rest, true, left, 0)?;
            let refunded = scene.refund(ALICE, &receipt).await?;
            says(&scene, refunded, true, 0, first)?;
            let again = scene.consume(ALICE, first).await?;
            says(&scene, again, true, first, 0)?;
            scene.reset(ALICE).await?;
            let forgotten = scene.peek(ALICE, AMOUNT).await?;
            says(&scene, forgotten, true, 0, AMOUNT)?;
            scene.ensure(forgotten.reset_after().is_zero(), || {
                "something is remembered after a reset".to_owned()
            })?;
            let whole = scene.consume(ALICE, AMOUNT).await?;
            says(&scene, whole, true, AMOUNT, 0)
        },
    );
}

/// By the store's own clock, requests with several limits consume, refund and reset all of them
/// together, and consume nothing if one denies.
pub async fn is_all_or_nothing_at_its_own_clock(harness: &Stores, plan: &Plan) {
    let plan = daily(plan);
    let limits = plan.limits();
    let amounts = 1..AMOUNT - 1;
    plan.check(&(amounts, 0..limits.len()), async |(first, narrow)| {
        let mut session = Session::open_by_its_own_clock(harness).await;
        let keys = keys();
        // The first value for the narrow limit, the second for all others.
        let each = |one: u64, other: u64| -> Vec<u64> {
            let all = 0..limits.len();
            all.map(|index| if index == narrow { one } else { other })
                .collect()
        };
        let checks = |one: u64, other: u64| -> Vec<Check<'_>> {
            let places = limits.iter().zip(keys.iter().cycle());
            let costs = each(one, other);
            places
                .zip(costs)
                .map(|((limit, key), cost)| Check::new(limit, key.key(), cost))
                .collect()
        };
        let (left, nothing) = (AMOUNT - first, each(0, 0));
        let (all, few) = (checks(AMOUNT, AMOUNT), checks(first, first));

        let request = Request::new(Operation::Consume, &few);
        let (consumed, remaining) = (each(first, first), each(left, left));
        let _ = ask(&mut session, &request, true, &consumed, &remaining).await?;
        let exceeds = checks(left + 1, 1);
        let request = Request::new(Operation::Consume, &exceeds);
        let _ = ask(&mut session, &request, false, &nothing, &remaining).await?;
        // One limit has less left than the others, so it decides how much can be taken.
        let less = checks(1, 1)[narrow];
        let _ = session.call(&Request::consume(less)).await?;
        let request = Request::new(Operation::TakeUpTo, &all);
        let (consumed, remaining) = (each(left - 1, left - 1), each(0, 1));
        let taken = ask(&mut session, &request, true, &consumed, &remaining).await?;
        let Some(receipt) = taken.into_receipt() else {
            return Err(session.failure("nothing can be given back of what was taken"));
        };
        let request = Request::new(Operation::Refund(&receipt), &all);
        let remaining = each(left - 1, left);
        let _ = ask(&mut session, &request, true, &nothing, &remaining).await?;
        let fits = checks(left - 1, left);
        let request = Request::new(Operation::Peek, &fits);
        let _ = ask(&mut session, &request, true, &nothing, &remaining).await?;
        session.reset(&all).await?;
        let request = Request::new(Operation::Peek, &all);
        let remaining = each(AMOUNT, AMOUNT);
        let _ = ask(&mut session, &request, true, &nothing, &remaining).await?;
        Ok(())
    });
}

/// Returns `plan` with limits of [`AMOUNT`] in about a day.
fn daily(plan: &Plan) -> Plan {
    let limits = plan.limits().iter();
    let limits = limits.map(|limit| by_the_day(limit, AMOUNT, AMOUNT));
    plan.clone().with_limits(limits.collect())
}

/// Fails unless `verdict` is as given, with a wait exactly if it denies.
fn says(scene: &Scene<'_>, verdict: Verdict, allowed: bool, consumed: u64, left: u64) -> Outcome {
    let said = verdict.is_allowed() == allowed && verdict.retry_after().is_zero() == allowed;
    let numbers = (verdict.consumed(), verdict.remaining());
    scene.ensure(said && numbers == (consumed, left), || {
        format!("allowed: {allowed}, consumed {consumed}, and {left} left, is what is true")
    })
}

/// Sends a request with several limits, and fails unless they answer as given.
async fn ask(
    session: &mut Session,
    request: &Request<'_>,
    allowed: bool,
    consumed: &[u64],
    left: &[u64],
) -> Outcome<Verdicts> {
    let decision = session.call(request).await?;
    let charges = decision.as_slice().iter().map(Verdict::consumed);
    let remaining = decision.as_slice().iter().map(Verdict::remaining);
    let same = charges.eq(consumed.iter().copied()) && remaining.eq(left.iter().copied());
    session.ensure(same && decision.is_allowed() == allowed, || {
        format!("allowed: {allowed}, consumed {consumed:?}, and {left:?} left, is what is true")
    })?;
    Ok(decision)
}
