//! Schedules in memory: which clock makes room, when events are over, and what they cost.

use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{self, Event, MAX_EVENTS, Placement, Schedule};
use tollgate_core::{ErrorKind, Timestamp};
use tollgate_memory::{Clock, MemoryStore};

use crate::held::{MICRO, SECOND, plans, store};

/// Plans an event at `at` by the store's clock, and returns whether it was refused.
fn add(store: &MemoryStore, key: &str, at: Timestamp) -> Result<bool, ErrorKind> {
    let placed = plans(store).add(key, "a", at).run();
    placed
        .map(|placement| placement.is_planned())
        .map_err(|error| error.kind())
}

#[test]
fn what_plans_nothing_needs_no_room() {
    let (store, clock) = store(1);
    let now = clock.now();
    let later = now.saturating_add(10 * SECOND);
    let schedule = plans(&store);
    assert_eq!(add(&store, "held", now), Ok(true));
    assert!(schedule.add("held", "b", later).run().unwrap().is_planned());
    assert_eq!(schedule.next_free("new", now).run().unwrap(), Some(now));
    assert!(!schedule.cancel("new", "a").run().unwrap());
    let all = schedule.list("new", Timestamp::UNIX_EPOCH, Timestamp::MAX);
    assert_eq!(all.run().unwrap(), []);
    let heavy = schedule.add("new", "a", now).weight(2).run().unwrap();
    assert!(!heavy.is_planned());
    // A key whose last event is cancelled makes room.
    for (id, is_room) in [("a", false), ("b", true)] {
        assert!(schedule.cancel("held", id).run().unwrap());
        assert_eq!(store.is_empty(), is_room);
    }
    assert_eq!(add(&store, "new", now), Ok(true));
}

#[test]
fn callers_instants_and_the_stores_clock_plan_apart() {
    let (store, clock) = store(3);
    let schedule = plans(&store);
    let now = clock.now();
    let ahead = now.saturating_add(3_600 * SECOND);
    assert_eq!(add(&store, "k", now), Ok(true));
    // Not in the way, nor past.
    let placed = schedule.add("k", "b", now).at(now).run().unwrap();
    assert!(placed.is_planned());
    let placed = schedule.add("k", "c", ahead).at(ahead).run().unwrap();
    assert!(placed.is_planned());
    assert_eq!(store.len(), 2);
    assert_eq!(add(&store, "full", now), Ok(true));
    // Only an instant of a caller tells that callers' events are over, and makes room.
    clock.advance(10 * SECOND);
    assert_eq!(add(&store, "new", clock.now()), Err(ErrorKind::Full));
    let late = ahead.saturating_add(11 * SECOND);
    let placed = schedule.add("new", "a", late).at(late).run().unwrap();
    assert!(placed.is_planned());
    // And it makes room of what is over by the store's clock.
    clock.advance(SECOND);
    let placed = schedule.add("more", "a", late).at(late).run().unwrap();
    assert!(placed.is_planned());
    assert!(store.len() <= 3);
}

/// Events expire by the terms of the last call that changed them, not of one that looked.
#[test]
fn only_a_change_says_when_events_are_over() {
    let (store, clock) = store(10);
    let now = clock.now();
    let terms = |window: &str| schedule::Terms::new("plans", [window]).unwrap();
    let [long, short] = ["1/1h", "1/1s"].map(|of| Schedule::with_terms(&store, terms(of)));
    assert!(long.add("k", "a", now).run().unwrap().is_planned());
    assert_eq!(
        short.next_free("k", now).run().unwrap().unwrap(),
        now.saturating_add(SECOND)
    );
    let planned = short.add("k", "a", now).run().unwrap();
    let is_old = Placement::Planned {
        time: now,
        is_new: false,
    };
    assert_eq!(planned, is_old);
    assert!(!short.add("k", "b", now).run().unwrap().is_planned());
    assert!(!short.cancel("k", "b").run().unwrap());
    clock.advance(60 * SECOND);
    assert_eq!(store.sweep(), 0);
    let refused = long.add("k", "b", clock.now()).run().unwrap();
    assert!(!refused.is_planned());
    // A change by the shorter terms says so.
    assert!(short.add("k", "b", clock.now()).run().unwrap().is_planned());
    clock.advance(2 * SECOND);
    assert_eq!(store.sweep(), 1);
}

