//! Where events are planned, and in which order they come.

use super::*;

/// Adding, moving, reserving or cancelling again what is planned already changes nothing, and says
/// so.
pub async fn a_call_repeated_changes_nothing(harness: &Schedules, plan: &Plan) {
    let ids = ids();
    plan.check(&(setups(), steps(100)), async |(setup, steps)| {
        let store = harness.store().await;
        let terms = setup.terms(1);
        let key = OwnedKey::fresh("alice");
        let now = stamp(START);
        for step in &steps {
            let ask_once = async || {
                let request = request(&terms, key.key(), step, &ids, 1, START).at(now);
                ask(&*store, request).await
            };
            let list = async || {
                let request = schedule::Request::new(&terms, key.key(), EVERYTHING).at(now);
                ask(&*store, request).await
            };
            let first = ask_once().await;
            let before = list().await;
            let second = ask_once().await;
            let expected = match first.clone() {
                schedule::Answer::Added(_) => schedule::Answer::Added(0),
                schedule::Answer::Planned { time, .. } => schedule::Answer::Planned {
                    time,
                    is_new: false,
                },
                schedule::Answer::Cancelled(_) => schedule::Answer::Cancelled(false),
                other => other,
            };
            if second != expected {
                return Err(differs(step, &second, &expected));
            }
            let after = list().await;
            if after != before {
                return Err(differs(step, &after, &before));
            }
        }
        Ok(())
    });
}

/// A set of events that fits can be added in any order, and one by one or together.
pub async fn the_order_of_additions_makes_no_difference(harness: &Schedules, plan: &Plan) {
    let times = vec((0_u64..100, any::<u32>()), 1..30);
    plan.check(&(setups(), times), async |(mut setup, times)| {
        (setup.horizon, setup.tolerance) = (200, 0);
        let store = harness.store().await;
        let terms = setup.terms(1);
        let (first, second, third) = (
            OwnedKey::fresh("first"),
            OwnedKey::fresh("second"),
            OwnedKey::fresh("third"),
        );
        let now = stamp(START);
        let ids: Vec<String> = (0..times.len())
            .map(|index| format!("id-{index}"))
            .collect();
        let event = |index: usize| Event::new(&ids[index], stamp(START + times[index].0));
        let add = async |key: &OwnedKey, events: Vec<Event<'_>>| {
            let operation = schedule::Operation::Add(events);
            ask(
                &*store,
                schedule::Request::new(&terms, key.key(), operation).at(now),
            )
            .await
        };
        let mut fitting = Vec::new();
        for index in 0..times.len() {
            if add(&first, vec![event(index)]).await == schedule::Answer::Added(1) {
                fitting.push(index);
            }
        }
        if fitting.is_empty() {
            return Ok(());
        }
        fitting.sort_by_key(|index| times[*index].1);
        for index in &fitting {
            let answer = add(&second, vec![event(*index)]).await;
            if answer != schedule::Answer::Added(1) {
                return Err(Stop::Broken(format!(
                    "in another order, {index} was {answer:?}"
                )));
            }
        }
        let together = add(&third, fitting.iter().map(|index| event(*index)).collect()).await;
        if together != schedule::Answer::Added(fitting.len()) {
            return Err(Stop::Broken(format!("together, they were {together:?}")));
        }
        // What one of them refuses, all of them refuse, and none has changed by it.
        for time in 0..100 {
            let probe = Event::new("probe", stamp(START + time));
            let mut answers = Vec::new();
            for key in [&first, &second, &third] {
                let answer = add(key, vec![probe]).await;
                if answer == schedule::Answer::Added(1) {
                    let operation = schedule::Operation::Cancel(b"probe");
                    let request = schedule::Request::new(&terms, key.key(), operation).at(now);
                    let found = ask(&*store, request).await;
                    assert_eq!(found, schedule::Answer::Cancelled(true));
                }
                answers.push(answer);
            }
            if answers[0] != answers[1] || answers[0] != answers[2] {
                return Err(Stop::Broken(format!("at {time} they differ: {answers:?}")));
            }
        }
        Ok(())
    });
}

