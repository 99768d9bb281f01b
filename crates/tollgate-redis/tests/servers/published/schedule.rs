//! A schedule of one per minute, five per hour and ten per day, kept in a set of seconds per day.

use tokio::task::JoinSet;
use tollgate_core::schedule::{Placement, Reason};
use tollgate_scenarios::published::{self, MOST_PER_DAY, MOST_PER_HOUR};

use super::support::{OwnSchedule, Place, START_MS, at_ms};

/// At least a day before any scheduled time, so that no scheduled day is over.
const NOW_MS: u64 = START_MS - 86_400_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The same quotas for this library.
const QUOTAS: [&str; 3] = ["1/1m", "5/1h", "10/1d"];

/// Returns how many of the times are accepted, one after another.
async fn accepted(times_ms: impl IntoIterator<Item = u64>) -> usize {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let mut accepted = 0;
    for time in times_ms {
        let accepts = published::schedule(&mut place.connection, &ip, time, NOW_MS).await;
        accepted += usize::from(accepts.unwrap());
    }
    accepted
}

/// Returns how many of the times this library plans within `quotas`, one after another.
async fn planned(
    quotas: impl IntoIterator<Item = &'static str>,
    times_ms: impl IntoIterator<Item = u64>,
) -> usize {
    let schedule = Place::new().await.schedule(quotas);
    let mut planned = 0;
    for (number, time) in times_ms.into_iter().enumerate() {
        let placement = add(&schedule, &number.to_string(), time, NOW_MS).await;
        planned += usize::from(placement.is_planned());
    }
    planned
}

async fn add(schedule: &OwnSchedule, id: &str, time_ms: u64, now_ms: u64) -> Placement {
    let call = schedule.add("ip", id, at_ms(time_ms)).at(at_ms(now_ms));
    call.await.unwrap()
}

#[tokio::test]
async fn a_schedule_ignores_the_day_before() {
    // Two within a second.
    let midnight = START_MS + DAY_MS;
    let two = [midnight - 1_000, midnight];
    assert_eq!(accepted(two).await, 2);
    assert_eq!(planned(QUOTAS, two).await, 1);
    // Twelve within twelve minutes.
    let minutes = || (0..12).map(|minute| midnight + MINUTE_MS * minute - 6 * MINUTE_MS);
    assert_eq!(accepted(minutes()).await, 2 * (MOST_PER_HOUR + 1));
    assert_eq!(planned(QUOTAS, minutes()).await, MOST_PER_HOUR);
    // Twenty within four hours.
    let fifths = || (0..20).map(|fifth| midnight + 12 * MINUTE_MS * fifth - 2 * HOUR_MS);
    assert_eq!(accepted(fifths()).await, 2 * MOST_PER_DAY);
    assert_eq!(planned(QUOTAS, fifths()).await, MOST_PER_DAY);
}

#[tokio::test]
async fn a_limit_compared_with_the_others_accepts_one_more() {
    let minutes = || (0..60).map(|minute| START_MS + MINUTE_MS * minute);
    assert_eq!(accepted(minutes()).await, MOST_PER_HOUR + 1);
    assert_eq!(planned(QUOTAS, minutes()).await, MOST_PER_HOUR);
}

#[tokio::test]
async fn both_sides_of_a_time_are_counted_as_one_window() {
    // Even with the seventh, no hour holds more than five.
    let minutes = [10, 25, 40, 80, 95, 110, 60];
    for minute in minutes {
        let within = |other: &&u64| (minute..minute + 60).contains(*other);
        assert!(minutes.iter().filter(within).count() <= MOST_PER_HOUR);
    }
    let times = minutes.map(|minute| START_MS + MINUTE_MS * minute);
    assert_eq!(accepted(times).await, 6);
    assert_eq!(planned(QUOTAS, times).await, 7);
}

