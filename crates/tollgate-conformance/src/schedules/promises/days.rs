//! Days of time zones.

use super::*;

/// Days of a time zone have the hours that the zone gives them, also where clocks change.
pub async fn days_follow_the_time_zone(harness: &Schedules, _plan: &Plan) {
    let store = harness.store().await;
    let zone = "Europe/Berlin".parse_zone();
    for (day, hours) in [("2026-03-29", 23), ("2026-07-01", 24), ("2026-10-25", 25)] {
        let date: jiff::civil::Date = day.parse().unwrap();
        let start = date.to_zoned(zone.clone()).unwrap().timestamp();
        let start = u64::try_from(start.as_microsecond()).unwrap();
        let end = start + hours * HOUR_US;
        let schedule = Schedule::with_terms(
            Arc::clone(&store),
            schedule::Terms::new("plans", ["2/day@Europe/Berlin"]).unwrap(),
        );
        let key = OwnedKey::fresh("alice");
        let now = stamp(start - DAY_US);
        let add = async |id: &str, time: u64| {
            schedule
                .add(key.key(), id, stamp(time))
                .at(now)
                .await
                .unwrap()
        };
        assert!(add("first", start).await.is_planned());
        assert!(add("last", end - 1).await.is_planned());
        let Placement::Refused(refusal) = add("noon", start + 12 * HOUR_US).await else {
            panic!("{day}: a third event was planned");
        };
        assert_eq!(refusal.next_free(), Some(stamp(end)), "{day}");
        assert!(add("next", end).await.is_planned(), "{day}");
        assert!(add("before", start - 1).await.is_planned(), "{day}");
        // Room is far away: the store asks for more days than the first request brings.
        for index in 0..120 {
            let id = format!("id-{index}");
            let placement = schedule.reserve_next(key.key(), &id, stamp(start));
            let placement = placement.at(now).await;
            assert!(placement.unwrap().is_planned(), "{day}, {index}");
        }
        let next = schedule.next_free(key.key(), stamp(start));
        let next = next.at(now).await.unwrap();
        let date = date.checked_add(jiff::Span::new().days(61)).unwrap();
        let free = date.to_zoned(zone.clone()).unwrap().timestamp();
        let expected = Some(stamp(u64::try_from(free.as_microsecond()).unwrap()));
        assert_eq!(next, expected, "{day}");
    }
    has_a_last_day(store).await;
}

/// The last day reaches to the last instant.
async fn has_a_last_day(store: Arc<dyn schedule::Store>) {
    let schedule = Schedule::new(store, "plans", ["2/day@Europe/Berlin"]).unwrap();
    let (key, end) = (OwnedKey::fresh("alice"), Timestamp::MAX);
    let now = stamp(end.as_micros() - 300 * DAY_US);
    let first = schedule.add(key.key(), "first", end).at(now);
    assert!(first.await.unwrap().is_planned());
    let second = schedule.reserve_next(key.key(), "second", end).at(now);
    assert_eq!(second.await.unwrap().permit(), Ok(end));
    let third = schedule.add(key.key(), "third", end).at(now);
    let refusal = third.await.unwrap().permit().unwrap_err();
    assert_eq!(refusal.next_free(), None);
    let free = schedule.next_free(key.key(), end).at(now);
    assert_eq!(free.await.unwrap(), None);
}
