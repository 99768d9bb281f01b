//! What is not planned, and what counts no more.

use super::*;

/// A time before the tolerance or beyond the horizon is refused with the bound, one microsecond
/// further in it is not.
pub async fn times_outside_the_horizon_are_refused(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", ["5/1h"])
        .unwrap()
        .with_horizon(Duration::from_secs(7_200))
        .unwrap()
        .with_tolerance(Duration::from_secs(10))
        .unwrap();
    let key = OwnedKey::fresh("alice");
    let now = stamp(START);
    let (earliest, latest) = (START - 10_000_000, START + 7_200_000_000);
    let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
    let add = |id: &'static str, time| schedule::Operation::Add(vec![Event::new(id, stamp(time))]);
    let reason = |answer: schedule::Answer| match answer {
        schedule::Answer::Refused { refusal, .. } => refusal.reason().clone(),
        other => panic!("not refused: {other:?}"),
    };
    let past = ask(&*store, of(add("a", earliest - 1))).await;
    assert_eq!(reason(past), Reason::Past(stamp(earliest)));
    let found = ask(&*store, of(add("a", earliest))).await;
    assert_eq!(found, schedule::Answer::Added(1));
    let beyond = ask(&*store, of(add("b", latest + 1))).await;
    assert_eq!(reason(beyond), Reason::BeyondHorizon(stamp(latest)));
    let found = ask(&*store, of(add("b", latest))).await;
    assert_eq!(found, schedule::Answer::Added(1));
    let moved = Event::new("a", stamp(latest + 1));
    let moved = ask(&*store, of(schedule::Operation::Reschedule(moved))).await;
    assert_eq!(reason(moved), Reason::BeyondHorizon(stamp(latest)));
    let from = Event::new("c", stamp(latest + 1));
    let reserved = ask(&*store, of(schedule::Operation::ReserveNext(from))).await;
    assert_eq!(reason(reserved), Reason::BeyondHorizon(stamp(latest)));
    let from = Event::new("c", stamp(0));
    let reserved = ask(&*store, of(schedule::Operation::ReserveNext(from))).await;
    let time = stamp(earliest);
    assert_eq!(reserved, schedule::Answer::Planned { time, is_new: true });

    // By the store's own clock, too.
    let real = OwnedKey::fresh("real");
    let hour = Duration::from_secs(3_600);
    let yesterday = stamp(wall_clock().as_micros() - DAY_US);
    let tomorrow = wall_clock().saturating_add(24 * hour);
    for (time, is_past) in [(yesterday, true), (tomorrow, false)] {
        let add = schedule::Operation::Add(vec![Event::new("a", time)]);
        let answer = ask(&*store, schedule::Request::new(&terms, real.key(), add)).await;
        match reason(answer) {
            Reason::Past(earliest) => assert!(is_past && earliest > yesterday),
            Reason::BeyondHorizon(latest) => assert!(!is_past && latest < tomorrow),
            other => panic!("refused for {other:?}"),
        }
    }
}

/// Events that are so long past that they affect no time that can be planned are not listed, leave
/// their ids free, and do not come back if the clock steps back.
pub async fn events_that_are_over_count_no_more(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", ["2/10s"])
        .unwrap()
        .with_horizon(Duration::from_secs(100))
        .unwrap()
        .with_tolerance(Duration::ZERO)
        .unwrap();
    let key = OwnedKey::fresh("alice");
    let second = 1_000_000;
    let at = |now: u64, operation| {
        schedule::Request::new(&terms, key.key(), operation).at(stamp(START + now))
    };
    let add = |id: &'static str, time| {
        schedule::Operation::Add(vec![Event::new(id, stamp(START + time))])
    };
    let listed = async |now: u64| match ask(&*store, at(now, EVERYTHING)).await {
        schedule::Answer::Events(events) => events.len(),
        other => panic!("no list: {other:?}"),
    };
    for id in ["a", "b"] {
        let found = ask(&*store, at(0, add(id, second))).await;
        assert_eq!(found, schedule::Answer::Added(1));
    }
    assert_eq!(listed(11 * second - 1).await, 2);
    assert_eq!(listed(11 * second).await, 0);
    let late = 20 * second;
    assert_eq!(
        ask(&*store, at(late, schedule::Operation::Cancel(b"a"))).await,
        schedule::Answer::Cancelled(false)
    );
    let found = ask(&*store, at(late, add("a", late))).await;
    assert_eq!(found, schedule::Answer::Added(1));
    // What was planned at 20 s is decided as of then, even if the clock steps back.
    let answer = ask(&*store, at(0, add("c", 2 * second))).await;
    let schedule::Answer::Refused { refusal, .. } = answer else {
        panic!("planned in a past that is forgotten: {answer:?}");
    };
    assert_eq!(*refusal.reason(), Reason::Past(stamp(START + late)));
    assert_eq!(listed(late).await, 1);
    store.reset_schedule(&terms, key.key()).await.unwrap();
    assert_eq!(listed(late).await, 0);
    let found = ask(&*store, at(0, add("c", 2 * second))).await;
    assert_eq!(found, schedule::Answer::Added(1));
}

