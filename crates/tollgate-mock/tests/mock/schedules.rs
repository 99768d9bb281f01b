//! Schedules.

use std::time::Duration;

use tollgate_core::schedule::{Event, Placement, PlannedEvent, Reason, Refusal, Schedule};
use tollgate_core::{ErrorKind, Key, Timestamp};
use tollgate_mock::{Expectation, MockStore};

use super::{LATER, NOON};

pub(super) fn reminders<S>(store: S) -> Schedule<S> {
    Schedule::new(store, "reminders", ["1/1m", "hourly=5/1h"]).unwrap()
}

#[test]
fn schedules_get_the_answers_of_their_expectations() {
    let mut store = MockStore::new();
    let expected = store.expect_add("reminders", "alice/x").id("a");
    expected.time(NOON).times(1).planned();
    let expected = store.expect_add("reminders", "alice/x");
    expected.id("a").already_planned();
    let expected = store.expect_add("reminders", "alice/x");
    expected.id("b").refused_by("hourly", Some(LATER));
    store.expect_add("reminders", "alice/x").id("c").past(LATER);
    let expected = store.expect_reschedule("reminders", "alice/x");
    expected.times(1).beyond_horizon(NOON);
    store.expect_reschedule("reminders", "alice/x").planned();
    let schedule = reminders(store);
    let key = Key::from("alice").with_rest("/x");
    let planned = |is_new| Placement::Planned { time: NOON, is_new };
    let add = |id: &'static str| schedule.add(key, id, NOON).run().unwrap();
    assert_eq!(add("a"), planned(true));
    assert_eq!(add("a"), planned(false));
    let refusal = add("b").permit().unwrap_err();
    assert_eq!(refusal.quota().unwrap().name(), "hourly");
    assert_eq!(refusal.next_free(), Some(LATER));
    assert_eq!(
        *add("c").permit().unwrap_err().reason(),
        Reason::Past(LATER)
    );
    let moved = schedule.reschedule(key, "a", LATER).run().unwrap();
    let refusal = moved.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::BeyondHorizon(NOON));
    let moved = schedule.reschedule(key, "a", LATER).run().unwrap();
    assert_eq!(moved.permit(), Ok(LATER));
}

