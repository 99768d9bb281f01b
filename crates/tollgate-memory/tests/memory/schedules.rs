//! Schedules in memory: at most `max_keys` keys, no event dropped that still counts, and no lost
//! update between threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tollgate_core::FixedWindow;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{self, Event, MAX_EVENTS, Placement, Schedule};
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, Limit, Quota, StoreError, SyncStore, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/schedule.rs"]
mod example;

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

fn store(max_keys: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().max_keys(max_keys);
    (builder.clock(clock.clone()).build(), clock)
}

/// One event in ten seconds; an event counts for eleven, with the tolerance.
fn plans(store: &MemoryStore) -> Schedule<&MemoryStore> {
    Schedule::new(store, "plans", ["1/10s"]).unwrap()
}

/// Plans an event at `at` by the store's clock, and returns whether it was refused.
fn add(store: &MemoryStore, key: &str, at: Timestamp) -> Result<bool, ErrorKind> {
    let placed = plans(store).add(key, "a", at).run();
    placed
        .map(|placement| placement.is_planned())
        .map_err(|error| error.kind())
}

fn consume(store: &MemoryStore, key: &str) -> Result<bool, ErrorKind> {
    let limit = Limit::new("once", FixedWindow::anchored(Quota::per_day(1))).unwrap();
    let decided = store.decide_now(&Request::consume(Check::new(&limit, key, 1)));
    decided
        .map(|verdicts| verdicts.is_allowed())
        .map_err(|error| error.kind())
}

#[test]
fn the_example_runs() {
    example::run().unwrap();
}

#[test]
fn a_full_store_plans_for_keys_that_it_holds_only() {
    for max_keys in [1, 10, 300] {
        let (store, clock) = store(max_keys);
        let now = clock.now();
        for key in 0..max_keys {
            assert_eq!(add(&store, &format!("held-{key}"), now), Ok(true));
        }
        assert_eq!(store.len(), max_keys);
        for key in 0..50 {
            let new = format!("new-{key}");
            assert_eq!(add(&store, &new, now), Err(ErrorKind::Full));
            assert_eq!(consume(&store, &new), Err(ErrorKind::Full));
        }
        // What holds nothing needs no room.
        let schedule = plans(&store);
        let searched = schedule.next_free("new", now).run().unwrap();
        assert_eq!(searched, Some(now));
        assert!(!schedule.cancel("new", "a").run().unwrap());
        let all = schedule.list("new", Timestamp::UNIX_EPOCH, Timestamp::MAX);
        assert_eq!(all.run().unwrap(), []);
        let heavy = schedule.add("new", "a", now).weight(2).run().unwrap();
        assert!(!heavy.is_planned());
        let later = now.saturating_add(10 * SECOND);
        for key in 0..max_keys {
            let key = format!("held-{key}");
            let added = schedule.add(&key, "b", later).run().unwrap();
            assert!(added.is_planned());
            assert!(!schedule.add(&key, "c", later).run().unwrap().is_planned());
        }
        assert_eq!(store.len(), max_keys);
        // A key whose last event is cancelled makes room.
        assert!(schedule.cancel("held-0", "a").run().unwrap());
        assert_eq!(store.len(), max_keys);
        assert!(schedule.cancel("held-0", "b").run().unwrap());
        assert_eq!(store.len(), max_keys - 1);
        assert_eq!(add(&store, "new", now), Ok(true));
        assert_eq!(store.len(), max_keys);
    }
}

#[test]
fn room_is_made_when_the_last_event_is_over_and_not_before() {
    for max_keys in [1, 10, 64] {
        let (store, clock) = store(max_keys);
        let start = clock.now();
        for key in 0..u32::try_from(max_keys).unwrap() {
            let at = start.saturating_add(key * SECOND);
            assert_eq!(add(&store, &format!("early-{key}"), at), Ok(true));
        }
        clock.set(start.saturating_add(11 * SECOND - MICRO));
        for key in 0..max_keys {
            let far = clock.now().saturating_add(3_600 * SECOND);
            assert_eq!(add(&store, "late", far), Err(ErrorKind::Full));
            assert_eq!(consume(&store, "late"), Err(ErrorKind::Full));
            // The event of exactly one more key is over.
            clock.advance(MICRO);
            let new = format!("late-{key}");
            // Schedules make room for limits, too.
            match key % 2 {
                0 => assert_eq!(add(&store, &new, far), Ok(true)),
                _ => assert_eq!(consume(&store, &new), Ok(true)),
            }
            assert_eq!(add(&store, "late", far), Err(ErrorKind::Full));
            clock.advance(SECOND - MICRO);
        }
    }
}

#[test]
fn limits_make_room_for_schedules() {
    let (store, clock) = store(10);
    for key in 0..10 {
        assert_eq!(consume(&store, &key.to_string()), Ok(true));
    }
    let far = || clock.now().saturating_add(3_600 * SECOND);
    assert_eq!(add(&store, "k", far()), Err(ErrorKind::Full));
    clock.advance(86_400 * SECOND);
    assert_eq!(add(&store, "k", far()), Ok(true));
    assert!(store.len() <= 10);
}