/// `NextFree` names a time that is free, and no earlier one is. A refusal names the same time.
pub async fn next_free_is_the_first_free_time(harness: &Schedules, plan: &Plan) {
    let times = vec(0_u64..60, 1..20);
    plan.check(
        &(setups(), times, 0_u64..60),
        async |(mut setup, times, from)| {
            (setup.horizon, setup.tolerance) = (80, 0);
            let store = harness.store().await;
            let terms = setup.terms(1);
            let key = OwnedKey::fresh("alice");
            let now = stamp(START);
            let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
            let ids: Vec<String> = (0..times.len())
                .map(|index| format!("id-{index}"))
                .collect();
            for (id, time) in ids.iter().zip(&times) {
                let event = Event::new(id, stamp(START + time));
                ask(&*store, of(schedule::Operation::Add(vec![event]))).await;
            }
            // Adds an event at every time, and removes it again.
            let mut free = Vec::new();
            for time in START..=START + 80 {
                let add = schedule::Operation::Add(vec![Event::new("probe", stamp(time))]);
                if ask(&*store, of(add)).await == schedule::Answer::Added(1) {
                    free.push(stamp(time));
                    ask(&*store, of(schedule::Operation::Cancel(b"probe"))).await;
                }
            }
            let from = stamp(START + from);
            let next = free.iter().copied().find(|time| *time >= from);
            let search = schedule::Operation::NextFree { from, weight: 1 };
            let answer = ask(&*store, of(search)).await;
            if answer != schedule::Answer::Found(next) {
                return Err(Stop::Broken(format!("{answer:?}, but free are {free:?}")));
            }
            let add = schedule::Operation::Add(vec![Event::new("probe", from)]);
            match ask(&*store, of(add)).await {
                schedule::Answer::Added(1) if next == Some(from) => Ok(()),
                schedule::Answer::Refused { refusal, .. }
                    if refusal.next_free() == next && refusal.quota().is_some() =>
                {
                    Ok(())
                }
                other => Err(Stop::Broken(format!("{other:?}, but free are {free:?}"))),
            }
        },
    );
}

/// Of callers who reserve at once, none breaks a quota, no time is given twice where the quota is
/// one, and everyone who asks again with the same id gets the same time.
pub async fn concurrent_callers_break_no_quota(harness: &Schedules, _plan: &Plan) {
    const CALLERS: usize = 16;
    const EACH: usize = 4;
    for _ in 0..4 {
        let store = harness.store().await;
        let terms = schedule::Terms::new("plans", ["1/1m", "5/1h", "10/1d"]).unwrap();
        let schedule = Schedule::with_terms(store, terms);
        let key = fresh_key("alice");
        let from = wall_clock().saturating_add(Duration::from_secs(3_600));
        let planned = race(CALLERS, |caller| {
            let (schedule, key) = (schedule.clone(), key.clone());
            async move {
                let mut times = Vec::new();
                for number in 0..EACH {
                    // Every id is asked for by two callers.
                    let id = format!("{}-{number}", caller / 2);
                    let reserved = schedule.reserve_next(&key, &id, from).await.unwrap();
                    times.push((id, reserved.permit().unwrap()));
                }
                times
            }
        });
        let mut times = std::collections::BTreeMap::new();
        for (id, time) in planned.await.into_iter().flatten() {
            let first = *times.entry(id.clone()).or_insert(time);
            assert_eq!(first, time, "{id} was planned twice");
        }
        let mut sorted: Vec<u64> = times.values().map(|time| time.as_micros()).collect();
        sorted.sort_unstable();
        assert_eq!(sorted.len(), CALLERS / 2 * EACH);
        for (amount, window) in [(1, 60), (5, 3_600), (10, 86_400)] {
            for pair in sorted.windows(amount + 1) {
                let span = pair[amount] - pair[0];
                assert!(span >= window * 1_000_000, "{} in {span} µs", amount + 1);
            }
        }
        // None waits longer than it must.
        let mut expected = schedule::State::default();
        let ids: Vec<String> = (0..sorted.len()).map(|id| id.to_string()).collect();
        for (id, time) in ids.iter().zip(&sorted) {
            let event = Event::new(id, from);
            let request = schedule::Request::new(
                schedule.terms(),
                Key::from(&key),
                schedule::Operation::ReserveNext(event),
            );
            let time = stamp(*time);
            let answer = ask_machine(&mut expected, request, wall_clock());
            assert_eq!(answer, schedule::Answer::Planned { time, is_new: true });
        }
    }
}
