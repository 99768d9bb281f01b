//! A schedule of one per minute, five per hour and ten per day, kept in a set of seconds per day.
//!
//! This library has no schedule yet to compare it with.

use super::support::{Place, START_MS};
use tollgate_scenarios::published::{self, MOST_PER_DAY, MOST_PER_HOUR};

/// At least a day before any scheduled time, so that no scheduled day is over.
const NOW_MS: u64 = START_MS - 86_400_000;
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

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

#[tokio::test]
async fn a_schedule_ignores_the_day_before() {
    // Two within a second.
    let midnight = START_MS + DAY_MS;
    assert_eq!(accepted([midnight - 1_000, midnight]).await, 2);
    // Twelve within twelve minutes.
    let minutes = (0..12).map(|minute| midnight + MINUTE_MS * minute - 6 * MINUTE_MS);
    assert_eq!(accepted(minutes).await, 2 * (MOST_PER_HOUR + 1));
    // Twenty within four hours.
    let fifths = (0..20).map(|fifth| midnight + 12 * MINUTE_MS * fifth - 2 * HOUR_MS);
    assert_eq!(accepted(fifths).await, 2 * MOST_PER_DAY);
}

#[tokio::test]
async fn a_limit_compared_with_the_others_accepts_one_more() {
    let minutes = (0..60).map(|minute| START_MS + MINUTE_MS * minute);
    assert_eq!(accepted(minutes).await, MOST_PER_HOUR + 1);
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
}

#[tokio::test]
async fn the_last_second_of_a_day_is_not_remembered() {
    let mut place = Place::new().await;
    let ip = place.key("ip");
    // Half a second before midnight, a TTL in whole seconds is zero.
    let now = START_MS + DAY_MS - 500;
    for _ in 0..10 {
        let accepts = published::schedule(&mut place.connection, &ip, now, now).await;
        assert!(accepts.unwrap());
        let day = published::day_key(&ip, now);
        assert_eq!(place.ask::<u64>("EXISTS", day).await, 0);
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
}

#[tokio::test]
async fn a_time_in_the_past_is_always_accepted() {
    let past = [NOW_MS - 1_000; 100];
    assert_eq!(accepted(past).await, 100);
}
