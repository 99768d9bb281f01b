//! Random limits and random histories of calls, chosen to hit the edges of windows.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tollgate_core::store::{Check, Operation, Request, State, Verdict, Verdicts};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Limit, Quota, Receipt, SlidingBuckets, SlidingCounter,
    SlidingLog, Timestamp,
};

/// Returns a configuration with `cases` histories; saves failures beside the tests, to retry first.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/core/regressions.txt");
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(path))),
        ..ProptestConfig::default()
    }
}

/// How far the clock moves before a step; some shifts depend on the limit under test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shift {
    Zero,
    One,
    Few(u64),
    /// `T / N`.
    Spacing,
    /// `T - 1`, `T` or `T + 1`.
    AroundWindow(u64),
    TwoWindows,
    /// To the next multiple of the window, or one microsecond before or after.
    AroundMultiple(u64),
    /// By the last decision's `retry_after`, or one microsecond less.
    AsTold(u64),
    Back(u64),
    BackWindow,
}

/// The call of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask {
    Consume(u64),
    Peek(u64),
    TakeUpTo(u64),
    /// Lowers what remains.
    Lower(u64),
    /// Refunds one of the earlier calls.
    Refund(usize),
    /// Settles one of the earlier calls.
    Settle(usize, u64),
}

pub(crate) type Step = (Shift, Ask);

fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..=3u64, 3 => 0..=10u64, 1 => Just(u64::MAX)]
}

fn ask(refunds: bool) -> impl Strategy<Value = Ask> {
    prop_oneof![
        8 => cost().prop_map(Ask::Consume),
        1 => cost().prop_map(Ask::Peek),
        2 => cost().prop_map(Ask::TakeUpTo),
        3 => (any::<usize>(), 0..3_u8, 0..=10_u64).prop_map(move |(index, kind, cost)| {
            match (refunds, kind) {
                (false, _) => Ask::Consume(1),
                (true, 0) => Ask::Settle(index, cost),
                (true, _) => Ask::Refund(index),
            }
        }),
        1 => cost().prop_map(move |cost| match refunds {
            true => Ask::Lower(cost),
            false => Ask::Consume(1),
        }),
    ]
}

fn shift(backwards: bool) -> impl Strategy<Value = Shift> {
    prop_oneof![
        6 => Just(Shift::Zero),
        3 => Just(Shift::One),
        4 => (1..=6u64).prop_map(Shift::Few),
        3 => Just(Shift::Spacing),
        2 => (0..=2u64).prop_map(Shift::AroundWindow),
        1 => Just(Shift::TwoWindows),
        2 => (0..=2u64).prop_map(Shift::AroundMultiple),
        3 => (0..=1u64).prop_map(Shift::AsTold),
        2 => (1..=6u64).prop_map(move |by| match backwards {
            true => Shift::Back(by),
            false => Shift::Few(by),
        }),
        1 => Just(if backwards { Shift::BackWindow } else { Shift::One }),
    ]
}

/// Histories in which the clock never steps back.
pub(crate) fn forwards(refunds: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((shift(false), ask(refunds)), 1..40)
}

/// Histories in which the clock sometimes steps back.
pub(crate) fn backwards(refunds: bool) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((shift(true), ask(refunds)), 1..40)
}

/// An amount, a window in microseconds, a burst and a number of buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) amount: u64,
    pub(crate) window: u64,
    pub(crate) burst: u64,
    pub(crate) buckets: u64,
}

/// Sizes so small that a few steps reach every edge of a window.
pub(crate) fn small() -> impl Strategy<Value = Size> {
    (0..=8u64, 1..=24u64, 0..=8u64, 1..=9u64).prop_map(|(amount, window, burst, buckets)| Size {
        amount,
        window,
        burst,
        buckets,
    })
}

/// Realistic sizes, and some that do not divide evenly.
pub(crate) fn usual() -> impl Strategy<Value = Size> {
    let amounts = prop_oneof![1..=12u64, Just(7), Just(60), Just(1_000)];
    let windows = prop_oneof![
        Just(1_000_000),
        Just(60_000_000),
        Just(86_400_000_000),
        Just(999_983),
        1_000..=2_000_000u64,
    ];
    (amounts, windows, 1..=20u64, 1..=60u64).prop_map(|(amount, window, burst, buckets)| Size {
        amount,
        window,
        burst,
        buckets,
    })
}

impl Size {
    pub(crate) fn quota(self) -> Quota {
        Quota::new(self.amount, Duration::from_micros(self.window)).unwrap()
    }

    /// Returns every algorithm at this size.
    pub(crate) fn algorithms(self) -> Vec<Algorithm> {
        let quota = self.quota();
        let burst = if self.amount == 0 { 0 } else { self.burst };
        vec![
            FixedWindow::aligned(quota).into(),
            FixedWindow::aligned(quota).count_denied().into(),
            FixedWindow::anchored(quota).into(),
            FixedWindow::anchored(quota).count_denied().into(),
            Gcra::new(quota).unwrap().into(),
            Gcra::with_burst(quota, burst).unwrap().into(),
            SlidingBuckets::new(quota, self.buckets).unwrap().into(),
            SlidingCounter::new(quota).unwrap().into(),
            SlidingLog::new(quota).unwrap().into(),
            SlidingLog::new(quota).unwrap().count_denied().into(),
        ]
    }
}

