//! Several limits decided together: all or nothing, in any order.

use proptest::prelude::*;
use tollgate_core::Algorithm;
use tollgate_core::store::{Check, Operation, Request, State, Verdict, Verdicts};
use tollgate_core::{Limit, Receipt};

use crate::histories::{algorithm, cases, time};

/// A limit's algorithm, its key, and the base cost of calls.
#[derive(Clone, Copy, Debug)]
struct Member {
    algorithm: Algorithm,
    key: &'static str,
    cost: u64,
}

fn members() -> impl Strategy<Value = Vec<Member>> {
    let member = (algorithm(), prop::sample::select(vec!["a", "b"]), 0..4u64);
    let member = member.prop_map(|(algorithm, key, cost)| Member {
        algorithm,
        key,
        cost,
    });
    prop::collection::vec(member, 2..5)
}

/// For each step, how far the clock advances and the factor by which costs are multiplied.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let by = prop_oneof![4 => Just(0u64), 4 => 0..10u64, 1 => 0..2_000_000u64];
    prop::collection::vec((by, 0..3u64), 1..25)
}

/// The members' limits and states, and a clock.
#[derive(Clone, Debug)]
struct Together {
    limits: Vec<Limit>,
    members: Vec<Member>,
    states: Vec<State>,
    now: u64,
}

impl Together {
    fn new(members: &[Member], start: u64) -> Self {
        let named = |(index, member): (usize, &Member)| {
            Limit::new(&format!("member-{index}"), member.algorithm).unwrap()
        };
        Self {
            limits: members.iter().enumerate().map(named).collect(),
            members: members.to_vec(),
            states: vec![State::default(); members.len()],
            now: start,
        }
    }

    fn reversed(&self) -> Self {
        let mut other = self.clone();
        other.limits.reverse();
        other.members.reverse();
        other.states.reverse();
        other
    }

    fn decide(&mut self, operation: Operation<'_>, times: u64, now: u64) -> Verdicts {
        let checks = self.limits.iter().zip(&self.members);
        let checks =
            checks.map(|(limit, member)| Check::new(limit, member.key, member.cost * times));
        let request = Request::new(operation, checks);
        request.validate_checks().unwrap();
        request.decide_on(&mut self.states[..], time(now))
    }