/// Events of one key, or of one schedule, do not count for another.
pub async fn keys_are_independent(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let base = fresh_key("k");
    let long = "x".repeat(300);
    let keys: Vec<OwnedKey> = [
        (base.clone(), ""),
        (format!("{base}:"), ""),
        (base.clone(), ":"),
        (format!("{{{base}}}"), ""),
        (format!("{base}{long}"), ""),
        (format!("{base}{long}"), "x"),
    ]
    .into_iter()
    .map(|(partition, rest)| OwnedKey::of(partition, rest))
    .collect();
    for name in ["plans", "plans-2"] {
        let terms = schedule::Terms::new(name, ["1/1h"]).unwrap();
        for key in &keys {
            let event = Event::new("a", wall_clock().saturating_add(Duration::from_secs(600)));
            let add = schedule::Operation::Add(vec![event]);
            let answer = ask(&*store, schedule::Request::new(&terms, key.key(), add)).await;
            assert_eq!(answer, schedule::Answer::Added(1), "{name}, {key:?}");
        }
    }
    // The store's clock and callers' instants count apart.
    let terms = schedule::Terms::new("plans", ["1/1h"]).unwrap();
    let now = wall_clock();
    let event = Event::new("a", now.saturating_add(Duration::from_secs(600)));
    let add = schedule::Operation::Add(vec![event]);
    let answer = ask(
        &*store,
        schedule::Request::new(&terms, keys[0].key(), add).at(now),
    )
    .await;
    assert_eq!(answer, schedule::Answer::Added(1));
}

/// A request that is not valid fails with `ErrorKind::Malformed` and changes nothing; the largest
/// valid one is planned.
pub async fn malformed_requests_change_nothing(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let terms = schedule::Terms::new("plans", [format!("{MAX_EVENTS_PER_CALL}/1h")]).unwrap();
    let terms = terms.with_horizon(Duration::from_secs(7_200)).unwrap();
    let key = OwnedKey::fresh("alice");
    let now = stamp(START);
    let later = |by: u64| stamp(START + by);
    let longest = "x".repeat(schedule::LONGEST_ID);
    let too_long = "x".repeat(schedule::LONGEST_ID + 1);
    let ids: Vec<String> = (0..=MAX_EVENTS_PER_CALL)
        .map(|id| format!("{id:0>200}"))
        .collect();
    let many = |count: usize| {
        let events = ids[..count].iter().zip(0..);
        schedule::Operation::Add(events.map(|(id, by)| Event::new(id, later(by))).collect())
    };
    let event = |id: &'static str| Event::new(id, later(1));
    for operation in [
        schedule::Operation::Add(Vec::new()),
        schedule::Operation::Add(vec![event("")]),
        schedule::Operation::Add(vec![event("a"), event("b"), event("a")]),
        schedule::Operation::Add(vec![Event::new(&too_long, later(1))]),
        schedule::Operation::Add(vec![event("a").with_weight(0)]),
        many(MAX_EVENTS_PER_CALL + 1),
        schedule::Operation::ReserveNext(event("")),
        schedule::Operation::ReserveNext(event("a").with_weight(0)),
        schedule::Operation::Reschedule(event("")),
        schedule::Operation::Cancel(too_long.as_bytes()),
        schedule::Operation::NextFree {
            from: now,
            weight: 0,
        },
    ] {
        let request = schedule::Request::new(&terms, key.key(), operation).at(now);
        let error = store.schedule(request.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{request:?}: {error}");
    }
    let of = |operation| schedule::Request::new(&terms, key.key(), operation).at(now);
    let list = || of(EVERYTHING);
    let found = ask(&*store, list()).await;
    assert_eq!(found, schedule::Answer::Events(Vec::new()));
    let answer = ask(&*store, of(many(MAX_EVENTS_PER_CALL))).await;
    assert_eq!(answer, schedule::Answer::Added(MAX_EVENTS_PER_CALL));
    let schedule::Answer::Events(events) = ask(&*store, list()).await else {
        panic!("no list");
    };
    assert_eq!(events.len(), MAX_EVENTS_PER_CALL);
    assert!(
        events
            .iter()
            .zip(&ids)
            .all(|(event, id)| event.id() == id.as_bytes())
    );
    let full = ask(
        &*store,
        of(schedule::Operation::Add(vec![Event::new(
            &longest,
            later(0),
        )])),
    )
    .await;
    assert!(matches!(full, schedule::Answer::Refused { .. }), "{full:?}");
}
