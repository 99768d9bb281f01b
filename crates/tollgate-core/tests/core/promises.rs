//! Promises that every algorithm keeps, whatever the history.

use proptest::prelude::*;
use tollgate_core::Algorithm;
use tollgate_core::store::Operation;
use tollgate_core::{Receipt, inside};

use crate::histories::{
    Ask, Step, Subject, algorithm, backwards, cases, forwards, reset_us, retry_us, start, time,
};

/// Runs a history, and returns the subject after it with the receipts that were not refunded.
fn after(algorithm: Algorithm, start: u64, steps: &[Step]) -> (Subject, Vec<Receipt>) {
    let mut subject = Subject::new(algorithm, start);
    let mut receipts = Vec::new();
    for &(shift, ask) in steps {
        subject.shift(shift);
        subject.ask(ask, &mut receipts);
    }
    (subject, receipts)
}

/// Histories that leave limits in every sort of state, with refunds and backward clocks.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![forwards(true), backwards(true)]
}

/// Returns a state's debug text and its size on the heap.
fn look(subject: &Subject) -> (String, usize) {
    (
        format!("{:?}", subject.state),
        inside::heap_bytes(&subject.state),
    )
}

proptest! {
    #![proptest_config(cases(384))]

    #[test]
    fn a_call_is_allowed_if_and_only_if_it_costs_at_most_what_remains(
        algorithm in algorithm(), start in start(), steps in steps(), cost in 0..25u64
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let remaining = subject.peek(0).remaining();
        for cost in [cost, remaining, remaining + 1, u64::MAX] {
            let verdict = subject.clone().consume(cost);
            prop_assert_eq!(verdict.is_allowed(), cost <= remaining, "cost {}", cost);
        }
    }

    #[test]
    fn an_admitted_call_takes_its_cost_from_what_remains(
        algorithm in algorithm(), start in start(), steps in steps(), share in 0..=100u64
    ) {
        let (mut subject, _) = after(algorithm, start, &steps);
        let remaining = subject.peek(0).remaining();
        let cost = part(remaining, share);
        let verdict = subject.consume(cost);
        prop_assert!(verdict.is_allowed());
        prop_assert_eq!(verdict.consumed(), cost);
        prop_assert_eq!(verdict.remaining(), remaining - cost);
        prop_assert_eq!(subject.peek(0).remaining(), remaining - cost);
    }

    #[test]
    fn remaining_never_grows_by_a_call_nor_shrinks_by_waiting(
        algorithm in algorithm(), start in start(), steps in backwards(false)
    ) {
        let mut subject = Subject::new(algorithm, start);
        for &(shift, ask) in &steps {
            let before = subject.now;
            let held = subject.peek(0).remaining();
            subject.shift(shift);
            let waited = subject.peek(0).remaining();
            if subject.now >= before {
                prop_assert!(waited >= held, "waiting took {} to {}", held, waited);
            } else {
                prop_assert!(waited <= held, "going back gave {} for {}", waited, held);
            }
            let called = subject.ask(ask, &mut Vec::new()).remaining();
            prop_assert!(called <= waited, "a call gave {} for {}", called, waited);
        }
    }

    #[test]
    fn retry_after_is_the_least_wait_that_admits(
        algorithm in algorithm(), start in start(), steps in steps(), cost in 1..25u64
    ) {
        let (mut subject, _) = after(algorithm, start, &steps);
        let verdict = subject.consume(cost);
        let retry = retry_us(&verdict);
        prop_assert_eq!(retry == Some(0), verdict.is_allowed());
        prop_assert_eq!(retry.is_none(), cost > subject.capacity());
        if let Some(wait) = retry.filter(|&wait| wait > 0) {
            let early = subject.clone().decide_at(Operation::Consume, cost, subject.now + wait - 1);
            prop_assert!(!early.is_allowed(), "admitted before {}", wait);
            let there = subject.clone().decide_at(Operation::Consume, cost, subject.now + wait);
            prop_assert!(there.is_allowed(), "denied after {}", wait);
        }
    }

    #[test]
    fn reset_after_is_the_least_wait_until_nothing_is_counted(
        algorithm in algorithm(), start in start(), steps in steps()
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let verdict = subject.peek(0);
        let (wait, capacity) = (reset_us(&verdict), subject.capacity());
        prop_assert_eq!(subject.peek_at(0, subject.now + wait).remaining(), capacity);
        prop_assert!(subject.state.is_fresh(&subject.limit, time(subject.now + wait)));
        prop_assert!(capacity == 0 || (wait == 0) == (verdict.remaining() == capacity));
        if wait > 0 {
            let early = subject.peek_at(0, subject.now + wait - 1).remaining();
            prop_assert!(capacity == 0 || early < capacity);
            prop_assert!(!subject.state.is_fresh(&subject.limit, time(subject.now + wait - 1)));
        }
    }

    #[test]
    fn a_cost_of_several_equals_as_many_calls_of_one(
        algorithm in algorithm(), start in start(), steps in steps(), share in 0..=100u64
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let cost = part(subject.peek(0).remaining(), share);
        let (mut at_once, mut singly) = (subject.clone(), subject);
        at_once.consume(cost);
        for _ in 0..cost {
            prop_assert!(singly.consume(1).is_allowed());
        }
        prop_assert_eq!(&at_once.peek(0), &singly.peek(0));
        prop_assert_eq!(&at_once.consume(1), &singly.consume(1));
        prop_assert_eq!(&at_once.consume(2), &singly.consume(2));
    }

    #[test]
    fn taking_up_to_equals_calls_of_one_until_one_is_denied(
        algorithm in algorithm(), start in start(), steps in steps(), most in 1..25u64
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let (mut taken, mut singly) = (subject.clone(), subject);
        let verdict = taken.decide_at(Operation::TakeUpTo, most, taken.now);
        let admitted = (0..most).take_while(|_| singly.peek(1).is_allowed() && {
            singly.consume(1);
            true
        });
        prop_assert_eq!(verdict.consumed(), admitted.count() as u64);
        prop_assert_eq!(verdict.is_allowed(), verdict.consumed() > 0);
        if verdict.is_allowed() {
            prop_assert_eq!(&taken.peek(1), &singly.peek(1));
        } else {
            prop_assert_eq!(&verdict, &singly.consume(1));
        }
    }

    #[test]
    fn a_peek_predicts_the_call_and_changes_nothing(
        algorithm in algorithm(), start in start(), steps in steps(), cost in 0..25u64
    ) {
        let (mut subject, _) = after(algorithm, start, &steps);
        let before = look(&subject);
        let first = subject.decide_at(Operation::Peek, cost, subject.now);
        let second = subject.decide_at(Operation::Peek, cost, subject.now);
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(&look(&subject), &before);
        prop_assert_eq!(first.consumed(), 0);
        let call = subject.clone().consume(cost);
        prop_assert_eq!(first.is_allowed(), call.is_allowed());
        if call.is_allowed() || !algorithm.counts_denied() {
            prop_assert_eq!(first.retry_after(), call.retry_after());
        }
        let free = subject.decide_at(Operation::Peek, 0, subject.now);
        prop_assert!(free.is_allowed());
        prop_assert!(subject.consume(0).is_allowed());
        prop_assert_eq!(&look(&subject), &before);
    }

    #[test]
    fn a_denied_call_changes_nothing_unless_denials_are_counted(
        algorithm in algorithm(), start in start(), steps in steps(), cost in 1..25u64
    ) {
        let (mut subject, _) = after(algorithm, start, &steps);
        if algorithm.counts_denied() {
            return Ok(());
        }
        let before = look(&subject);
        let held = subject.peek(0);
        for operation in [Operation::Consume, Operation::TakeUpTo] {
            for cost in [cost, u64::MAX] {
                if subject.peek(if matches!(operation, Operation::TakeUpTo) { 1 } else { cost }).is_allowed() {
                    continue;
                }
                prop_assert!(!subject.decide_at(operation, cost, subject.now).is_allowed());
                prop_assert_eq!(&look(&subject), &before);
                prop_assert_eq!(&subject.peek(0), &held);
            }
        }
    }

    #[test]
    fn a_clock_that_steps_back_admits_no_more_and_lengthens_waits(
        algorithm in algorithm(), start in start(), steps in steps(), cost in 1..25u64,
        back in prop_oneof![0..30u64, 0..4_000_000u64]
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let earlier = subject.now.saturating_sub(back);
        let (there, here) = (subject.peek_at(cost, earlier), subject.peek(cost));
        prop_assert!(there.remaining() <= here.remaining());
        // Both clocks find the same instant at which the call is admitted.
        match (retry_us(&there), retry_us(&here)) {
            (Some(wait), Some(0)) => prop_assert!(earlier + wait <= subject.now),
            (from_there, from_here) => prop_assert_eq!(
                from_there.map(|wait| earlier + wait),
                from_here.map(|wait| subject.now + wait)
            ),
        }
        if reset_us(&here) > 0 {
            prop_assert_eq!(earlier + reset_us(&there), subject.now + reset_us(&here));
        }
    }

    #[test]
    fn a_state_that_has_reset_equals_no_state(
        algorithm in algorithm(), start in start(), steps in steps(),
        more in prop_oneof![Just(0u64), 0..100u64, 0..100_000_000u64], then in forwards(true)
    ) {
        let (mut aged, _) = after(algorithm, start, &steps);
        // Nothing is promised for a clock that reads less than the last recorded instant.
        aged.now = aged.latest;
        aged.now += reset_us(&aged.peek(0)) + more;
        aged.latest = aged.now;
        let mut fresh = aged.fresh();
        let (mut of_aged, mut of_fresh) = (Vec::new(), Vec::new());
        for &(shift, ask) in &then {
            aged.shift(shift);
            fresh.shift(shift);
            let verdict = aged.ask(ask, &mut of_aged);
            prop_assert_eq!(verdict, fresh.ask(ask, &mut of_fresh), "{:?}", ask);
        }
    }

    #[test]
    fn a_smaller_cost_never_waits_longer(
        algorithm in algorithm(), start in start(), steps in steps()
    ) {
        let (subject, _) = after(algorithm, start, &steps);
        let waits: Vec<_> = (0..25).map(|cost| subject.peek(cost).retry_after()).collect();
        prop_assert!(waits.is_sorted(), "{:?}", waits);
    }

    #[test]
    fn immediate_refunds_restore_the_state_before(
        algorithm in algorithm(), start in start(), steps in steps(), calls in 1..5usize
    ) {
        let (mut subject, _) = after(algorithm, start, &steps);
        // Counted denials cannot be refunded, so make only calls that fit.
        let held = subject.peek(0);
        let mut receipts = Vec::new();
        for _ in 0..calls {
            subject.ask(Ask::TakeUpTo(subject.peek(0).remaining().min(2)), &mut receipts);
        }
        while !receipts.is_empty() {
            subject.ask(Ask::Refund(0), &mut receipts);
        }
        prop_assert_eq!(subject.peek(0).remaining(), held.remaining());
        prop_assert_eq!(reset_us(&subject.peek(0)), reset_us(&held));
    }

    #[test]
    fn refunds_of_everything_leave_nothing_used(
        algorithm in algorithm(), start in start(), steps in forwards(false)
    ) {
        if algorithm.counts_denied() {
            return Ok(());
        }
        let (mut subject, mut receipts) = after(algorithm, start, &steps);
        let unrefunded = reset_us(&subject.peek(0));
        while !receipts.is_empty() {
            subject.ask(Ask::Refund(0), &mut receipts);
        }
        let refunded = reset_us(&subject.peek(0));
        prop_assert!(refunded <= unrefunded);
        // A GCRA refund is the cost less all that leaked since, so some may stay used.
        if !matches!(algorithm, Algorithm::Gcra(_)) {
            prop_assert_eq!(refunded, 0);
        }
    }

    #[test]
    fn a_refund_gives_back_no_more_than_if_the_call_had_not_been_made(
        algorithm in algorithm(), start in start(), steps in forwards(false),
        index: usize, then in forwards(false)
    ) {
        // An anchored window starts at its first call; without that call it starts elsewhere.
        if is_anchored(&algorithm) || algorithm.counts_denied() {
            return Ok(());
        }
        let index = index % steps.len();
        let (mut with, mut without) = (Subject::new(algorithm, start), Subject::new(algorithm, start));
        let mut receipts = Vec::new();
        for (at, &(shift, ask)) in steps.iter().enumerate() {
            with.shift(shift);
            without.now = with.now;
            if at == index {
                with.ask(ask, &mut receipts);
                continue;
            }
            // Make only calls that both admit, so that the two differ by one call.
            let cost = match ask {
                Ask::Consume(cost) | Ask::Peek(cost) | Ask::TakeUpTo(cost) => cost,
                Ask::Lower(_) | Ask::Refund(_) | Ask::Settle(..) => 1,
            };
            if with.peek(cost).is_allowed() {
                with.consume(cost);
                prop_assert!(without.consume(cost).is_allowed());
            }
        }
        while !receipts.is_empty() {
            with.ask(Ask::Refund(0), &mut receipts);
        }
        for &(shift, _) in &then {
            with.shift(shift);
            let (kept, never) = (with.peek_at(0, with.now), without.peek_at(0, with.now));
            prop_assert!(kept.remaining() <= never.remaining());
        }
    }
}

fn is_anchored(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::FixedWindow(machine) if machine.is_anchored())
}

/// Returns `percent` of `whole`, but at most 100, so that unit calls stay quick.
fn part(whole: u64, percent: u64) -> u64 {
    (whole * percent / 100).min(100)
}