/// Any algorithm at a small or a usual size.
pub(crate) fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![small(), usual()].prop_flat_map(|size| prop::sample::select(size.algorithms()))
}

/// An instant to start at: the epoch, soon after it, or about now.
pub(crate) fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        0..100u64,
        Just(1_700_000_000_000_000),
        1_700_000_000_000_000..1_700_000_100_000_000u64,
    ]
}

pub(crate) fn time(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// One limit, one key's state, and a clock.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    pub(crate) now: u64,
    /// The latest reading of the clock so far.
    pub(crate) latest: u64,
    told: u64,
}

impl Subject {
    pub(crate) fn new(algorithm: Algorithm, now: u64) -> Self {
        Self {
            limit: Limit::new("subject", algorithm).unwrap(),
            state: State::default(),
            now,
            latest: now,
            told: 0,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.limit.algorithm().capacity()
    }

    pub(crate) fn shift(&mut self, shift: Shift) {
        let quota = self.limit.algorithm().quota();
        let window = quota.window_us();
        let next_multiple = window - self.now % window;
        let by = match shift {
            Shift::Zero | Shift::Back(_) | Shift::BackWindow => 0,
            Shift::One => 1,
            Shift::Few(by) => by,
            Shift::Spacing => window / quota.amount().max(1),
            Shift::AroundWindow(around) => (window + around).saturating_sub(1),
            Shift::TwoWindows => 2 * window,
            Shift::AroundMultiple(around) => (next_multiple + around).saturating_sub(1),
            Shift::AsTold(less) => self.told.saturating_sub(less),
        };
        let back = match shift {
            Shift::Back(by) => by,
            Shift::BackWindow => window,
            _ => 0,
        };
        self.now = (self.now + by).saturating_sub(back);
        // Step back at most four windows: far enough to test, and the measured waits stay small.
        self.now = self.now.max(self.latest.saturating_sub(4 * window));
        self.latest = self.latest.max(self.now);
    }

    pub(crate) fn decide_at(&mut self, operation: Operation<'_>, cost: u64, now: u64) -> Verdict {
        let decision = self.decision_at(operation, cost, now);
        self.told = decision.retry_after().as_micros().unwrap_or(0);
        decision.as_slice()[0]
    }

    pub(crate) fn decision_at(
        &mut self,
        operation: Operation<'_>,
        cost: u64,
        now: u64,
    ) -> Verdicts {
        let check = Check::new(&self.limit, "key", cost);
        Request::new(operation, [check]).decide_on(&mut self.state, time(now))
    }

    pub(crate) fn consume(&mut self, cost: u64) -> Verdict {
        self.decide_at(Operation::Consume, cost, self.now)
    }

    /// Returns the verdict that a call at `now` would get.
    pub(crate) fn peek_at(&self, cost: u64, now: u64) -> Verdict {
        self.clone().decide_at(Operation::Peek, cost, now)
    }

    pub(crate) fn peek(&self, cost: u64) -> Verdict {
        self.peek_at(cost, self.now)
    }

    /// Returns the same limit and clock with the empty state of a fresh key.
    pub(crate) fn fresh(&self) -> Self {
        Self {
            state: State::default(),
            ..self.clone()
        }
    }

    /// Makes the call `ask`, and adds its receipt to `receipts` or removes the one that it refunds.
    pub(crate) fn ask(&mut self, ask: Ask, receipts: &mut Vec<Receipt>) -> Verdict {
        let (operation, cost) = match ask {
            Ask::Consume(cost) => (Operation::Consume, cost),
            Ask::Peek(cost) => (Operation::Peek, cost),
            Ask::TakeUpTo(most) => (Operation::TakeUpTo, most),
            Ask::Lower(least) => (Operation::Lower, least),
            Ask::Refund(_) | Ask::Settle(..) if receipts.is_empty() => (Operation::Peek, 0),
            Ask::Settle(index, cost) => {
                let receipt = receipts.swap_remove(index % receipts.len());
                return self.decide_at(Operation::Settle(&receipt), cost, self.now);
            }
            Ask::Refund(index) => {
                let receipt = receipts.swap_remove(index % receipts.len());
                return self.decide_at(Operation::Refund(&receipt), 0, self.now);
            }
        };
        let decision = self.decision_at(operation, cost, self.now);
        self.told = decision.retry_after().as_micros().unwrap_or(0);
        let verdict = decision.as_slice()[0];
        receipts.extend(decision.into_receipt());
        verdict
    }
}

pub(crate) fn retry_us(verdict: &Verdict) -> Option<u64> {
    verdict.retry_after().as_micros()
}

pub(crate) fn reset_us(verdict: &Verdict) -> u64 {
    verdict.reset_after().as_micros().unwrap()
}
