//! Closed times of time zones.

use super::*;

/// Nothing is planned at closed times, to the microsecond, also where clocks change.
pub async fn nothing_is_planned_at_closed_times(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    for row in [
        "22:00-08:00@Europe/Berlin | 2026-06-01T22:00+02 | 2026-06-02T08:00+02",
        // A night of nine hours, and one of eleven.
        "22:00-08:00@Europe/Berlin | 2026-03-28T22:00+01 | 2026-03-29T08:00+02",
        "22:00-08:00@Europe/Berlin | 2026-10-24T22:00+02 | 2026-10-25T08:00+01",
        // The time at which it would open is skipped.
        "01:00-02:30@Europe/Berlin | 2026-03-29T01:00+01 | 2026-03-29T03:00+02",
        // The first instant whose local time is outside: half past two comes twice.
        "sun 02:00-02:30@Europe/Berlin | 2026-10-25T02:00+02 | 2026-10-25T02:30+02",
        "sun 02:00-02:30@Europe/Berlin | 2026-10-25T02:00+01 | 2026-10-25T02:30+01",
        // Clocks go back by half an hour, from two o'clock to where it is open.
        "01:45-02:30@Australia/Lord_Howe | 2026-04-05T01:45+11 | 2026-04-05T01:30+10:30",
        "01:45-02:30@Australia/Lord_Howe | 2026-04-05T01:45+10:30 | 2026-04-05T02:30+10:30",
        "sat,sun@Europe/Berlin | 2026-10-24T00:00+02 | 2026-10-26T00:00+01",
        // The day begins at one o'clock.
        "2026-03-08@America/Havana | 2026-03-08T01:00-04 | 2026-03-09T00:00-04",
        "2026-03-07@America/Havana | 2026-03-07T00:00-05 | 2026-03-08T01:00-04",
        // There was no 30th.
        "2011-12-29..2011-12-30@Pacific/Apia | 2011-12-29T00:00-10 | 2011-12-31T00:00+14",
        // Longer than the days that a first request brings.
        "2026-07-01..2026-12-31@UTC | 2026-07-01T00:00Z | 2027-01-01T00:00Z",
    ] {
        let [rule, closes, opens] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let text = format!("quiet=closed {rule}");
        // Calendars of other zones know their days and weeks to other instants.
        let quotas = ["9/1m", "10/1d", "9/day@Asia/Tokyo", "40/week@UTC", &text];
        let terms = schedule::Terms::new("plans", quotas).unwrap();
        let schedule = Schedule::with_terms(Arc::clone(&store), terms);
        let case = format!("{rule}, {closes}");
        let (closes, opens) = (at(closes).as_micros(), at(opens).as_micros());
        check(&schedule, closes, opens, &case).await;
    }
    nothing_is_open_up_to_the_horizon(store).await;
}

/// It is closed from `closes` until before `opens`.
async fn check(schedule: &Schedule<Arc<dyn schedule::Store>>, closes: u64, opens: u64, case: &str) {
    let key = OwnedKey::fresh("alice");
    let now = stamp(closes - 6 * HOUR_US);
    let (last, first) = (stamp(closes - 1), stamp(opens));
    let middle = stamp(closes + (opens - closes) / 2);
    let refused = |placement: Placement| {
        let refusal = placement.permit().unwrap_err();
        let name = refusal.quota().map(schedule::Quota::name);
        assert_eq!(name.as_deref(), Some("quiet"), "{case}");
        assert_eq!(refusal.next_free(), Some(first), "{case}");
        assert!(!refusal.is_too_heavy(), "{case}");
    };
    for time in [stamp(closes), middle, stamp(opens - 1)] {
        let add = schedule.add(key.key(), "a", time).at(now);
        refused(add.await.unwrap());
        let next = schedule.next_free(key.key(), time).at(now).await.unwrap();
        assert_eq!(next, Some(first), "{case}");
    }
    // The open ends, and an event that moves.
    let add = schedule.add(key.key(), "last", last).at(now);
    assert!(add.await.unwrap().is_planned(), "{case}");
    let moves = schedule.reschedule(key.key(), "last", middle).at(now);
    refused(moves.await.unwrap());
    let weighs_two = schedule.reserve_next(key.key(), "first", middle).weight(2);
    let found = weighs_two.at(now).await.unwrap().permit();
    assert_eq!(found, Ok(first), "{case}");
    // The first of several that does not fit, after one that does.
    let events = [("b", first), ("c", middle), ("d", last)];
    let events = events.map(|(id, time)| Event::new(id, time));
    let added = schedule.add_all(key.key(), events).at(now).await.unwrap();
    let refusal = added.permit().unwrap_err();
    assert_eq!(refusal.index(), 1, "{case}");
    let name = refusal.refusal().quota().map(schedule::Quota::name);
    assert_eq!(name.as_deref(), Some("quiet"), "{case}");
    assert_eq!(refusal.refusal().next_free(), Some(first), "{case}");
    let all = schedule.list(key.key(), stamp(0), Timestamp::MAX);
    let all = all.at(now).await.unwrap();
    assert_eq!(all.len(), 2, "{case}");
}