/// One call does not look at every schedule.
#[test]
fn room_is_made_in_small_steps() {
    let (store, clock) = store(4_000);
    for key in 0..4_000 {
        assert_eq!(add(&store, &key.to_string(), clock.now()), Ok(true));
    }
    clock.advance(11 * SECOND);
    assert_eq!(consume(&store, "new"), Ok(true));
    let left = store.len();
    assert!((4_000 - 512..4_000).contains(&left), "{left}");
    assert_eq!(store.sweep(), left - 1);
    assert_eq!(store.len(), 1);
}

#[test]
fn new_keys_drop_schedules_that_are_over() {
    let (store, clock) = store(1_000_000);
    let mut most = 0;
    for key in 0..20_000 {
        assert_eq!(add(&store, &key.to_string(), clock.now()), Ok(true));
        clock.advance(Duration::from_millis(11));
        most = most.max(store.len());
    }
    // A thousand count at a time.
    assert!((1_000..4_000).contains(&most), "{most}");
}

#[test]
fn sweeps_clear_and_reset_drop_what_they_say() {
    let (store, clock) = store(100);
    let schedule = plans(&store);
    let now = clock.now();
    let empty = store.bytes();
    for key in ["a", "b"] {
        assert_eq!(add(&store, key, now), Ok(true));
        let placed = schedule.add(key, "a", now).at(now).run().unwrap();
        assert!(placed.is_planned());
    }
    assert!(store.bytes() > empty);
    assert_eq!(store.len(), 4);
    let over = now.saturating_add(11 * SECOND);
    // Callers' instants and the store's clock count apart.
    assert_eq!(store.sweep(), 0);
    assert_eq!(store.sweep_at(over.min(now)), 0);
    assert_eq!(store.sweep_at(over), 2);
    assert_eq!(store.len(), 2);
    clock.set(over);
    assert_eq!(store.sweep_at(over), 0);
    assert_eq!(store.sweep(), 2);
    assert!(store.is_empty());

    for key in ["a", "b"] {
        assert_eq!(add(&store, key, over), Ok(true));
        let placed = schedule.add(key, "a", over).at(over).run().unwrap();
        assert!(placed.is_planned());
    }
    assert_eq!(consume(&store, "a"), Ok(true));
    // A reset forgets what either clock has planned for the key, and nothing else.
    done(schedule.reset("a").into_future());
    assert_eq!(store.len(), 3);
    assert_eq!(consume(&store, "a"), Ok(false));
    assert_eq!(add(&store, "b", over), Ok(true));
    assert_eq!(store.clear(), 3);
    assert!(store.is_empty());
    assert_eq!(consume(&store, "a"), Ok(true));
}

fn done(reset: impl Future<Output = Result<(), StoreError>>) {
    use std::task::{Context, Poll, Waker};
    let mut reset = std::pin::pin!(reset);
    let polled = reset.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(()))));
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

#[test]
fn events_of_one_clock_are_not_dropped_by_the_other() {
    let (store, clock) = store(1);
    let schedule = plans(&store);
    // By the store's clock, which is in 2020, a caller's event is long over.
    let (past, now) = (Timestamp::UNIX_EPOCH, clock.now());
    let placed = schedule.add("caller", "a", past).at(past).run().unwrap();
    assert!(placed.is_planned());
    assert_eq!(add(&store, "new", now), Err(ErrorKind::Full));
    assert_eq!(consume(&store, "new"), Err(ErrorKind::Full));
    assert_eq!(store.clear(), 1);
    // By a caller's instant at the end of time, an event of the store's clock is, too.
    assert_eq!(add(&store, "store", now), Ok(true));
    let add = schedule.add("new", "a", Timestamp::MAX).at(Timestamp::MAX);
    assert_eq!(add.run().unwrap_err().kind(), ErrorKind::Full);
}

#[test]
fn events_at_callers_instants_stay_while_there_is_room() {
    let (store, _clock) = store(10_000);
    let schedule = plans(&store);
    let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    let placed = |key: &str, at| schedule.add(key, "a", at).at(at).run().unwrap();
    for key in 0..500 {
        assert!(placed(&format!("early-{key}"), early).is_planned());
    }
    for key in 0..500 {
        assert!(placed(&format!("late-{key}"), late).is_planned());
    }
    assert_eq!(store.len(), 1_000);
}

