//! Promises about limits in shadow.

use tollgate_core::Limit;
use tollgate_core::store::Verdicts;

use super::composite::{agree_at_its_own_clock_on, agree_on, keys};
use crate::harness::Stores;
use crate::history::{Act, Acts, Move, PlannedCheck, Step, composites, starts};
use crate::plan::{Outcome, Plan};
use crate::session::Session;

/// Every decision on limits in shadow, alone and beside others, equals the machine's.
pub async fn shadows_agree_with_the_machine(harness: &Stores, plan: &Plan) {
    agree_on(harness, plan, composites(plan.limits(), 2, Acts::ALL));
}

/// By the store's own clock too, every decision equals the machine's at the instant that it reports.
pub async fn shadows_agree_with_the_machine_at_its_own_clock(harness: &Stores, plan: &Plan) {
    agree_at_its_own_clock_on(harness, plan, composites(plan.limits(), 2, Acts::ALL));
}

/// A call gets the same decision as without the limits in shadow, none of which is the binding one,
/// and each of those says what it would if it were asked about the allowed calls alone, and were none.
pub async fn shadows_count_what_they_would_allow_and_deny_nothing(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let history = composites(limits, 2, Acts::CALLS);
    plan.check(&(starts(&limits[0]), history), async |(start, history)| {
        let session = Session::open(harness, start.0).await;
        in_the_open(session, limits, &history).await
    });
}

async fn in_the_open(mut session: Session, limits: &[Limit], history: &[Step]) -> Outcome {
    let open = |limit: &Limit| Limit::new(limit.name(), *limit.algorithm());
    let open: Vec<Limit> = limits.iter().map(|limit| open(limit).unwrap()).collect();
    let (shadows, others, alone) = (keys(), keys(), keys());
    for step in history {
        // A limit that counts denied calls counts those that others deny.
        let counts = |planned: &&PlannedCheck| {
            let limit = &limits[planned.limit];
            !limit.algorithm().counts_denied()
        };
        let planned: Vec<_> = step.planned.iter().filter(counts).copied().collect();
        session.travel(step.time);
        let mut call = Step {
            time: Move::Stay,
            act: Act::Consume,
            planned,
        };
        if call.planned.is_empty() {
            continue;
        }
        let Some(answers) = session.step(limits, &shadows, &call).await? else {
            continue;
        };
        let planned = std::mem::take(&mut call.planned);
        let in_shadow = |planned: &PlannedCheck| limits[planned.limit].is_shadow();
        call.planned = planned
            .iter()
            .filter(|check| !in_shadow(check))
            .copied()
            .collect();
        let mut is_allowed = true;
        if !call.planned.is_empty()
            && let Some(without) = session.step(limits, &others, &call).await?
        {
            is_allowed = without.store.is_allowed();
            let summary = |verdicts: &Verdicts| {
                (
                    verdicts.remaining(),
                    verdicts.retry_after(),
                    verdicts.reset_after(),
                    verdicts.consumed(),
                    verdicts.as_slice()[verdicts.binding()],
                )
            };
            session.ensure(summary(&answers.store) == summary(&without.store), || {
                format!("without limits in shadow: {:?}", without.store)
            })?;
        }
        session.ensure(answers.store.is_allowed() == is_allowed, || {
            "limits in shadow change the decision".to_owned()
        })?;
        call.act = if is_allowed { Act::Consume } else { Act::Peek };
        for (check, verdict) in planned.iter().zip(answers.store.as_slice()) {
            if !in_shadow(check) {
                continue;
            }
            call.planned = vec![*check];
            let Some(by_itself) = session.step(&open, &alone, &call).await? else {
                continue;
            };
            let by_itself = by_itself.store.as_slice()[0];
            let same = (
                verdict.is_allowed(),
                verdict.remaining(),
                verdict.consumed(),
            ) == (
                by_itself.is_allowed(),
                by_itself.remaining(),
                by_itself.consumed(),
            );
            session.ensure(same, || format!("by itself it says\n  {by_itself:?}"))?;
        }
    }
    Ok(())
}
