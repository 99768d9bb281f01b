//! Promises about calls that have ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{CallId, ErrorKind, Limit, Receipt};

use super::composite::keys;
use crate::clock::{by_the_day, wall_clock};
use crate::harness::{OwnedKey, Stores};
use crate::history::{Act, Acts, LONGEST, PlannedCheck, Step, composites, settled, starts};
use crate::plan::{Outcome, Plan, Stop};
use crate::race::race;
use crate::session::{Session, checks};

/// The number of concurrent callers.
const CALLERS: usize = 24;
/// Longer than any history.
const LONG: Duration = Duration::from_secs(1_000_000);
/// How long the answers are kept that a test waits to be forgotten.
const SHORT: Duration = Duration::from_millis(100);

/// A repeated call gets the first answer, field by field, and is not counted again; a call that is
/// not repeated is decided as without its id.
pub async fn repeated_calls_get_the_first_answer(harness: &Stores, plan: &Plan) {
    let limits = plan.limits();
    let store = harness.store().await;
    let key = OwnedKey::fresh("alice");
    let any = limits.iter().find_map(|limit| {
        let asked = Request::consume(Check::new(limit, key.key(), 1)).id("request");
        let at_instants = store.supports(&asked.clone().at(wall_clock())).is_ok();
        (at_instants || store.supports(&asked).is_ok()).then_some(at_instants)
    });
    let Some(at_instants) = any else {
        return;
    };
    let again = prop_oneof![2 => Just(None), 1 => (0..LONGEST).prop_map(Some)];
    let history = (composites(limits, 2, Acts::ALL), vec(again, LONGEST));
    plan.check(
        &(starts(&limits[0]), history),
        async |(start, (history, again))| {
            let mut session = if at_instants {
                Session::open(harness, start.0).await
            } else {
                Session::open_by_its_own_clock(harness).await
            };
            let keys = keys();
            // The calls so far that had ids.
            let mut calls = Vec::new();
            let mut known = HashMap::new();
            for (step, again) in history.iter().zip(again) {
                session.travel(step.time);
                let id = match again.filter(|_| !calls.is_empty()) {
                    Some(earlier) => earlier % calls.len(),
                    None => calls.len(),
                };
                if id == calls.len() {
                    let Some(operation) = operation(limits, step) else {
                        let step = std::slice::from_ref(step);
                        session.play(limits, &keys, step).await?;
                        continue;
                    };
                    calls.push((operation, &step.planned));
                }
                let (operation, planned) = calls[id];
                let request = Request::new(operation, checks(limits, &keys, planned));
                once(&mut session, &request, id.to_string(), &mut known).await?;
            }
            Ok(())
        },
    );
}

/// Returns the operation of a step, if a call with an id can have it.
fn operation(limits: &[Limit], step: &Step) -> Option<Operation<'static>> {
    let algorithm = |limit: usize| limits[limit].algorithm();
    let all_reserve = step
        .planned
        .iter()
        .all(|p| algorithm(p.limit).can_reserve());
    match step.act {
        Act::Consume if all_reserve => Some(Operation::Reserve { max_delay: LONG }),
        Act::Consume => Some(Operation::Consume),
        Act::Charge => {
            let planned = step.planned.iter();
            let counted = |p: &PlannedCheck| p.cost == settled(&limits[p.limit], p.cost);
            planned.clone().all(counted).then_some(Operation::Charge)
        }
        Act::Give => Some(Operation::Give),
        Act::TakeUpTo => Some(Operation::TakeUpTo),
        _ => None,
    }
}

/// Sends `request` with `id`, and fails unless it gets the answer that is known, or the machine's.
async fn once(
    session: &mut Session,
    request: &Request<'_>,
    id: String,
    known: &mut HashMap<String, Verdicts>,
) -> Outcome {
    let with_id = request.clone().id(CallId::new(&id).kept(LONG));
    if let Some(first) = known.get(&id) {
        let again = session.repeat(&with_id).await?;
        session.ensure(again == *first, || {
            format!("the answer is not the first one, {first:?}, but {again:?}")
        })?;
        let first = first.again().into_receipt();
        return session.ensure(again.into_receipt() == first, || {
            "the receipt is not that of the first answer".to_owned()
        });
    }
    let answers = session.ask(&with_id).await?;
    session.alike(&answers)?;
    if answers.store.is_allowed() {
        known.insert(id, answers.store);
    }
    Ok(())
}