#[test]
fn what_moves_reserves_or_cancels_says_when_events_are_over() {
    let changes: [fn(&Schedule<&MemoryStore>, Timestamp) -> bool; 3] = [
        |by, now| {
            let moved = by.reschedule("k", "a", now.saturating_add(SECOND));
            moved.run().unwrap().is_planned()
        },
        |by, now| by.reserve_next("k", "c", now).run().unwrap().is_planned(),
        |by, _| by.cancel("k", "b").run().unwrap(),
    ];
    for change in changes {
        let (store, clock) = store(10);
        let now = clock.now();
        let [long, short] =
            ["9/1h", "9/1s"].map(|window| Schedule::new(&store, "plans", [window]).unwrap());
        for id in ["a", "b"] {
            assert!(long.add("k", id, now).run().unwrap().is_planned());
        }
        clock.advance(MICRO);
        assert!(change(&short, now));
        clock.advance(60 * SECOND);
        assert_eq!(store.sweep(), 1);
    }
}

/// Documented as 300 + 64 max(`E`, 4) + `E` `L` bytes.
#[test]
fn schedules_cost_what_the_documentation_says() {
    for (events, length) in [(1, 1), (3, 200), (5, 32), (1_000, 200), (3_700, 32)] {
        let (store, clock) = store(1_000_000);
        let terms = schedule::Terms::new("plans", ["100/6m"]).unwrap();
        let schedule = Schedule::with_terms(&store, terms);
        let keys = (20_000 / events).clamp(2, 5_000);
        for key in 0..keys {
            let key = key.to_string();
            for event in 0..events {
                let id = format!("{event:0>length$}");
                let id = &id[id.len() - length..];
                let by = u32::try_from(event / 100).unwrap() * 360;
                let at = clock.now().saturating_add(by * SECOND);
                assert!(schedule.add(&key, id, at).run().unwrap().is_planned());
            }
        }
        let most = 300 + 64 * events.max(4) + events * length;
        // The tables of 32 shards hold a few buckets each, however few keys there are.
        let tables = 32 * 8 * 65;
        let bytes = store.bytes();
        assert!(
            bytes <= keys * most + tables,
            "{events} of {length}: {bytes}"
        );
        assert!(
            2 * bytes >= keys * events * (32 + length),
            "{bytes} are too few"
        );
    }
    // The largest key.
    let most = 300 + 64 * MAX_EVENTS + MAX_EVENTS * 200;
    assert!((26_000_000..27_000_000).contains(&most), "{most}");
}

/// An event keeps its weight; in a request, a weight that would be ignored is an error.
#[test]
fn an_event_is_not_moved_with_another_weight() {
    let (store, clock) = store(3);
    let schedule = Schedule::new(&store, "plans", ["3/10s"]).unwrap();
    let (now, later) = (clock.now(), clock.now().saturating_add(SECOND));
    let heavy = schedule.add("k", "a", now).weight(2).run().unwrap();
    assert!(heavy.is_planned());
    let heavier = schedule::Operation::Reschedule(Event::new("a", later).with_weight(2));
    let request = schedule::Request::new(schedule.terms(), "k", heavier);
    let error = store.schedule_now(&request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("keeps its weight"), "{error}");
    let moved = schedule.reschedule("k", "a", later).run().unwrap();
    assert_eq!(moved.permit(), Ok(later));
    let listed = schedule.list("k", now, Timestamp::MAX).run().unwrap();
    assert_eq!((listed[0].time(), listed[0].weight()), (later, 2));
}

#[cfg(feature = "calendar")]
#[test]
fn calendars_reach_to_the_end_of_time() {
    let store = MemoryStore::new();
    let end = Timestamp::MAX;
    let before = |days: u64| {
        let micros = end.as_micros() - days * 86_400_000_000;
        Timestamp::from_micros(micros).unwrap()
    };
    for quota in ["2/day@Europe/Berlin", "2/week@Asia/Tokyo", "2/month@UTC"] {
        let (schedule, key) = (Schedule::new(&store, "plans", [quota]).unwrap(), quota);
        let planned =
            |placement: Result<Placement, tollgate_core::StoreError>| placement.unwrap().permit();
        let now = before(300);
        let free = schedule.next_free(key, end).at(now);
        assert_eq!(free.run().unwrap(), Some(end));
        assert_eq!(planned(schedule.add(key, "a", end).at(now).run()), Ok(end));
        let third = |weight| {
            let add = schedule.add(key, "c", end);
            planned(add.weight(weight).at(now).run())
        };
        // The last day, week, month or year has room for one more.
        let refusal = third(2).unwrap_err();
        assert_eq!(refusal.next_free(), None);
        let reserved = schedule.reserve_next(key, "b", end).at(end).run();
        assert_eq!(planned(reserved), Ok(end));
        let free = schedule.next_free(key, end).at(end);
        assert_eq!(free.run().unwrap(), None);
    }
}