#[test]
fn a_full_store_finds_its_one_schedule_that_is_over_at_once() {
    let limit = Limit::new("once", FixedWindow::anchored(Quota::per_day(1))).unwrap();
    let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    for key in 0..50 {
        let (store, _clock) = store(1);
        let key = key.to_string();
        let placed = plans(&store).add(&key, "a", early).at(early).run();
        assert!(placed.unwrap().is_planned());
        let request = Request::consume(Check::new(&limit, "new", 1)).at(late);
        assert!(store.decide_now(&request).unwrap().is_allowed());
    }
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

/// Threads that reserve for the same keys get different times, and as many events are held as were
/// planned.
#[test]
fn threads_share_no_time_and_lose_no_event() {
    const THREADS: usize = 8;
    const EACH: usize = 60;
    let (store, clock) = store(1_000);
    let schedule = Schedule::new(&store, "plans", ["1/10s", "5/1h"]).unwrap();
    let times = Mutex::new(BTreeMap::new());
    let keys: Vec<String> = (0..4).map(|key| format!("key-{key}")).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (schedule, times, keys, clock) = (&schedule, &times, &keys, &clock);
            scope.spawn(move || {
                for number in 0..EACH {
                    let (key, id) = (&keys[number % 4], format!("{thread}-{number}"));
                    let placed = schedule.reserve_next(key, &id, clock.now()).run();
                    let time = placed.unwrap().permit().unwrap();
                    let taken = times.lock().unwrap().insert((key.clone(), time), id);
                    assert_eq!(taken, None, "{time:?} was given twice");
                    // A key that comes and goes.
                    let brief = schedule.add("brief", "x", clock.now()).run().unwrap();
                    if let Placement::Planned { is_new: true, .. } = brief {
                        schedule.cancel("brief", "x").run().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(times.into_inner().unwrap().len(), THREADS * EACH);
    for key in &keys {
        let all = schedule.list(key, Timestamp::UNIX_EPOCH, Timestamp::MAX);
        assert_eq!(all.run().unwrap().len(), THREADS * EACH / 4);
    }
    assert_eq!(store.len(), keys.len());
}

#[test]
fn a_reset_needs_no_executor() {
    let (store, clock) = store(3);
    let schedule = plans(&store);
    let now = clock.now();
    let add = || schedule.add("k", "a", now);
    assert!(add().run().unwrap().is_planned());
    assert!(add().at(now).run().unwrap().is_planned());
    assert_eq!(store.len(), 2);
    schedule.reset("k").run().unwrap();
    assert!(store.is_empty());
    assert_eq!(
        format!("{:?}", schedule.reset("secret")),
        r#"Reset { schedule: "plans", key: Key(6 + 0 bytes) }"#
    );
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
        let planned = |placement: Result<Placement, StoreError>| placement.unwrap().permit();
        let now = before(300);
        let free = schedule.latest_free(key, end).at(now);
        assert_eq!(free.run().unwrap(), Some(end));
        let free = schedule.next_free(key, end).at(now);
        assert_eq!(free.run().unwrap(), Some(end));
        assert_eq!(planned(schedule.add(key, "a", end).at(now).run()), Ok(end));
        let third = |weight| {
            let add = schedule.add(key, "c", end).with_latest();
            planned(add.weight(weight).at(now).run())
        };
        // The last day, week, month or year has room for one more.
        let refusal = third(2).unwrap_err();
        assert_eq!(refusal.next_free(), None);
        let latest = refusal.latest_free();
        assert!(latest < Some(end) && latest > Some(before(40)));
        let reserved = schedule.reserve_next(key, "b", end).at(end).run();
        assert_eq!(planned(reserved), Ok(end));
        let free = schedule.next_free(key, end).at(end);
        assert_eq!(free.run().unwrap(), None);
    }
}

#[test]
fn a_refusal_says_whether_there_is_ever_room() {
    let (store, clock) = store(3);
    let schedule = Schedule::new(&store, "plans", ["3/1s", "2/10s"]).unwrap();
    let now = clock.now();
    let refused = |placement: Result<Placement, StoreError>| placement.unwrap().permit();
    for weight in [3, 4] {
        for call in [
            schedule.add("k", "a", now),
            schedule.reserve_next("k", "a", now),
        ] {
            let refusal = refused(call.weight(weight).run()).unwrap_err();
            assert!(refusal.is_too_heavy());
            assert_eq!(refusal.quota().unwrap().to_string(), "2/10s");
            let said = refusal.to_string();
            assert!(said.contains("never has room"), "{said}");
            assert!(said.ends_with("a weight of at most 2"), "{said}");
        }
    }
    assert_eq!(
        refused(schedule.add("k", "a", now).weight(2).run()),
        Ok(now)
    );
    let refusal = refused(schedule.add("k", "b", now).run()).unwrap_err();
    assert!(!refusal.is_too_heavy());
    assert!(refusal.to_string().contains("no room at this time"));
    let events = [("c", 1), ("d", 3)];
    let events = events
        .iter()
        .map(|(id, weight)| Event::new(*id, now.saturating_add(60 * SECOND)).with_weight(*weight));
    let placement = schedule.add_all("k", events).run().unwrap();
    assert!(!placement.is_planned());
    let refusal = placement.permit().unwrap_err();
    assert_eq!(refusal.index(), 1);
    assert!(refusal.refusal().is_too_heavy());
}
