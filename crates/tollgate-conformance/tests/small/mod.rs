//! The machines keep their promises at limits so small that a few calls reach every edge of a window,
//! and at the largest ones.

use std::time::Duration;

use tollgate_conformance::{Plan, block_on, promises};
use tollgate_core::store::MAX_EXACT;
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, SlidingBuckets, SlidingCounter, SlidingLog,
};

use super::reference::Reference;

/// Amounts, and windows in microseconds.
const SMALL: &[(u64, u64)] = &[
    (1, 1),
    (1, 3),
    (2, 4),
    (3, 2),
    (5, 7),
    (8, 24),
    (7, 999_983),
];
const LARGE: &[(u64, u64)] = &[
    (1, MAX_EXACT),
    (100_000, MAX_EXACT - 1),
    (MAX_EXACT / 1_000, MAX_EXACT),
    (MAX_EXACT, MAX_EXACT),
    (MAX_EXACT, 1),
];

/// Returns every algorithm with each quota that it can count.
fn limits(quotas: &[(u64, u64)]) -> Vec<Limit> {
    let mut machines: Vec<Algorithm> = Vec::new();
    for &(amount, window_us) in quotas {
        let quota = Quota::new(amount, Duration::from_micros(window_us)).unwrap();
        for window in [FixedWindow::aligned(quota), FixedWindow::anchored(quota)] {
            machines.extend([Algorithm::from(window), window.count_denied().into()]);
        }
        for burst in [1, amount, amount + 3] {
            machines.extend(Gcra::with_burst(quota, burst).map(Algorithm::from));
        }
        for buckets in [1, 2, 9] {
            machines.push(SlidingBuckets::new(quota, buckets).unwrap().into());
        }
        machines.extend(SlidingCounter::new(quota).map(Algorithm::from));
        if let Ok(log) = SlidingLog::new(quota) {
            machines.extend([Algorithm::from(log), log.count_denied().into()]);
        }
    }
    let machines = machines.into_iter().enumerate();
    let limit = |(index, machine)| Limit::new(&format!("limit-{index}"), machine).unwrap();
    machines.map(limit).collect()
}

/// Makes a test of each promise about single limits.
macro_rules! each {
    ($quotas:ident: $($promise:ident)*) => {$(
        #[test]
        fn $promise() {
            let limits = limits($quotas);
            // One history of each limit, or three if everything is to be tested.
            let rounds = if std::env::var_os("TOLLGATE_EVERY_SERVER").is_some() { 3 } else { 1 };
            let histories = rounds * u32::try_from(limits.len()).unwrap();
            let plan = Plan::new(limits).with_histories(histories);
            block_on(promises::$promise(&Reference, &plan));
        }
    )*};
}

each! {
    SMALL:
    a_clock_that_steps_back_admits_no_more
    a_cost_is_as_many_unit_calls
    a_late_refund_gives_nothing
    a_refund_at_once_undoes
    agrees_with_the_definition
    allows_exactly_what_remains
    an_idle_key_equals_a_new_key
    denied_calls_change_nothing
    never_over_admits
    peek_changes_nothing
    refunds_keep_the_bound
    reset_after_is_exact
    retry_after_is_exact
    smaller_costs_wait_no_longer
    takes_exactly_the_cost
    takes_what_unit_calls_would
    time_only_gives_back
}

/// Tokens that return between two microseconds are waited for until the second.
#[test]
fn reaches_its_bound() {
    let mut limits = limits(SMALL);
    limits.retain(|limit| {
        let quota = limit.algorithm().quota();
        quota.window_us().is_multiple_of(quota.amount())
    });
    block_on(promises::reaches_its_bound(&Reference, &Plan::new(limits)));
}

mod large {
    use super::*;

    each! {
        LARGE:
        a_clock_that_steps_back_admits_no_more
        allows_exactly_what_remains
        reset_after_is_exact
        retry_after_is_exact
        takes_exactly_the_cost
        time_only_gives_back
    }
}

/// Limits that reserve together.
const TOGETHER: [&[&str]; 7] = [
    &["1/2us,burst=1"],
    &["1/3us,burst=2"],
    &["3/2us,burst=4"],
    &["7/3us,burst=9"],
    &["1/4us,burst=1", "1/1us,burst=4"],
    &["1/5us,burst=1", "2/3us,burst=3"],
    &["1/6us,burst=2", "3/4us,burst=3", "1/2us,burst=1"],
];

/// Makes a test of each promise about reservations.
macro_rules! reserving {
    ($($promise:ident)*) => {$(
        #[test]
        fn $promise() {
            for texts in TOGETHER {
                let texts = texts.iter().enumerate();
                let limit = |(index, text)| {
                    let text = format!("limit-{index}=gcra:{text}");
                    text.parse::<Limit>().unwrap()
                };
                let plan = Plan::new(texts.map(limit).collect());
                block_on(promises::$promise(&Reference, &plan));
            }
        }
    )*};
}

reserving! {
    cancelling_the_last_reservation_undoes_it
    refused_reservations_change_nothing
    reservations_agree_with_the_definition
    starts_keep_the_bound_whatever_is_cancelled
}
