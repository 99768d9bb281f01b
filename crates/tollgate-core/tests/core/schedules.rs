//! Schedules: what answers and requests say of themselves, what a call asks a store, and which times
//! are free.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use tollgate_core::schedule::SyncStore as _;
use tollgate_core::schedule::{
    self, BatchPlacement, Event, Placement, PlannedEvent, Reason, Refusal, Schedule,
};
use tollgate_core::store::Uncovered;
use tollgate_core::{ErrorKind, Key, LimitError, LimitErrorKind, Quota, StoreError, Timestamp};

const NOW: u64 = 1_780_000_000_000_000;
const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn terms(quota: &str) -> schedule::Terms {
    schedule::Terms::new("plans", [quota]).unwrap()
}

/// A store of the events of one key, whose clock stands still at `NOW`.
#[derive(Default)]
struct OneKey {
    state: Mutex<schedule::State>,
    /// Whether it never finds the periods that it needs.
    is_short: bool,
    /// How often it was asked.
    asked: Mutex<usize>,
}

#[async_trait]
impl schedule::Store for OneKey {
    async fn schedule<'a>(
        &'a self,
        request: schedule::Request<'a>,
    ) -> Result<schedule::Answer, StoreError> {
        self.schedule_now(&request)
    }

    async fn reset_schedule<'a>(
        &'a self,
        terms: &'a schedule::Terms,
        key: Key<'a>,
    ) -> Result<(), StoreError> {
        self.reset_schedule_now(terms, key)
    }
}

impl schedule::SyncStore for OneKey {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        *self.asked.lock().unwrap() += 1;
        if self.is_short {
            return Ok(schedule::Answer::Uncovered(Uncovered(at(NOW))));
        }
        Ok(request.decide_on(&mut self.state.lock().unwrap(), at(NOW)))
    }

    fn reset_schedule_now(&self, _: &schedule::Terms, _: Key<'_>) -> Result<(), StoreError> {
        *self.state.lock().unwrap() = schedule::State::default();
        Ok(())
    }
}

fn now<T>(call: impl IntoFuture<Output = T>) -> T {
    let mut future = pin!(call.into_future());
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store waits for nothing"),
    }
}

/// Decides `operation` on the events in `state`.
fn decide(
    state: &mut schedule::State,
    terms: &schedule::Terms,
    now: u64,
    operation: schedule::Operation<'_>,
) -> schedule::Answer {
    schedule::Request::new(terms, "k", operation).decide_on(state, at(now))
}

fn add(
    state: &mut schedule::State,
    terms: &schedule::Terms,
    now: u64,
    id: &str,
    time: u64,
) -> schedule::Answer {
    let event = Event::new(id, at(time));
    decide(state, terms, now, schedule::Operation::Add(vec![event]))
}

#[test]
fn refusals_say_why_and_when_there_is_room() {
    let quota: schedule::Quota = "hourly=5/1h".parse().unwrap();
    let [time, next] = [at(1_800_000_000_000_000), at(1_800_000_060_000_000)];
    let (time_text, next_text) = ("2027-01-15T08:00:00Z", "2027-01-15T08:01:00Z");
    for (reason, said) in [
        (
            Reason::Quota(quota),
            "the quota hourly=5/1h has no room at this time".to_owned(),
        ),
        (
            Reason::Past(time),
            format!("this time is in the past: the earliest possible is {time_text}"),
        ),
        (
            Reason::BeyondHorizon(time),
            format!("this time is beyond the horizon: the latest possible is {time_text}"),
        ),
        (
            Reason::IdTaken(time),
            format!(
                "another event with this id is planned at {time_text}: move it with `reschedule`, \
                 or choose another id"
            ),
        ),
        (
            Reason::UnknownId,
            "no event with this id is planned: add it instead".to_owned(),
        ),
    ] {
        let is_full = matches!(reason, Reason::Quota(_));
        let refusal = Refusal::new(reason);
        let nothing = if is_full {
            "; no later time up to the horizon is free"
        } else {
            ""
        };
        assert_eq!(refusal.to_string(), format!("{said}{nothing}"));
        let refusal = refusal.with_next_free(Some(next));
        let said = format!("{said}; the next free time is {next_text}");
        assert_eq!(refusal.to_string(), said);
        for index in [0, 7] {
            let refused = BatchPlacement::Refused {
                index,
                refusal: refusal.clone(),
            };
            assert!(!refused.is_planned());
            let error = refused.permit().unwrap_err();
            assert_eq!((error.index(), error.refusal()), (index, &refusal));
            assert_eq!(
                error.to_string(),
                format!("the event at index {index}: {said}")
            );
        }
    }
}