    /// Returns each member's verdict on a call now, decided alone.
    fn alone(&self, operation: Operation<'_>, times: u64) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for ((limit, member), state) in self.limits.iter().zip(&self.members).zip(&self.states) {
            let check = Check::new(limit, member.key, member.cost * times);
            let request = Request::new(operation, [check]);
            let decision = request.decide_on(&mut state.clone(), time(self.now));
            verdicts.push(decision.as_slice()[0]);
        }
        verdicts
    }

    fn counts_denied(&self) -> bool {
        self.members
            .iter()
            .any(|member| member.algorithm.counts_denied())
    }

    fn look(&self) -> String {
        format!("{:?}", self.states)
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_call_is_allowed_if_and_only_if_every_limit_allows_it(
        members in members(), start in 0..1_000u64, steps in steps()
    ) {
        let mut together = Together::new(&members, start);
        for &(by, times) in &steps {
            together.now += by;
            let alone = together.alone(Operation::Consume, times);
            let before = together.look();
            let decision = together.decide(Operation::Consume, times, together.now);
            let verdicts = decision.as_slice();
            prop_assert_eq!(decision.is_allowed(), alone.iter().all(Verdict::is_allowed));
            for (together, alone) in verdicts.iter().zip(&alone) {
                prop_assert_eq!(together.is_allowed(), alone.is_allowed());
            }
            if decision.is_allowed() {
                prop_assert_eq!(verdicts, &alone[..]);
            } else {
                prop_assert!(verdicts.iter().all(|verdict| verdict.consumed() == 0));
                let binding = verdicts[decision.binding()];
                prop_assert_eq!(binding.retry_after(), decision.retry_after());
                if !together.counts_denied() {
                    prop_assert!(!binding.is_allowed());
                    prop_assert_eq!(together.look(), before, "a denial changed something");
                }
            }
        }
    }

    #[test]
    fn remaining_is_the_least_and_the_wait_the_longest_of_all_limits(
        members in members(), start in 0..1_000u64, steps in steps(), times in 1..3u64
    ) {
        let mut together = Together::new(&members, start);
        for &(by, times) in &steps {
            together.now += by;
            let _ = together.decide(Operation::Consume, times, together.now);
        }
        let now = together.now;
        let decision = together.decide(Operation::Consume, times, now);
        let verdicts = decision.as_slice();
        let least = verdicts.iter().map(Verdict::remaining).min().unwrap();
        prop_assert_eq!(decision.remaining(), least);
        let longest = verdicts.iter().map(Verdict::reset_after).max().unwrap();
        prop_assert_eq!(decision.reset_after(), longest);
        prop_assert_eq!(decision.retry_after().is_zero(), decision.is_allowed());
        if let Some(wait) = decision.retry_after().as_micros().filter(|&wait| wait > 0) {
            let there = together.clone().decide(Operation::Peek, times, now + wait);
            prop_assert!(there.is_allowed());
            let early = together.clone().decide(Operation::Peek, times, now + wait - 1);
            prop_assert!(early.is_denied());
        }
    }

    #[test]
    fn the_order_of_limits_does_not_matter(
        members in members(), start in 0..1_000u64, steps in steps()
    ) {
        let mut forth = Together::new(&members, start);
        let mut back = forth.reversed();
        for (index, &(by, times)) in steps.iter().enumerate() {
            let operation = if index % 3 == 2 { Operation::TakeUpTo } else { Operation::Consume };
            forth.now += by;
            back.now += by;
            let one = forth.decide(operation, times, forth.now);
            let other = back.decide(operation, times, back.now);
            prop_assert_eq!(one.is_allowed(), other.is_allowed());
            prop_assert_eq!(one.remaining(), other.remaining());
            prop_assert_eq!(one.retry_after(), other.retry_after());
            prop_assert_eq!(one.reset_after(), other.reset_after());
            let reversed: Vec<_> = other.as_slice().iter().rev().copied().collect();
            prop_assert_eq!(one.as_slice(), &reversed[..]);
        }
        prop_assert_eq!(forth.look(), back.reversed().look());
    }

    #[test]
    fn taking_up_to_takes_the_same_of_every_limit(
        members in members(), start in 0..1_000u64, steps in steps(), times in 1..3u64
    ) {
        let mut together = Together::new(&members, start);
        for &(by, times) in &steps {
            together.now += by;
            let _ = together.decide(Operation::Consume, times, together.now);
        }
        let most = members.iter().map(|member| member.cost * times).min().unwrap();
        let held = together.alone(Operation::Peek, 0);
        let granted = held.iter().map(Verdict::remaining).min().unwrap().min(most);
        let decision = together.decide(Operation::TakeUpTo, times, together.now);
        prop_assert_eq!(decision.consumed(), granted);
        prop_assert!(decision.as_slice().iter().all(|verdict| verdict.consumed() == granted));
        prop_assert_eq!(decision.is_allowed(), granted > 0 || most == 0);
    }

    #[test]
    fn a_refund_gives_back_to_every_limit(
        members in members(), start in 0..1_000u64, steps in steps()
    ) {
        let mut together = Together::new(&members, start);
        for &(by, times) in &steps {
            together.now += by;
            let held = together.alone(Operation::Peek, 0);
            let decision = together.decide(Operation::Consume, times, together.now);
            let denied = decision.is_denied();
            let receipt: Option<Receipt> = decision.into_receipt();
            if let Some(receipt) = receipt {
                prop_assert!(!denied, "a denied call has nothing to give back");
                let refunded = together.decide(Operation::Refund(&receipt), 0, together.now);
                prop_assert!(refunded.is_allowed());
                let left = together.alone(Operation::Peek, 0);
                for (left, held) in left.iter().zip(&held) {
                    prop_assert_eq!(left.remaining(), held.remaining());
                    prop_assert_eq!(left.reset_after(), held.reset_after());
                }
                // What was refunded can be consumed again.
                let again = together.decide(Operation::Consume, times, together.now);
                prop_assert!(again.is_allowed());
            }
        }
    }
}

/// A limit that counts denials may have a longer wait than the limit that refused.
#[test]
fn the_binding_limit_has_the_longest_wait() {
    use std::time::Duration;

    use tollgate_core::store::{Check, Request, State};
    use tollgate_core::{FixedWindow, Gcra, Limit, Quota, Timestamp};

    let pace = Gcra::with_burst(Quota::per_minute(1), 1).unwrap();
    let attempts = FixedWindow::aligned(Quota::per_hour(2)).count_denied();
    let limits = [
        Limit::new("pace", pace).unwrap(),
        Limit::new("attempts", attempts).unwrap(),
    ];
    let mut states = [State::default(), State::default()];
    let request =
        Request::consume(Check::new(&limits[0], "k", 1)).and(Check::new(&limits[1], "k", 1));
    let now = Timestamp::from_micros(800_000_000).unwrap();
    assert!(request.decide_on(&mut states, now).is_allowed());
    let denied = request.decide_on(&mut states, now);
    assert_eq!(denied.binding(), 1);
    let wait = Some(Duration::from_secs(2_800));
    assert_eq!(denied.retry_after().duration(), wait);
    assert_eq!(
        denied.as_slice()[0].retry_after().duration(),
        Some(Duration::from_secs(60))
    );
}
