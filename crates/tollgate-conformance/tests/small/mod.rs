//! The machines keep their promises at limits so small that a few calls reach every edge of a window,
//! and at the largest ones.

use std::time::Duration;

use tollgate_conformance::naive::{Answer, Naive};
use tollgate_conformance::{Plan, block_on, promises};
use tollgate_core::store::{Check, MAX_EXACT, Operation, Request, State};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, SlidingBuckets, SlidingCounter, SlidingLog,
    Timestamp,
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

/// A history of calls, charges and gives under one limit, so far.
#[derive(Clone)]
struct History {
    now: u64,
    state: State,
    defined: Naive,
    /// Which has counted the calls, but no charges.
    uncharged: Naive,
    has_given: bool,
    /// When calls were admitted, and their costs.
    admitted: Vec<(u64, u64)>,
    told: Vec<(u64, Operation<'static>, u64)>,
}

impl History {
    /// Tries all histories that begin so and are `more` steps longer.
    fn go_on(&self, limit: &Limit, more: usize) {
        const ACTS: [(Operation<'_>, u64); 6] = [
            (Operation::Consume, 1),
            (Operation::Consume, 2),
            (Operation::Charge, 1),
            (Operation::Charge, 3),
            (Operation::Give, 1),
            (Operation::Give, 3),
        ];
        let steps = [0, 1, 3].map(|later| ACTS.map(|(act, cost)| (later, act, cost)));
        for (later, act, cost) in steps.concat().into_iter().filter(|_| more > 0) {
            let mut next = self.clone();
            next.now += later;
            next.told.push((next.now, act, cost));
            next.decide(limit, act, cost);
            next.go_on(limit, more - 1);
        }
    }

    fn decide(&mut self, limit: &Limit, act: Operation<'_>, cost: u64) {
        let (now, at) = (self.now, Timestamp::from_micros(self.now).unwrap());
        let check = [Check::new(limit, "k", cost)];
        let decided = Request::new(act, check).decide_on(&mut self.state, at);
        let told = || format!("{limit}: {:?}", self.told);
        let defined = match act {
            Operation::Charge => self.defined.charge(now, cost),
            Operation::Give => self.defined.give(now, cost),
            _ => self.defined.consume(now, cost),
        };
        let verdict = decided.as_slice()[0];
        self.has_given |= matches!(act, Operation::Give) && verdict.consumed() > 0;
        assert_eq!(Answer::from(&verdict), defined, "{}", told());
        let is_call = matches!(act, Operation::Consume);
        if is_call && decided.is_allowed() {
            self.uncharged.count(now, cost);
            self.admitted.push((now, cost));
        }
        if self.has_given {
            return;
        }
        let is_anchored =
            matches!(limit.algorithm(), Algorithm::FixedWindow(of) if of.is_anchored());
        for later in 0..5 {
            // A charge begins an anchored window, so the next may begin earlier than without it.
            let with = self.defined.peek(now + later, 0).remaining;
            let without = self.uncharged.peek(now + later, 0).remaining;
            assert!(is_anchored || with <= without, "{}", told());
        }
        let quota = limit.algorithm().quota();
        let begins = self.admitted.iter().map(|&(at, _)| at);
        for begin in begins.filter(|_| is_anchored) {
            let span = begin..begin + quota.window_us();
            let within = self.admitted.iter().filter(|(at, _)| span.contains(at));
            let sum: u64 = within.map(|(_, cost)| cost).sum();
            assert!(sum < 2 * quota.amount(), "{}", told());
        }
    }
}

/// Every call that is admitted beside charges would be admitted without them, too.
#[test]
fn all_short_histories_with_charges_and_gives_follow_from_the_definitions() {
    for text in [
        "fixed-window:2/3us",
        "fixed-window:3/2us,anchored",
        "gcra:2/3us",
        "gcra:3/2us,burst=2",
        "gcra:1/2us,burst=3",
        "sliding-buckets:3/2us,buckets=2",
        "sliding-counter:3/2us",
        "sliding-counter:2/3us",
        "sliding-log:3/3us",
        "sliding-log:2/4us",
    ] {
        let limit: Limit = format!("l={text}").parse().unwrap();
        let naive = Naive::of(&limit).unwrap();
        let start = History {
            now: 5,
            state: State::default(),
            defined: naive.clone(),
            uncharged: naive,
            has_given: false,
            admitted: Vec::new(),
            told: Vec::new(),
        };
        start.go_on(&limit, 4);
    }
}