#[test]
fn debug_output_of_schedules_shows_the_length_of_ids_only() {
    let time = at(NOW);
    let event = Event::new("secret", time).with_weight(2);
    let fields = format!("{{ id_bytes: 6, time: {time:?}, weight: 2 }}");
    assert_eq!(format!("{event:?}"), format!("Event {fields}"));
    let planned = PlannedEvent::new(*b"secret", time, 2);
    assert_eq!(format!("{planned:?}"), format!("PlannedEvent {fields}"));
    let (from, until, weight) = (time, time, 3);
    for (operation, expected) in [
        (
            schedule::Operation::Add(vec![event]),
            format!("Add([Event {fields}])"),
        ),
        (
            schedule::Operation::Reschedule(event),
            format!("Reschedule(Event {fields})"),
        ),
        (
            schedule::Operation::ReserveNext(event),
            format!("ReserveNext(Event {fields})"),
        ),
        (
            schedule::Operation::Cancel(b"secret"),
            "Cancel { id_bytes: 6 }".to_owned(),
        ),
        (
            schedule::Operation::NextFree { from, weight },
            format!("NextFree {{ from: {time:?}, weight: 3 }}"),
        ),
        (
            schedule::Operation::List { from, until },
            format!("List {{ from: {time:?}, until: {time:?} }}"),
        ),
    ] {
        assert_eq!(format!("{operation:?}"), expected);
    }
    let schedule = Schedule::with_terms((), terms("1/1m"));
    let call = format!("{:?}", schedule.cancel("k", "secret"));
    assert!(
        call.starts_with("Call { schedule: \"plans\", key: "),
        "{call}"
    );
    assert!(
        call.contains("operation: Cancel { id_bytes: 6 }, at: None"),
        "{call}"
    );
    let reset = format!("{:?}", schedule.reset("k"));
    assert!(
        reset.starts_with("Reset { schedule: \"plans\", key: "),
        "{reset}"
    );
}

#[test]
fn a_call_becomes_the_request_that_it_names() {
    let schedule = Schedule::with_terms((), terms("1/1m"));
    let request = schedule.add("k", "a", at(NOW)).into_request();
    assert_eq!(request.caller_time(), None);
    let request = schedule.add("k", "a", at(NOW)).at(at(9)).into_request();
    assert_eq!(request.caller_time(), Some(at(9)));
    let request = schedule.next_free("k", at(NOW)).into_request();
    let operation = format!("{:?}", request.operation());
    assert!(operation.ends_with("weight: 1 }"), "{operation}");
}

#[test]
fn two_events_of_one_call_have_ids_of_their_own() {
    let terms = terms("9/1m");
    for (ids, expected) in [
        (&["a", "b"][..], Ok(())),
        (&["a", "a"], Err(ErrorKind::Malformed)),
        (&["a", "b", "a"], Err(ErrorKind::Malformed)),
    ] {
        let events = ids.iter().map(|id| Event::new(id, at(NOW))).collect();
        let request = schedule::Request::new(&terms, "k", schedule::Operation::Add(events));
        let found = request.validate().map_err(|error| error.kind());
        assert_eq!(found, expected, "{ids:?}");
    }
}

#[test]
fn an_event_is_too_heavy_if_a_quota_never_has_room_for_it() {
    let schedule = Schedule::new(OneKey::default(), "plans", ["3/1h", "2/1d"]).unwrap();
    let placed = |id: &'static str, weight| {
        let call = schedule.add("k", id, at(NOW)).weight(weight);
        call.run().unwrap().permit()
    };
    assert_eq!(placed("a", 2), Ok(at(NOW)));
    let refusal = placed("b", 2).unwrap_err();
    assert!(!refusal.is_too_heavy());
    assert_eq!(refusal.next_free(), Some(at(NOW + DAY)));
    let refusal = placed("b", 3).unwrap_err();
    assert!(refusal.is_too_heavy());
    assert_eq!(
        refusal.to_string(),
        "the quota 2/1d never has room for this event: choose a weight of at most 2"
    );
}