#[tokio::test]
async fn schedules_search_reserve_and_list_what_the_test_says() {
    let mut store = MockStore::new();
    let expected = store.expect_reserve_next("reminders", "k");
    expected.id("a").planned_at(LATER);
    let expected = store.expect_reserve_next("reminders", "k");
    expected.id("b").already_planned();
    let expected = store.expect_reserve_next("reminders", "k");
    expected.id("c").refused_by("1/1m", None);
    let expected = store.expect_cancel("reminders", "k");
    expected.id("a").cancelled(true);
    store.expect_cancel("reminders", "k").cancelled(false);
    let expected = store.expect_next_free("reminders", "k");
    expected.time(NOON).found(Some(LATER));
    store.expect_next_free("reminders", "k").found(None);
    let [first, second, third] = [("a", LATER), ("c", NOON), ("b", NOON)]
        .map(|(id, time)| PlannedEvent::new(id.as_bytes(), time, 2));
    store
        .expect_list("reminders", "k")
        .events([first.clone(), second.clone(), third.clone()]);
    let expected = store.expect_reset_schedule("reminders", "k");
    expected.times(1).succeed();
    store
        .expect_reset_schedule("reminders", "k")
        .fail(ErrorKind::Unavailable);
    let expected = store.expect_add("reminders", "k");
    expected.times(2).fail(ErrorKind::Unknown);
    let schedule = reminders(store);
    let reserve = async |id| schedule.reserve_next("k", id, NOON).await.unwrap();
    let planned = |time, is_new| Placement::Planned { time, is_new };
    assert_eq!(reserve("a").await, planned(LATER, true));
    assert_eq!(reserve("b").await, planned(NOON, false));
    assert!(!reserve("c").await.is_planned());
    assert!(schedule.cancel("k", "a").await.unwrap());
    assert!(!schedule.cancel("k", "b").await.unwrap());
    assert_eq!(schedule.next_free("k", NOON).await.unwrap(), Some(LATER));
    assert_eq!(schedule.next_free("k", LATER).await.unwrap(), None);
    // As every store lists them: by time, and then by id.
    let all = schedule.list("k", Timestamp::UNIX_EPOCH, Timestamp::MAX);
    assert_eq!(all.await.unwrap(), [third, second, first]);
    schedule.reset("k").await.unwrap();
    let error = schedule.reset("k").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let error = schedule.add("k", "x", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    // A call that is not valid is no call.
    let error = schedule.add("k", "", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let error = schedule.add("k", "x", NOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
}

#[test]
fn one_of_several_events_is_expected_by_its_id_and_time() {
    let mut store = MockStore::new();
    let expected = store.expect_add("reminders", "k").id("b");
    expected.time(LATER).times(1).planned();
    store.expect_add("reminders", "k").refused_by("1/1m", None);
    let schedule = reminders(store);
    let events = |times: [Timestamp; 2]| [Event::new("a", times[0]), Event::new("b", times[1])];
    let add = |times| schedule.add_all("k", events(times)).run().unwrap().permit();
    // Another event at that time, and that event at another time.
    assert!(add([LATER, NOON]).is_err());
    assert_eq!(add([NOON, LATER]), Ok(2));
}

#[test]
fn the_first_of_several_events_that_has_the_reason_is_refused() {
    let refused = |times: [Timestamp; 2], answer: fn(Expectation<'_, Schedule<MockStore>>)| {
        let mut store = MockStore::new();
        answer(store.expect_add("reminders", "k"));
        let events = [Event::new("a", times[0]), Event::new("b", times[1])];
        let added = reminders(store).add_all("k", events).run().unwrap();
        added.permit().unwrap_err().index()
    };
    assert_eq!(refused([NOON, LATER], |call| call.past(LATER)), 0);
    assert_eq!(refused([LATER, NOON], |call| call.past(LATER)), 1);
    assert_eq!(refused([LATER, NOON], |call| call.beyond_horizon(NOON)), 0);
    assert_eq!(refused([NOON, LATER], |call| call.beyond_horizon(NOON)), 1);
    // A free time is after that of the refused event.
    let between = |call: Expectation<'_, Schedule<MockStore>>| {
        let free = NOON.saturating_add(Duration::from_secs(1));
        call.refused_by("1/1m", Some(free));
    };
    assert_eq!(refused([NOON, LATER], between), 0);
    assert_eq!(refused([LATER, NOON], between), 1);
}

#[test]
fn schedules_get_answers_that_are_just_possible() {
    let mut store = MockStore::new();
    // A time that is free already.
    store.expect_reserve_next("reminders", "k").planned_at(NOON);
    store.expect_next_free("reminders", "k").found(Some(NOON));
    // Reasons that only some operations have.
    let unknown = Refusal::new(Reason::UnknownId);
    store.expect_reschedule("reminders", "k").refused(unknown);
    let taken = Refusal::new(Reason::IdTaken(LATER));
    store.expect_add("reminders", "k").refused(taken);
    let schedule = reminders(store);
    let reserved = schedule.reserve_next("k", "a", NOON).run().unwrap();
    assert_eq!(reserved.permit(), Ok(NOON));
    assert_eq!(schedule.next_free("k", NOON).run().unwrap(), Some(NOON));
    let moved = schedule.reschedule("k", "a", NOON).run().unwrap();
    let refusal = moved.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::UnknownId);
    let added = schedule.add("k", "a", NOON).run().unwrap();
    let refusal = added.permit().unwrap_err();
    assert_eq!(*refusal.reason(), Reason::IdTaken(LATER));
}