#[tokio::test]
async fn a_read_before_the_write_accepts_every_racer() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let connection = &mut place.connection;
    let mut accepted = Vec::new();
    for _ in 0..20 {
        let reads = published::schedule_reads(connection, &ip, START_MS, NOW_MS).await;
        accepted.extend(reads.unwrap());
    }
    assert_eq!(accepted.len(), 20);
    for accepted in &accepted {
        let written = published::schedule_writes(connection, accepted, NOW_MS).await;
        written.unwrap();
    }
    // All twenty are in one second, and the set stores that second once.
    let day = published::day_key(&ip, START_MS);
    assert_eq!(place.ask::<u64>("SCARD", day).await, 1);

    let schedule = place.schedule(QUOTAS);
    let mut racers = JoinSet::new();
    for racer in 0..20 {
        let schedule = schedule.clone();
        let id = racer.to_string();
        racers.spawn(async move { add(&schedule, &id, START_MS, NOW_MS).await });
    }
    let placements = racers.join_all().await;
    let planned = placements.into_iter().filter(Placement::is_planned);
    assert_eq!(planned.count(), 1);
}

#[tokio::test]
async fn a_time_that_is_accepted_and_never_written_is_lost() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let connection = &mut place.connection;
    // The process ends after it has accepted the time and before it writes.
    let first = published::schedule_reads(connection, &ip, START_MS, NOW_MS).await;
    assert!(first.unwrap().is_some());
    let second = published::schedule(connection, &ip, START_MS, NOW_MS).await;
    assert!(second.unwrap());

    // The answer is the proof that the event was written, and a process that did not get it asks
    // again.
    let schedule = place.schedule(QUOTAS);
    let first = add(&schedule, "first", START_MS, NOW_MS).await;
    assert!(matches!(first, Placement::Planned { is_new: true, .. }));
    let again = add(&schedule, "first", START_MS, NOW_MS).await;
    assert!(matches!(again, Placement::Planned { is_new: false, .. }));
    assert!(
        !add(&schedule, "second", START_MS, NOW_MS)
            .await
            .is_planned()
    );
}

#[tokio::test]
async fn the_last_second_of_a_day_is_not_remembered() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let schedule = place.schedule(QUOTAS);
    // Half a second before midnight, a TTL in whole seconds is zero.
    let now = START_MS + DAY_MS - 500;
    for call in 0..10 {
        let accepts = published::schedule(&mut place.connection, &ip, now, now).await;
        assert!(accepts.unwrap());
        let day = published::day_key(&ip, now);
        assert_eq!(place.ask::<u64>("EXISTS", day).await, 0);
        let placement = add(&schedule, &call.to_string(), now, now).await;
        assert_eq!(placement.is_planned(), call == 0);
    }
}

#[tokio::test]
async fn a_day_that_expires_before_the_write_stays() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let connection = &mut place.connection;
    let accepts = published::schedule(connection, &ip, START_MS, NOW_MS).await;
    assert!(accepts.unwrap());
    let later = START_MS + HOUR_MS;
    let reads = published::schedule_reads(connection, &ip, later, NOW_MS).await;
    let reads = reads.unwrap().unwrap();
    let day = published::day_key(&ip, START_MS);
    let () = place.ask("PEXPIRE", (&day, 1)).await;
    place.wait_until_expired(&day).await;
    let written = published::schedule_writes(&mut place.connection, &reads, NOW_MS).await;
    written.unwrap();
    assert_eq!(place.ask::<i64>("TTL", &day).await, -1);

    // Every change sets the TTL again.
    let schedule = place.schedule(QUOTAS);
    assert!(add(&schedule, "a", START_MS, NOW_MS).await.is_planned());
    let own = place.own_key().await;
    let () = place.ask("PERSIST", &own).await;
    assert!(add(&schedule, "b", later, NOW_MS).await.is_planned());
    assert!(place.ask::<i64>("TTL", &own).await > 0);
}

#[tokio::test]
async fn a_day_expires_while_its_windows_reach_into_the_next() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let last = START_MS + DAY_MS - 1_000;
    let accepts = published::schedule(&mut place.connection, &ip, last, NOW_MS).await;
    assert!(accepts.unwrap());
    let day = published::day_key(&ip, last);
    let midnight = i64::try_from((START_MS + DAY_MS - NOW_MS) / 1_000).unwrap();
    assert!(place.ask::<i64>("TTL", &day).await <= midnight);

    // The event counts until a day after its time.
    let schedule = place.schedule(QUOTAS);
    assert!(add(&schedule, "last", last, NOW_MS).await.is_planned());
    let own = place.own_key().await;
    assert!(place.ask::<i64>("TTL", &own).await > midnight + 86_000);
}