#[test]
fn several_events_are_planned_or_none() {
    let schedule = Schedule::with_terms(OneKey::default(), terms("2/1h"));
    let add = |ids: &[&'static str]| {
        let events = ids.iter().map(|id| Event::new(id, at(NOW)));
        schedule.add_all("k", events).run().unwrap()
    };
    let placed = add(&["a", "b"]);
    assert!(placed.is_planned());
    assert_eq!(placed, BatchPlacement::Planned { added: 2 });
    let error = add(&["a", "c"]).permit().unwrap_err();
    assert_eq!(error.index(), 1);
}

#[test]
fn a_call_brings_more_days_until_the_store_has_enough() {
    for by_waiting in [false, true] {
        let schedule = Schedule::with_terms(OneKey::default(), terms("1/day@UTC"));
        let ids: Vec<String> = (0..90).map(|id| id.to_string()).collect();
        for (id, day) in ids.iter().zip(0..) {
            let call = schedule.add("k", id, at(NOW + day * DAY));
            assert!(call.run().unwrap().is_planned());
        }
        let call = schedule.reserve_next("k", "next", at(NOW));
        let placed = match by_waiting {
            true => now(call),
            false => call.run(),
        };
        // The first midnight after the 90 days.
        let time = at((NOW / DAY + 90) * DAY);
        let is_new = true;
        assert_eq!(placed.unwrap(), Placement::Planned { time, is_new });
    }
}

#[test]
fn a_store_that_never_has_enough_months_is_asked_24_times() {
    for by_waiting in [false, true] {
        let store = OneKey {
            is_short: true,
            ..OneKey::default()
        };
        let schedule = Schedule::with_terms(store, terms("1/month@UTC"));
        let call = schedule.next_free("k", at(NOW));
        let answer = match by_waiting {
            true => now(call),
            false => call.run(),
        };
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::Protocol);
        assert_eq!(*schedule.store().asked.lock().unwrap(), 24);
    }
}

/// A tolerance of a second and a window of ten.
#[test]
fn a_state_is_fresh_when_its_last_event_is_over() {
    let terms = terms("9/10s");
    let mut state = schedule::State::default();
    for (id, time) in [("a", NOW), ("b", NOW + 5 * SECOND)] {
        assert_eq!(
            add(&mut state, &terms, NOW, id, time),
            schedule::Answer::Added(1)
        );
    }
    assert!(!state.is_fresh(&terms, at(NOW + 16 * SECOND - 1)));
    assert!(state.is_fresh(&terms, at(NOW + 16 * SECOND)));
    // Its own clock, at which an event was planned, does not go back.
    let planned = add(&mut state, &terms, NOW + 9 * SECOND, "c", NOW + 9 * SECOND);
    assert_eq!(planned, schedule::Answer::Added(1));
    let cancel = schedule::Operation::Cancel(b"c");
    decide(&mut state, &terms, NOW, cancel);
    let short = schedule::Terms::new("plans", ["9/1s"]).unwrap();
    assert!(state.is_fresh(&short, at(NOW)));
}

#[test]
fn the_bytes_of_events_are_counted() {
    let (terms, id) = (terms("9/10s"), "x".repeat(100));
    let mut state = schedule::State::default();
    assert_eq!(state.heap_bytes(), 0);
    for count in 1..=9 {
        let id = format!("{count}{id}");
        add(&mut state, &terms, NOW, &id, NOW);
        assert_eq!(state.len(), count);
        let bytes = state.heap_bytes();
        let least = count * (32 + 101);
        assert!(
            (least..=least + 32 * count.max(3)).contains(&bytes),
            "{bytes}"
        );
    }
}

#[test]
fn names_of_quotas_and_schedules_are_checked() {
    let quota = Quota::per_hour(5);
    for name in ["", "two words", "ä"] {
        let is_bad = |error: LimitError| error.kind() == LimitErrorKind::Name;
        assert!(is_bad(schedule::Quota::new(name, quota).unwrap_err()));
        assert!(is_bad(schedule::Terms::new(name, ["5/1h"]).unwrap_err()));
        let daily = schedule::CalendarQuota::new(
            1,
            tollgate_core::CalendarUnit::Day,
            jiff::tz::TimeZone::UTC,
        );
        assert!(is_bad(schedule::Quota::calendar(name, daily).unwrap_err()));
    }
    assert_eq!(
        schedule::Quota::new("hourly", quota).unwrap().name(),
        "hourly"
    );
    assert_eq!("5/1h".parse::<schedule::Quota>().unwrap().name(), "5/1h");
}