/// An id that was used for another call is an error, which changes nothing. The same id of another
/// key is another id.
pub async fn an_id_of_another_call_changes_nothing(harness: &Stores, plan: &Plan) {
    for limit in by_days(plan.limits()) {
        let store = harness.store().await;
        let [alice, bob] = keys();
        let check = |key: &'static str, cost| {
            let key = if key == "alice" { &alice } else { &bob };
            Check::new(&limit, key.key(), cost)
        };
        let asked = |check| Request::consume(check).id("request");
        if store.supports(&asked(check("alice", 1))).is_err() {
            continue;
        }
        let first = store.decide(asked(check("alice", 1))).await.unwrap();
        for other in [
            asked(check("alice", 2)),
            Request::take_up_to(check("alice", 1)).id("request"),
        ] {
            let error = store.decide(other).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{limit}: {error}");
        }
        let again = store.decide(asked(check("alice", 1))).await.unwrap();
        assert_eq!(first, again, "{limit}");
        let bobs = store.decide(asked(check("bob", 2))).await.unwrap();
        assert_eq!(bobs.remaining(), first.remaining() - 1, "{limit}");
        for refused in ["", &"x".repeat(1_001)] {
            let request = Request::consume(check("alice", 1)).id(refused);
            let error = store.decide(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{limit}: {error}");
        }
        let peek = Request::peek(check("alice", 1));
        let error = store.decide(peek.clone().id("peek")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{limit}: {error}");
        let left = store.decide(peek).await.unwrap().remaining();
        assert_eq!(left, first.remaining(), "{limit}");
    }
}

/// Of many callers who make one call at once, one is counted, and all get its answer.
pub async fn concurrent_repeats_are_one(harness: &Stores, plan: &Plan) {
    for limit in by_days(plan.limits()) {
        let store = harness.store().await;
        let key = Arc::new(OwnedKey::fresh("alice"));
        let asked = Request::consume(Check::new(&limit, key.key(), 1)).id("request");
        if store.supports(&asked).is_err() {
            continue;
        }
        let answers = race(CALLERS, |_| {
            let (limit, store, key) = (limit.clone(), Arc::clone(&store), key.clone());
            async move {
                let request = Request::consume(Check::new(&limit, key.key(), 1));
                store.decide(request.id("request")).await.unwrap()
            }
        });
        let answers = answers.await;
        for answer in &answers {
            assert_eq!(*answer, answers[0], "{limit}");
        }
        let peek = Request::peek(Check::new(&limit, key.key(), 1));
        let left = store.decide(peek).await.unwrap().remaining();
        assert_eq!(left, AMOUNT - 1, "{limit}");
    }
}

/// The answer to a denied call is not kept: repeated, the call is decided anew.
pub async fn denials_are_not_kept(harness: &Stores, plan: &Plan) {
    for limit in by_days(plan.limits()) {
        let store = harness.store().await;
        let key = OwnedKey::fresh("alice");
        let check = |cost| Check::new(&limit, key.key(), cost);
        let asked = || Request::consume(check(1)).id("request");
        if store.supports(&asked()).is_err() {
            continue;
        }
        let _ = store.decide(Request::consume(check(AMOUNT))).await.unwrap();
        assert!(store.decide(asked()).await.unwrap().is_denied(), "{limit}");
        store.reset([check(0)].as_slice().into()).await.unwrap();
        let first = store.decide(asked()).await.unwrap();
        assert!(first.is_allowed(), "{limit}");
        assert_eq!(store.decide(asked()).await.unwrap(), first, "{limit}");
    }
}

/// An answer is forgotten once it has been kept for as long as the call says.
pub async fn answers_are_forgotten(harness: &Stores, plan: &Plan) {
    for limit in by_days(plan.limits()) {
        let store = harness.store().await;
        let key = OwnedKey::fresh("alice");
        let asked = || {
            let request = Request::consume(Check::new(&limit, key.key(), 1));
            request.id(CallId::new("request").kept(SHORT))
        };
        if store.supports(&asked()).is_err() {
            continue;
        }
        let first = store.decide(asked()).await.unwrap();
        tokio::time::sleep(3 * SHORT).await;
        let second = store.decide(asked()).await.unwrap();
        assert_eq!(second.remaining(), first.remaining() - 1, "{limit}");
    }
}

/// A receipt that was made from bytes is as good as the first: a refund or a settlement with it counts once for
/// each id, and for no other key.
pub async fn receipts_from_bytes_are_used_once_for_each_id(harness: &Stores, plan: &Plan) {
    for limit in by_days(plan.limits()) {
        let store = harness.store().await;
        for (settles, left) in [(false, AMOUNT - 1), (true, AMOUNT - 2)] {
            let [alice, bob] = keys();
            let check = |cost| Check::new(&limit, alice.key(), cost);
            if store
                .supports(&Request::consume(check(1)).id("id"))
                .is_err()
            {
                continue;
            }
            let first = store.decide(Request::consume(check(3))).await.unwrap();
            let bytes = first.into_receipt().unwrap().to_bytes();
            let _ = store.decide(Request::consume(check(1))).await.unwrap();
            // The message comes twice.
            for key in [&bob, &alice, &alice] {
                let receipt = Receipt::from_bytes(&bytes).unwrap();
                let check = Check::new(&limit, key.key(), 1);
                let request = match settles {
                    true => Request::settle(&receipt, check),
                    false => Request::refund(&receipt, check),
                };
                let answer = store.decide(request.id("message")).await;
                if std::ptr::eq(key, &bob) {
                    let error = answer.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Malformed, "{limit}: {error}");
                } else {
                    assert_eq!(answer.unwrap().remaining(), left, "{limit}");
                }
            }
            let peek = store.decide(Request::peek(check(1))).await.unwrap();
            assert_eq!(peek.remaining(), left, "{limit}");
        }
    }
}

/// What the limits of these promises admit in a day.
const AMOUNT: u64 = 8;

fn by_days(limits: &[Limit]) -> Vec<Limit> {
    let limits = limits.iter();
    limits
        .map(|limit| by_the_day(limit, AMOUNT, AMOUNT))
        .collect()
}

impl Session {
    /// Repeats a call that has been answered; the machine is not asked.
    async fn repeat(&self, request: &Request<'_>) -> Outcome<Verdicts> {
        let request = if self.by_its_own_clock {
            request.clone()
        } else {
            request.clone().at(self.now)
        };
        match self.store.decide(request).await {
            Ok(verdicts) => Ok(verdicts),
            Err(error) if error.kind() == ErrorKind::Unsupported => Err(Stop::Moot),
            Err(error) => Err(self.failure(&format!("a repeated call failed: {error:?}"))),
        }
    }
}
