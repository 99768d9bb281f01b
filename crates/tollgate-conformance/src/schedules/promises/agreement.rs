//! Answers equal those of the state machine and of the second definition.

use super::*;

/// Every answer equals that of the state machine, whatever the clock does.
pub async fn agrees_with_the_machine(harness: &Schedules, plan: &Plan) {
    check(harness, plan, false).await;
}

/// Every answer equals that of the second definition, which keeps all events and tries all windows.
pub async fn agrees_with_the_definition(harness: &Schedules, plan: &Plan) {
    check(harness, plan, true).await;
}

async fn check(harness: &Schedules, plan: &Plan, by_definition: bool) {
    let ids = ids();
    let run = async |(setup, steps): (Setup, Vec<Step>), unit: u64| -> Outcome {
        let store = harness.store().await;
        let terms = setup.terms(unit);
        let rules = ZONES.map(|zone| setup.rules(unit, zone));
        let key = OwnedKey::fresh("alice");
        let (mut state, mut naive) = (schedule::State::default(), NaiveSchedule::default());
        let mut now = setup.start;
        for step in &steps {
            now = now.saturating_add_signed(step.moved * i64::try_from(unit).unwrap());
            // The naive definition never forgets, so it needs no clock that steps back.
            if by_definition {
                now = now.max(setup.start);
            }
            let request = request(&terms, key.key(), step, &ids, unit, setup.start).at(stamp(now));
            let found = ask(&*store, request.clone()).await;
            let expected = if by_definition {
                naive.decide(&request, &rules[step.zone], stamp(now))
            } else {
                ask_machine(&mut state, request, stamp(now))
            };
            if found != expected {
                return Err(differs(step, &found, &expected));
            }
        }
        Ok(())
    };
    plan.check(&(setups(), steps(100)), async |history| {
        run(history, 1).await
    });
    plan.check(&(setups_with_days(), steps(1_600)), async |history| {
        run(history, HOUR_US).await
    });
}

/// At the store's own clock, answers equal those of the state machine for times that are neither
/// past nor near the horizon.
pub async fn agrees_with_the_machine_at_its_own_clock(harness: &Schedules, plan: &Plan) {
    let ids = ids();
    plan.check(&(setups(), steps(100)), async |(mut setup, steps)| {
        // Cases take seconds, not hours.
        (setup.horizon, setup.tolerance) = (1_000, 1);
        let (terms, unit) = (setup.terms(HOUR_US), HOUR_US);
        let store = harness.store().await;
        let key = OwnedKey::fresh("alice");
        let mut state = schedule::State::default();
        let now = wall_clock();
        for step in &steps {
            let start = now.as_micros() + 24 * HOUR_US;
            let request = request(&terms, key.key(), step, &ids, unit, start);
            let found = ask(&*store, request.clone()).await;
            let expected = ask_machine(&mut state, request, now);
            if found != expected {
                return Err(differs(step, &found, &expected));
            }
        }
        Ok(())
    });
}
