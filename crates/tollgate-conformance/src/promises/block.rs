//! Promises about keys that are blocked.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::Algorithm;
use tollgate_core::store::{BlockSpan, Check, Request, Verdict};
use tollgate_core::{Limit, Timestamp, Wait};

use super::composite::{agree_at_its_own_clock_on, agree_on, keys};
use crate::harness::{OwnedKey, Stores};
use crate::history::{Act, Acts, LONGEST, PlannedCheck, Span, Step, composites, moves, starts};
use crate::naive::Blocks;
use crate::plan::{Outcome, Plan};
use crate::race::race;
use crate::session::Session;

/// The number of concurrent callers.
const CALLERS: usize = 24;

/// Every call gets the machine's answer while keys are blocked: under blocks alone, and together
/// with limits that count, with refunds, resets, and a clock that steps back.
pub async fn blocks_agree_with_the_machine(harness: &Stores, plan: &Plan) {
    agree_on(harness, plan, blocks(plan.limits()));
}

/// By the store's own clock too, every call gets the machine's answer at the instant that the
/// decision reports.
pub async fn blocks_agree_with_the_machine_at_its_own_clock(harness: &Stores, plan: &Plan) {
    agree_at_its_own_clock_on(harness, plan, blocks(plan.limits()));
}

/// A call is denied exactly until the end of the last block, and repeated blocks last as long as
/// their definition says.
pub async fn blocks_agree_with_the_definition(harness: &Stores, plan: &Plan) {
    let plan = plan.clone().with_limits(blocking(plan.limits()));
    plan.check_each(
        |limit| {
            let act = prop_oneof![2 => span().prop_map(Act::Block), 1 => Just(Act::Consume)];
            let cost = prop_oneof![4 => Just(1_u64), 1 => Just(0), 1 => Just(u64::MAX)];
            let step = (moves(limit, true), act, cost);
            (starts(limit), vec(step, 0..=LONGEST))
        },
        async |limit, (start, steps)| {
            let mut session = Session::open(harness, start.0).await;
            let mut naive = Blocks::of(limit);
            let [key, _] = keys();
            for (time, act, cost) in steps {
                let planned = vec![PlannedCheck {
                    limit: 0,
                    key: 0,
                    cost,
                }];
                let step = Step { time, act, planned };
                let (limits, keys) = (std::slice::from_ref(limit), std::slice::from_ref(&key));
                let Some(answers) = session.step(limits, keys, &step).await? else {
                    continue;
                };
                let now = session.now.as_micros();
                if let Act::Block(span) = act {
                    naive.block(now, span.from(session.now));
                }
                let verdict = answers.store.as_slice()[0];
                let asked = if let Act::Block(_) = act { 1 } else { cost };
                says(&session, verdict, naive.wait(now, asked), naive.left(now))?;
            }
            Ok(())
        },
    );
}

/// Fails unless a call has to wait for `wait`, and all is forgotten after `left`.
fn says(session: &Session, verdict: Verdict, wait: Option<u64>, left: u64) -> Outcome {
    let expected = (wait.map_or(Wait::NEVER, Wait::from_micros), Some(left));
    let said = (verdict.retry_after(), verdict.reset_after().as_micros());
    session.ensure(said == expected, || {
        format!("the definition says (retry_after, reset_after) = {expected:?}, not {said:?}")
    })
}

/// Of many callers who block a key at once, one begins a block, and the others change nothing.
pub async fn concurrent_blocks_are_one(harness: &Stores, plan: &Plan) {
    for limit in blocking(plan.limits()) {
        let algorithm = format!("{},doublings=4", limit.algorithm());
        let Ok(algorithm) = algorithm.parse::<Algorithm>() else {
            // It has that option already.
            continue;
        };
        let limit = Limit::new(limit.name(), algorithm).unwrap();
        let store = harness.store().await;
        let key = OwnedKey::fresh("mallory");
        let request = Request::block(BlockSpan::Usual, Check::new(&limit, key.key(), 1));
        if store.supports(&request).is_err() {
            continue;
        }
        let waits = race(CALLERS, |_| {
            let (limit, store, key) = (limit.clone(), Arc::clone(&store), key.clone());
            async move {
                let check = Check::new(&limit, key.key(), 1);
                let request = Request::block(BlockSpan::Usual, check);
                store.decide(request).await.unwrap().retry_after()
            }
        });
        // A caller whose clock reads a little less than the first one's waits a little longer, but
        // whoever begins a second block waits twice as long.
        let usual = limit.algorithm().quota().window_us();
        for wait in waits.await {
            let holds = wait < Wait::from_micros(2 * usual);
            assert!(holds, "{limit}: a block of {wait} instead of {usual} µs");
        }
    }
}

fn blocking(limits: &[Limit]) -> Vec<Limit> {
    let blocks = limits
        .iter()
        .filter(|limit| limit.algorithm().can_block() && !limit.is_shadow());
    blocks.cloned().collect()
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        4 => Just(Span::Usual),
        1 => (-3_000_000..9_000_000_i64).prop_map(Span::Until),
        1 => Just(Span::Lasting(Duration::MAX)),
        3 => (0..5_000_000_000_u64).prop_map(|nanos| Span::Lasting(Duration::from_nanos(nanos))),
    ]
}

/// Returns histories in which keys are blocked, and calls are made.
fn blocks(limits: &[Limit]) -> impl Strategy<Value = Vec<Step>> + use<> {
    let act = prop_oneof![1 => span().prop_map(|span| Some(Act::Block(span))), 2 => Just(None)];
    let calls = composites(limits, 2, Acts::ALL);
    (calls, vec(act, LONGEST)).prop_map(|(calls, acts)| {
        let calls = calls.into_iter().zip(acts);
        let replaced = calls.map(|(step, act)| Step {
            act: act.unwrap_or(step.act),
            ..step
        });
        replaced.collect()
    })
}

impl Span {
    pub(crate) fn from(self, now: Timestamp) -> BlockSpan {
        match self {
            Self::Usual => BlockSpan::Usual,
            Self::Until(micros) => {
                let until = now.as_micros().saturating_add_signed(micros);
                BlockSpan::Until(Timestamp::saturating_from_micros(until))
            }
            Self::Lasting(time) => BlockSpan::Lasting(time),
        }
    }
}