#[tokio::test]
async fn a_time_in_the_past_is_always_accepted() {
    let past = [NOW_MS - MINUTE_MS; 100];
    assert_eq!(accepted(past).await, 100);
    assert_eq!(planned(QUOTAS, past).await, 0);
    let schedule = Place::new().await.schedule(QUOTAS);
    let Placement::Refused(refusal) = add(&schedule, "id", past[0], NOW_MS).await else {
        panic!("a time in the past was planned");
    };
    // Clocks differ, so that a second ago is not yet the past.
    assert_eq!(*refusal.reason(), Reason::Past(at_ms(NOW_MS - 1_000)));
}

#[tokio::test]
async fn a_day_in_utc_is_not_the_users_day() {
    // One day in Tokyo, from 15:00 UTC: ten before midnight UTC, and ten after it.
    let begins = START_MS + 15 * HOUR_MS;
    let of_tokyo = || (0..20).map(|number| begins + 54 * MINUTE_MS * number);
    assert_eq!(accepted(of_tokyo()).await, 2 * MOST_PER_DAY);
    let quotas = ["1/1m", "5/1h", "10/day@Asia/Tokyo"];
    assert_eq!(planned(quotas, of_tokyo()).await, MOST_PER_DAY);
}

#[tokio::test]
async fn a_day_of_25_hours_is_not_known() {
    // 27 October 2024 in Berlin, which begins at 22:00 UTC and ends 25 hours later.
    const BEGINS_MS: u64 = 1_729_980_000_000;
    let of_berlin = || (0..20).map(|number| BEGINS_MS + 75 * MINUTE_MS * number);
    assert_eq!(accepted(of_berlin()).await, MOST_PER_DAY + 2);
    let quotas = ["1/1m", "5/1h", "10/day@Europe/Berlin"];
    assert_eq!(planned(quotas, of_berlin()).await, MOST_PER_DAY);

    let schedule = Place::new().await.schedule(quotas);
    for (number, time) in of_berlin().take(MOST_PER_DAY).enumerate() {
        let placement = add(&schedule, &number.to_string(), time, NOW_MS).await;
        assert!(placement.is_planned());
    }
    let next = schedule.next_free("ip", at_ms(BEGINS_MS)).at(at_ms(NOW_MS));
    let next_day = at_ms(BEGINS_MS + 25 * HOUR_MS);
    assert_eq!(next.await.unwrap(), Some(next_day));
}

#[tokio::test]
async fn a_message_that_is_not_sent_keeps_its_time() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    let connection = &mut place.connection;
    let soon = START_MS + 30_000;
    assert!(
        published::schedule(connection, &ip, START_MS, NOW_MS)
            .await
            .unwrap()
    );
    // Nothing gives the time of the first message back, or says when the second could be sent.
    assert!(
        !published::schedule(connection, &ip, soon, NOW_MS)
            .await
            .unwrap()
    );

    let schedule = place.schedule(QUOTAS);
    assert!(add(&schedule, "first", START_MS, NOW_MS).await.is_planned());
    let Placement::Refused(refusal) = add(&schedule, "second", soon, NOW_MS).await else {
        panic!("two messages were planned within a minute");
    };
    assert_eq!(refusal.next_free(), Some(at_ms(START_MS + MINUTE_MS)));
    let moved = schedule.reschedule("ip", "first", at_ms(START_MS + HOUR_MS));
    assert!(moved.at(at_ms(NOW_MS)).await.unwrap().is_planned());
    assert!(add(&schedule, "second", soon, NOW_MS).await.is_planned());
    let cancelled = schedule.cancel("ip", "second").at(at_ms(NOW_MS));
    assert!(cancelled.await.unwrap());
    assert!(add(&schedule, "third", soon, NOW_MS).await.is_planned());
}
