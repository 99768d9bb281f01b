//! Promises that a store decides as the pure machines, and as the algorithms are defined.

use crate::harness::{Harness, OwnedKey};
use crate::history::{Acts, histories, starts};
use crate::plan::Plan;
use crate::session::{Session, told};

/// Every decision is the one that the pure machine reaches on the same history.
///
/// Field by field, over two keys that interleave, with refunds, resets and a clock that steps back.
///
/// # Panics
///
/// When the promise is broken.
pub async fn agrees_with_the_machine(harness: &impl Harness, plan: &Plan) {
    plan.check_each(
        |limit| (starts(limit), histories(limit, 2, Acts::ALL)),
        async |limit, (start, history)| {
            let mut session = Session::open(harness, start).await;
            let keys = [OwnedKey::fresh("alice"), OwnedKey::fresh("bob")];
            for step in &history {
                let limits = std::slice::from_ref(limit);
                let Some(answers) = session.step(limits, &keys, step).await? else {
                    continue;
                };
                session.ensure(answers.store == answers.machine, || {
                    format!("the machine says\n  {}", told(&answers.machine))
                })?;
            }
            Ok(())
        },
    );
}
