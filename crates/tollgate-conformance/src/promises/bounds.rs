//! Promises about how much is admitted within any time span.

use tollgate_core::store::{Check, Request};
use tollgate_core::{Algorithm, Limit, Timestamp};

use crate::bound::{Admitted, bound, most_within};
use crate::harness::Stores;
use crate::history::{Act, Acts, Move, Start, Step, assaults, histories, settled};
use crate::plan::{Outcome, Plan};
use crate::scene::{ALICE, Scene};

/// No half-open span of any length holds more than the algorithm's bound.
///
/// Counts what was admitted and not given back, with refunds, settlements and a clock that steps
/// back.
pub async fn never_over_admits(harness: &Stores, plan: &Plan) {
    let values = |limit: &Limit| histories(limit, 1, Acts::REFUNDS);
    plan.in_scenes(harness, values, keeps_within);
}

/// Refunds and settlements never make room for more than the bound, even if callers take everything around window
/// boundaries and give it back at the worst moments.
pub async fn refunds_keep_the_bound(harness: &Stores, plan: &Plan) {
    plan.in_scenes(harness, assaults, keeps_within);
}

/// Units that are used ahead, at the worst instants until their end, keep the bound together with calls
/// that are decided meanwhile; also if some of them are given back.
///
/// # Panics
///
/// When the promise is broken.
pub async fn units_ahead_keep_the_bound(harness: &Stores, plan: &Plan) {
    let values = |limit: &Limit| histories(limit, 1, Acts::FORWARD_AHEAD);
    plan.in_scenes(harness, values, keeps_within);
}

/// Fails if more than the bound was admitted and not given back in any span.
async fn keeps_within(mut scene: Scene<'_>, history: Vec<Step>) -> Outcome {
    let limit = scene.limit;
    // What each call uses, in order of time.
    let mut kept: Vec<Vec<Admitted>> = Vec::new();
    let mut held: Vec<usize> = Vec::new();
    let is_forward = !history
        .iter()
        .any(|step| matches!(step.time, Move::Back(_)));
    for step in history {
        if let (Act::Refund(index) | Act::Settle(index), false) = (step.act, held.is_empty()) {
            // The session takes the receipt at this same index.
            let place = held.swap_remove(index % held.len());
            let mut least = match step.act {
                Act::Settle(_) => settled(limit, step.planned[0].cost),
                _ => 0,
            };
            // What is settled beyond the call's cost was not admitted: the bound does not hold it.
            for used in &mut kept[place] {
                used.amount = used.amount.min(least);
                least -= used.amount;
            }
        }
        let Some(decision) = scene.step(&step).await? else {
            continue;
        };
        let verdict = decision.as_slice()[0];
        if verdict.consumed() == 0 {
            continue;
        }
        held.push(kept.len());
        let Act::Prefetch(ahead) = step.act else {
            let mut used = Admitted::by(&verdict);
            if is_forward {
                // After units that are used ahead, a call is recorded later than it is made.
                used.at = scene.session.now;
            }
            kept.push(vec![used]);
            continue;
        };
        let check = Check::new(limit, "k", step.planned[0].cost);
        let request = Request::consume(check).with_prefetch(ahead);
        let (units, lasts) = request.granted(&decision).unwrap_or_default();
        let now = scene.session.now.as_micros();
        let last = now
            + u64::try_from(lasts.as_micros())
                .unwrap_or(u64::MAX)
                .saturating_sub(1);
        // All of them at once, all at the end, or some of them.
        let early = units * (ahead.most() % 3) / 2;
        let uses = [
            (now, verdict.consumed() - units),
            (now, early.min(units)),
            (last, units - early.min(units)),
        ];
        kept.push(uses.map(|(at, amount)| Admitted::at(at, amount)).to_vec());
    }
    let kept: Vec<_> = kept.into_iter().flatten().collect();
    let window_us = limit.algorithm().quota().window_us();
    for span in [1, window_us.div_ceil(2), window_us, window_us * 3] {
        let (most, bound) = (most_within(&kept, span), bound(limit, span));
        scene.ensure(most <= bound, || {
            format!("{most} were kept within {span} µs, where at most {bound} may be")
        })?;
    }
    Ok(())
}

/// Some history admits as much as the bound, so a store that is too strict fails.
pub async fn reaches_its_bound(harness: &Stores, plan: &Plan) {
    plan.check_each(
        |_| 0..4_u64,
        async |limit, windows| {
            let window_us = limit.algorithm().quota().window_us();
            let boundary = 1_780_000_000_000_000 / window_us * window_us + windows * window_us;
            let start = Start(Timestamp::from_micros(boundary).unwrap());
            let mut scene = Scene::open(harness, limit, start).await;
            let (admitted, span) = greedily(&mut scene, limit).await?;
            let (most, bound) = (most_within(&admitted, span), bound(limit, span));
            // Several tokens may arrive within one microsecond and are then taken together.
            let quota = limit.algorithm().quota();
            let slack = u128::from(quota.amount() / window_us);
            scene.ensure(most + slack >= bound, || {
                format!("only {most} were admitted within {span} µs, where {bound} may be")
            })
        },
    );
}

/// Makes calls that admit as much as possible in a span, and returns the span's length with them.
async fn greedily(scene: &mut Scene<'_>, limit: &Limit) -> Outcome<(Vec<Admitted>, u64)> {
    let quota = limit.algorithm().quota();
    let window_us = quota.window_us();
    let mut admitted = Vec::new();
    match limit.algorithm() {
        Algorithm::Gcra(_) => {
            // Take ten tokens beyond the burst, each as soon as it arrives.
            take_all(scene, &mut admitted).await?;
            for _ in 0..10 {
                let wait = scene.peek(ALICE, 1).await?.retry_after();
                scene.session.wait(wait.as_micros().unwrap_or(0))?;
                take_all(scene, &mut admitted).await?;
            }
            let (first, last) = (&admitted[0], &admitted[admitted.len() - 1]);
            let span = last.at.saturating_duration_since(first.at);
            let span = u64::try_from(span.as_micros()).unwrap() + 1;
            return Ok((admitted, span));
        }
        Algorithm::FixedWindow(machine) => {
            if machine.is_anchored() {
                admitted.push(Admitted::by(&scene.consume(ALICE, 1).await?));
            }
            take_all_after(scene, &mut admitted, [window_us - 1, 1]).await?;
        }
        Algorithm::CalendarWindow(_) => {
            // Where a period ends is known once something is used in it.
            let receipt = scene.acquire(ALICE, 1).await?.unwrap();
            let ends = scene.peek(ALICE, 0).await?.reset_after().as_micros();
            scene.refund(ALICE, &receipt).await?;
            take_all_after(scene, &mut admitted, [ends.unwrap() - 1, 1]).await?;
            return Ok((admitted, 2));
        }
        Algorithm::SlidingCounter(_) => {
            take_all_after(scene, &mut admitted, [window_us - 1; 2]).await?;
        }
        _ => take_all(scene, &mut admitted).await?,
    }
    Ok((admitted, window_us))
}

/// Takes all that is left after each of these waits.
async fn take_all_after(
    scene: &mut Scene<'_>,
    admitted: &mut Vec<Admitted>,
    waits: [u64; 2],
) -> Outcome {
    for wait in waits {
        scene.session.wait(wait)?;
        take_all(scene, admitted).await?;
    }
    Ok(())
}

async fn take_all(scene: &mut Scene<'_>, admitted: &mut Vec<Admitted>) -> Outcome {
    let left = scene.peek(ALICE, 0).await?.remaining();
    admitted.push(Admitted::by(&scene.consume(ALICE, left).await?));
    Ok(())
}
