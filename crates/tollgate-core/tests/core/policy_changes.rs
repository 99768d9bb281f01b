//! A limit that is changed while it is in use: nothing wraps, and the new bound holds.

use proptest::prelude::*;
use tollgate_core::Limit;
use tollgate_core::store::Operation;
use tollgate_core::{Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog};

use crate::histories::{
    Size, Step, Subject, cases, forwards, reset_us, retry_us, small, start, usual,
};

/// Two algorithms that share a state, so that the second can replace the first.
fn changes() -> impl Strategy<Value = (Algorithm, Algorithm)> {
    let sizes = prop_oneof![(small(), small()), (usual(), usual()), (small(), usual())];
    (sizes, 0..7usize).prop_map(|((from, to), which)| {
        let same_window = Size {
            window: from.window,
            buckets: from.buckets,
            ..to
        };
        match which {
            // Only logs and GCRA buckets keep their state when the window changes.
            0 => (log(from).into(), log(to).into()),
            1 => (log(from).count_denied().into(), log(to).into()),
            2 => (bucket(from), bucket(to)),
            3 => (
                FixedWindow::aligned(from.quota()).into(),
                FixedWindow::aligned(same_window.quota()).into(),
            ),
            4 => (
                FixedWindow::anchored(from.quota()).count_denied().into(),
                FixedWindow::anchored(same_window.quota()).into(),
            ),
            5 => (
                SlidingCounter::new(from.quota()).unwrap().into(),
                SlidingCounter::new(same_window.quota()).unwrap().into(),
            ),
            _ => (ring(from), ring(same_window)),
        }
    })
}

fn log(size: Size) -> SlidingLog {
    SlidingLog::new(size.quota()).unwrap()
}

fn bucket(size: Size) -> Algorithm {
    let burst = if size.amount == 0 { 0 } else { size.burst };
    Gcra::with_burst(size.quota(), burst).unwrap().into()
}

fn ring(size: Size) -> Algorithm {
    SlidingBuckets::new(size.quota(), size.buckets)
        .unwrap()
        .into()
}

/// The most units that an algorithm admits in any half-open span as long as its window.
fn bound(algorithm: &Algorithm) -> u64 {
    let amount = algorithm.quota().amount();
    match algorithm {
        Algorithm::SlidingLog(_) | Algorithm::SlidingBuckets(_) => amount,
        Algorithm::Gcra(bucket) => bucket.burst() + amount.saturating_sub(1),
        Algorithm::FixedWindow(machine) if !machine.is_anchored() => 2 * amount,
        _ => (2 * amount).saturating_sub(1),
    }
}

/// Runs a history of calls and returns when and how much was admitted.
fn admitted(subject: &mut Subject, steps: &[Step]) -> Vec<(u64, u64)> {
    let mut admitted = Vec::new();
    for &(shift, ask) in steps {
        subject.shift(shift);
        let charged = subject.ask(ask, &mut Vec::new()).consumed();
        admitted.push((subject.now, charged));
    }
    admitted
}

/// Returns the most units of `admitted` in any half-open span of length `window`.
fn most(admitted: &[(u64, u64)], window: u64) -> u64 {
    let from = |first: u64| {
        let inside = admitted
            .iter()
            .filter(|(at, _)| *at >= first && *at < first + window);
        inside.map(|(_, units)| units).sum()
    };
    admitted.iter().map(|&(at, _)| from(at)).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn a_changed_limit_admits_its_own_bound_and_no_more(
        (from, to) in changes(), start in start(), before in forwards(false), then in forwards(false)
    ) {
        let mut subject = Subject::new(from, start);
        let earlier = admitted(&mut subject, &before);
        let changed = Limit::new(subject.limit.name(), to).unwrap();
        prop_assert_eq!(subject.limit.identity(), changed.identity());
        subject.limit = changed;

        // More may be used than the new capacity, and then nothing remains.
        let verdict = subject.peek(0);
        prop_assert!(verdict.remaining() <= subject.capacity());
        let later = admitted(&mut subject, &then);
        let window = to.quota().window_us();
        prop_assert!(most(&later, window) <= bound(&to));
        let both: Vec<_> = earlier.iter().chain(&later).copied().collect();
        let old: u64 = earlier.iter().map(|(_, units)| units).sum();
        prop_assert!(most(&both, window) <= bound(&to) + old);
        // If a log's window does not grow, every unit still in the new window counts.
        if matches!(to, Algorithm::SlidingLog(_)) && window <= from.quota().window_us() {
            let last = later.iter().rfind(|(_, units)| *units > 0);
            if let Some(&(last, _)) = last {
                let live = both.iter().filter(|(at, _)| at + window > last);
                prop_assert!(live.map(|(_, units)| units).sum::<u64>() <= to.quota().amount());
            }
        }
    }

    #[test]
    fn a_changed_limit_has_exact_waits(
        (from, to) in changes(), start in start(), before in forwards(true), cost in 1..15u64
    ) {
        let mut subject = Subject::new(from, start);
        let mut receipts = Vec::new();
        for &(shift, ask) in &before {
            subject.shift(shift);
            subject.ask(ask, &mut receipts);
        }
        subject.limit = Limit::new(subject.limit.name(), to).unwrap();
        // A receipt from the old limit can be refunded under the new one.
        if let Some(receipt) = receipts.pop() {
            let held = subject.peek(0).remaining();
            let left = subject.decide_at(Operation::Refund(&receipt), 0, subject.now).remaining();
            prop_assert!((held..=subject.capacity()).contains(&left));
        }
        let verdict = subject.peek(cost);
        prop_assert_eq!(retry_us(&verdict).is_none(), cost > subject.capacity());
        if let Some(wait) = retry_us(&verdict).filter(|&wait| wait > 0) {
            prop_assert!(!subject.peek_at(cost, subject.now + wait - 1).is_allowed());
            prop_assert!(subject.peek_at(cost, subject.now + wait).is_allowed());
        }
        let reset = reset_us(&verdict);
        prop_assert_eq!(subject.peek_at(0, subject.now + reset).remaining(), subject.capacity());
    }
}
