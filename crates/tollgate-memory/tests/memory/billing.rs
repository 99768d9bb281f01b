//! Billing months: every customer's begins on a day of its own, by the clocks of its own zone.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::{ErrorKind, LimitErrorKind, ManualClock, RateLimiter, Timestamp};
use tollgate_memory::MemoryStore;

const AMOUNT: u64 = 100;
const LIMIT: &str = "bill=fixed-window:100/month@local,day=local";
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

struct Customer {
    name: &'static str,
    zone: &'static str,
    day: i64,
}

const CUSTOMERS: [Customer; 3] = [
    Customer {
        name: "anna",
        zone: "Europe/Berlin",
        day: 15,
    },
    Customer {
        name: "ben",
        zone: "Asia/Kolkata",
        day: 31,
    },
    Customer {
        name: "cara",
        zone: "Europe/Berlin",
        day: 31,
    },
];

/// Returns how many days a month has; January is 0.
fn length(year: i64, month: i64) -> i64 {
    match month {
        1 if year % 4 == 0 => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Returns the day, counted from the epoch; good until 2099.
fn number(year: i64, month: i64, day: i64) -> i64 {
    let before: i64 = (0..month).map(|month| length(year, month)).sum();
    365 * (year - 1970) + (year - 1969) / 4 + before + day - 1
}

/// Returns the last Sunday of a month with 31 days. The epoch was a Thursday.
fn last_sunday(year: i64, month: i64) -> i64 {
    let last = number(year, month, 31);
    last - (last + 4) % 7
}

/// Returns when a customer's months begin, in microseconds, from the end of 2025 on.
fn months(customer: &Customer) -> Vec<i64> {
    let months = (2025..=2031).flat_map(|year| (0..12).map(move |month| (year, month)));
    let begins = months.map(|(year, month)| {
        let day = number(year, month, customer.day.min(length(year, month)));
        // At midnight, clocks have not changed yet on the day on which they do.
        let is_summer = last_sunday(year, 2) < day && day <= last_sunday(year, 9);
        let ahead = match customer.zone {
            "Asia/Kolkata" => 5 * 3_600 + 1_800,
            _ => 3_600 + if is_summer { 3_600 } else { 0 },
        };
        day * DAY_US - ahead * SECOND_US
    });
    begins.collect()
}

fn stamp(micros: i64) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).unwrap()).unwrap()
}

fn store() -> (Arc<MemoryStore>, ManualClock) {
    let clock = ManualClock::new();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(store), clock)
}

#[test]
fn each_customer_has_the_amount_in_each_of_its_own_months_for_five_years() {
    let (store, clock) = store();
    let limiter = RateLimiter::new(store, [LIMIT]).unwrap();
    let months = CUSTOMERS.each_ref().map(months);
    let (first, last) = (number(2026, 0, 1) * DAY_US, number(2031, 0, 1) * DAY_US);
    // Some 66 times a month, and on both sides of each beginning.
    let mut instants: Vec<i64> = (first..last).step_by(40_380_000_007).collect();
    instants.extend(
        months
            .iter()
            .flatten()
            .flat_map(|begins| [begins - 1, *begins]),
    );
    instants.retain(|at| (first..last).contains(at));
    instants.sort_unstable();
    let mut used = [(0, 0); 3];
    let mut denied = [0; 3];
    for (step, at) in (0..).zip(instants) {
        clock.set(stamp(at));
        for (index, customer) in CUSTOMERS.iter().enumerate() {
            let zone = TimeZone::get(customer.zone).unwrap();
            let day = u8::try_from(customer.day).unwrap();
            let limiter = limiter.in_zone(&zone).unwrap().on_day(day).unwrap();
            let cost = 1 + step % 3;
            let decision = limiter.check(customer.name).cost(cost).run().unwrap();

            let month = months[index].partition_point(|begins| *begins <= at);
            let (counted_in, count) = &mut used[index];
            if *counted_in != month {
                (*counted_in, *count) = (month, 0);
            }
            let allowed = *count + cost <= AMOUNT;
            *count += if allowed { cost } else { 0 };
            assert_eq!(decision.is_allowed(), allowed, "{} at {at}", customer.name);
            assert_eq!(
                decision.remaining(),
                AMOUNT - *count,
                "{} at {at}",
                customer.name
            );
            let ends = u64::try_from(months[index][month] - at).unwrap();
            let wait = if allowed { 0 } else { ends };
            assert_eq!(
                decision.retry_after().as_micros(),
                Some(wait),
                "{}",
                customer.name
            );
            denied[index] += u64::from(!allowed);
        }
    }
    assert!(denied.iter().all(|denied| *denied > 500), "{denied:?}");
}

/// A customer whose day changes has the amount of its new month, less what was left if that is taken over; and
/// nothing of it counts under the old day.
#[test]
fn a_customer_whose_day_changes_starts_afresh_or_takes_over_what_is_left() {
    let (store, clock) = store();
    clock.set(stamp(number(2026, 4, 17) * DAY_US));
    let limiter = RateLimiter::new(store, [LIMIT]).unwrap();
    let limiter = limiter.in_zone(&TimeZone::UTC).unwrap();
    let [old, new] = [15, 20].map(|day| limiter.on_day(day).unwrap());
    assert!(old.check("anna").cost(70).run().unwrap().is_allowed());
    let left = || [old, new].map(|limiter| limiter.peek("anna").run().unwrap().remaining());
    assert_eq!(left(), [30, AMOUNT]);
    let remaining = old.peek("anna").run().unwrap().remaining();
    assert_eq!(new.lower("anna", remaining).run().unwrap().remaining(), 30);
    assert_eq!(left(), [30, 30]);
    assert!(new.check("anna").cost(10).run().unwrap().is_allowed());
    assert_eq!(left(), [30, 20]);
    clock.set(stamp(number(2026, 4, 20) * DAY_US));
    assert_eq!(left(), [30, AMOUNT]);
}

#[test]
fn a_call_without_a_day_or_with_none_that_exists_counts_nothing() {
    let (store, _) = store();
    let limits = ["bill=fixed-window:5/month@UTC,day=local", "burst=gcra:5/1s"];
    let limiter = RateLimiter::new(store.clone(), limits).unwrap();
    for day in [0, 32, u8::MAX] {
        assert_eq!(limiter.on_day(day).unwrap_err().kind(), LimitErrorKind::Day);
    }
    let zoned = limiter.in_zone(&TimeZone::UTC).unwrap();
    for limiter in [&limiter, zoned] {
        let error = limiter.check("anna").run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("limiter.on_day(15)?"), "{error}");
    }
    let burst = limiter.on_day(31).unwrap().peek("anna").run().unwrap();
    assert_eq!(burst.remaining(), 5);
    let without = RateLimiter::new(store, ["burst=gcra:5/1s"]).unwrap();
    assert!(std::ptr::eq(
        without.on_day(99).unwrap(),
        &raw const without
    ));
}
