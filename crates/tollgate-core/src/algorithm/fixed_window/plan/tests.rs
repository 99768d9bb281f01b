//! Tests of `CounterPlan`.

use super::*;
use crate::quota::Quota;

#[test]
fn a_counter_holds_exactly_the_amount() {
    for amount in [1, 2, 3, 7, 1_000, 99_991, 1 << 31] {
        let plan = FixedWindow::aligned(Quota::per_minute(amount))
            .plan()
            .unwrap();
        let step = u128::from(plan.step);
        let (amount, most) = (u128::from(amount), u128::from(MOST));
        assert!(amount * step <= most && most < (amount + 1) * step);
    }
}

#[test]
fn quotas_without_a_counter_give_the_reason() {
    for (window, reason) in [
        (FixedWindow::aligned(Quota::per_minute(0)), "zero"),
        (
            FixedWindow::aligned(
                Quota::new(MAX_EXACT - 1, std::time::Duration::from_secs(1)).unwrap(),
            ),
            "too large",
        ),
        (
            FixedWindow::anchored(Quota::new(1, std::time::Duration::from_micros(1_500)).unwrap()),
            "milliseconds",
        ),
        (
            FixedWindow::aligned(Quota::new(1, std::time::Duration::from_micros(9_999)).unwrap()),
            "10 ms",
        ),
    ] {
        assert!(window.plan().unwrap_err().contains(reason));
    }
}

fn plan(written: &str) -> CounterPlan {
    match written.parse().unwrap() {
        Algorithm::FixedWindow(window) => window.plan().unwrap(),
        other => panic!("{other}"),
    }
}

#[test]
fn the_shortest_window_and_the_largest_amount_have_plans() {
    assert_eq!(plan("fixed-window:5/10ms").window_us, SHORTEST_US);
    // One more is a divisor of `MOST`, so that it fits exactly.
    let divisor = 649_657 * 92_737;
    for (amount, has_plan) in [(divisor - 1, false), (divisor, true)] {
        let quota = Quota::new(amount, std::time::Duration::from_secs(1)).unwrap();
        assert_eq!(MOST % divisor, 0);
        assert_eq!(FixedWindow::aligned(quota).plan().is_ok(), has_plan);
    }
}

#[test]
fn no_more_than_a_counter_holds_is_added_or_given_back() {
    for (written, amount, expected) in [
        ("fixed-window:1/1m", 1, MOST),
        ("fixed-window:1/1m", 2, MOST),
        // Modulo 2^64, this would be less.
        ("fixed-window:1/1m", 3, MOST),
        ("fixed-window:1/1m", u64::MAX, MOST),
        ("fixed-window:1/1m,count-denied", 3, 3),
        ("fixed-window:1/1m,count-denied", u64::MAX, MOST),
    ] {
        let plan = plan(written);
        let [.., added] = plan.add(amount);
        assert_eq!(added, expected.to_string().into_bytes(), "{written}");
        let [.., returned] = plan.give_back(amount);
        assert_eq!(returned, format!("-{expected}").into_bytes(), "{written}");
    }
}

#[test]
fn only_calls_that_may_count_are_sent_to_be_counted() {
    for (written, amount, cost, may_count) in [
        ("fixed-window:5/1m", 5, 0, false),
        ("fixed-window:5/1m", 5, 1, true),
        ("fixed-window:5/1m", 5, 5, true),
        ("fixed-window:5/1m", 5, 6, false),
        ("fixed-window:5/1m,count-denied", 5, 0, false),
        ("fixed-window:5/1m,count-denied", 5, 6, true),
        ("fixed-window:0/1m,count-denied", 0, 1, false),
    ] {
        let sent = plan(written).may_count(cost, amount);
        assert_eq!(sent, may_count, "{written} {cost}");
    }
}

#[test]
fn a_counter_expires_after_its_window() {
    let plan = plan("fixed-window:1/10ms");
    for (window, expected) in [(0, 11), (7, 81), (u64::MAX / 10_000, u64::MAX / 1_000 + 1)] {
        let command = plan.expire(b"key", Some(window));
        assert_eq!(command[2], expected.to_string().into_bytes(), "{window}");
    }
    // The millisecond may end between two readings of the server's clock.
    let anchored = self::plan("fixed-window:1/1ms,anchored");
    assert_eq!(anchored.expire(b"key", None)[2], b"2");
}

#[test]
fn replies_about_a_counter_are_a_state() {
    let (day, s) = (86_400_000_000, 1_000_000);
    let state = |written: &str, window, now, before, expires| {
        let told = CounterReply {
            now,
            before,
            counted: None,
            expires,
        };
        plan(&format!("fixed-window:{written},count-denied")).state(window, told)
    };
    let daily = |now, before| state("1/1d", Some(2), now, before, 0);
    // A divisor of the latest instant.
    let last = MAX_EXACT / 69_431;
    let odd = |window| state("1/69431us", Some(window), 7, 0, 0);
    let anchored = |now, before, expires| state("1/10s,anchored", None, now, before, expires);
    let kept = |start, kept| {
        FixedWindow::keep(State {
            start,
            kept,
            at_start: kept,
        })
    };
    let fresh = algorithm::State::default;
    for (found, expected) in [
        (daily(2 * day, 0), (fresh(), 2 * day)),
        (daily(2 * day + 1, 0), (fresh(), 2 * day + 1)),
        (daily(2 * day - 1, 0), (kept(2 * day, 0), 2 * day - 1)),
        (daily(2 * day, 5), (kept(2 * day, 5), 2 * day)),
        (daily(0, MOST), (kept(2 * day, MAX_EXACT), 0)),
        (odd(last), (kept(MAX_EXACT, 0), 7)),
        // Without an end, and with one.
        (anchored(7, 5, -1), (kept(7, 5), 7)),
        (anchored(7, 0, -2), (fresh(), 7)),
        (anchored(15 * s, 5, 19_999), (kept(10 * s, 5), 15 * s)),
        (anchored(1, 5, 19_999), (kept(10 * s, 5), 10 * s)),
        (anchored(20 * s, 5, 19_999), (kept(10 * s, 5), 20 * s - 1)),
    ] {
        assert_eq!(format!("{found:?}"), format!("{:?}", Some(expected)));
    }
    // Ends that cannot be.
    let ends = [0, 9_998, 18_446_744_073_729_551, i64::MAX];
    let windows = [state("1/10ms", Some(1 << 63), 7, 0, 0), odd(last + 1)];
    for none in ends.map(|end| anchored(7, 5, end)).iter().chain(&windows) {
        assert!(none.is_none(), "{none:?}");
    }
}