/// A search ends where nothing is open up to the horizon.
async fn nothing_is_open_up_to_the_horizon(store: Arc<dyn schedule::Store>) {
    let quotas = ["1/1h", "closed 2026-06-02..2030-12-31@UTC"];
    let terms = schedule::Terms::new("plans", quotas).unwrap();
    let schedule = Schedule::with_terms(store, terms);
    let key = OwnedKey::fresh("alice");
    let start = at("2026-06-02T00:00Z").as_micros();
    let (now, time) = (stamp(start), stamp(start + HOUR_US));
    let next = schedule.next_free(key.key(), time).at(now).await.unwrap();
    assert_eq!(next, None);
    let later = stamp(start + 2 * HOUR_US);
    let reserved = schedule.reserve_next(key.key(), "a", time).at(now);
    let refusal = reserved.await.unwrap().permit().unwrap_err();
    let name = refusal.quota().map(schedule::Quota::name);
    assert_eq!(name.as_deref(), Some(quotas[1]));
    let add = schedule.add(key.key(), "a", time).at(later);
    let refusal = add.await.unwrap().permit().unwrap_err();
    assert_eq!(refusal.next_free(), None);
}

/// A call is decided by the days and closed times of the zone that it brings. What calls of other zones
/// planned counts by its instant.
pub async fn a_call_brings_its_time_zone(harness: &Schedules, _plan: &Plan) {
    let quotas = ["2/day@local", "night=closed 22:00-08:00@local"];
    let schedule = Schedule::new(harness.store().await, "plans", quotas).unwrap();
    let key = OwnedKey::fresh("alice");
    let [berlin, tokyo, havana] = ZONES.map(|zone| zone.parse_zone());
    let now = at("2026-06-01T00:00Z");
    let add = |id: &'static str, time| schedule.add(key.key(), id, time).at(now);
    let plan =
        async |id, time, zone: &jiff::tz::TimeZone| add(id, time).zone(zone.clone()).await.unwrap();

    // Without a zone, no call finds room, and nothing changes.
    let time = at("2026-06-02T12:00Z");
    let malformed = |error: tollgate_core::StoreError| {
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("`@local`"), "{error}");
    };
    malformed(add("a", time).await.unwrap_err());
    let all = schedule.add_all(key.key(), [Event::new("a", time)]).at(now);
    malformed(all.await.unwrap_err());
    let moves = schedule.reschedule(key.key(), "a", time).at(now);
    malformed(moves.await.unwrap_err());
    let reserves = schedule.reserve_next(key.key(), "a", time).at(now);
    malformed(reserves.await.unwrap_err());
    let next = schedule.next_free(key.key(), time).at(now);
    malformed(next.await.unwrap_err());
    let cancel = schedule.cancel(key.key(), "a").at(now);
    assert!(!cancel.await.unwrap());
    let list = schedule.list(key.key(), now, Timestamp::MAX).at(now);
    assert!(list.await.unwrap().is_empty());

    // In Tokyo, it is never open: nothing changes there, either. In Berlin, it is.
    let quotas = [
        "2/day@local",
        "closed 08:00-20:00@local",
        "closed 11:00-23:00@UTC",
    ];
    let narrow = Schedule::new(harness.store().await, "narrow", quotas).unwrap();
    let error = narrow.add(key.key(), "a", time).zone(tokyo).at(now).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("no time open"), "{error}");
    let next = narrow.next_free(key.key(), time);
    let next = next.zone(berlin.clone()).at(now).await;
    assert_eq!(next.unwrap(), Some(at("2026-06-02T23:00Z")));

    // Seven in the evening of Havana is one at night in Berlin.
    let evening = at("2026-06-02T23:00Z");
    assert!(plan("a", evening, &havana).await.is_planned());
    let refusal = plan("b", evening, &berlin).await.permit().unwrap_err();
    assert_eq!(
        refusal.quota().map(schedule::Quota::name).as_deref(),
        Some("night")
    );
    assert_eq!(refusal.next_free(), Some(at("2026-06-03T08:00+02")));
    // It counts on the third of June in Berlin, and on the second in Havana.
    assert!(
        plan("b", at("2026-06-03T12:00+02"), &berlin)
            .await
            .is_planned()
    );
    let refusal = plan("c", at("2026-06-03T18:00+02"), &berlin);
    let refusal = refusal.await.permit().unwrap_err();
    assert_eq!(refusal.quota().map(schedule::Quota::amount), Some(2));
    assert_eq!(refusal.next_free(), Some(at("2026-06-04T08:00+02")));
    assert!(
        plan("c", at("2026-06-03T18:00+02"), &havana)
            .await
            .is_planned()
    );
    // All other calls bring one, too.
    let full = at("2026-06-03T18:00+02");
    let zone = || berlin.clone();
    let next = schedule.next_free(key.key(), full).zone(zone()).at(now);
    assert_eq!(next.await.unwrap(), Some(at("2026-06-04T08:00+02")));
    let last = stamp(at("2026-06-02T22:00+02").as_micros() - 1);
    let moves = schedule.reschedule(key.key(), "c", evening);
    let moves = moves.zone(zone()).at(now);
    assert!(!moves.await.unwrap().is_planned());
    let events = [Event::new("d", last), Event::new("e", full)];
    let all = schedule.add_all(key.key(), events).zone(zone()).at(now);
    assert_eq!(all.await.unwrap().permit().unwrap_err().index(), 1);
    let reserves = schedule.reserve_next(key.key(), "d", full);
    let reserves = reserves.zone(zone()).at(now);
    let found = reserves.await.unwrap().permit();
    assert_eq!(found, Ok(at("2026-06-04T08:00+02")));
}
