//! Each machine answers as its naive definition does, field by field.

use proptest::prelude::*;
use tollgate_core::algorithm::{
    Algorithm, FixedWindow, Gcra, SlidingBuckets, SlidingCounter, SlidingLog,
};
use tollgate_core::{Operation, Receipt, Verdict};

use crate::histories::{
    Ask, Size, Step, Subject, backwards, cases, forwards, reset_us, retry_us, small, start,
};
use crate::naive::{self, Aligned, Anchored, Answer, Bucket, Estimate, Log, Naive, Ring};

fn agree(
    algorithm: Algorithm,
    naive: &mut dyn Naive,
    start: u64,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut subject = Subject::new(algorithm, start);
    let mut receipts: Vec<Receipt> = Vec::new();
    for &(shift, ask) in steps {
        subject.shift(shift);
        let now = subject.now;
        let instant = naive.instant(now);
        let (expected, verdict) = match ask {
            Ask::Consume(cost) => {
                let expected = naive::consume(naive, now, cost);
                (expected, subject.ask(ask, &mut receipts))
            }
            Ask::Peek(cost) => (
                naive::peek(naive, now, cost),
                subject.ask(ask, &mut receipts),
            ),
            Ask::TakeUpTo(most) => {
                let expected = naive::take_up_to(naive, now, most);
                (expected, subject.ask(ask, &mut receipts))
            }
            Ask::Refund(_) if receipts.is_empty() => continue,
            Ask::Refund(index) => {
                let receipt = receipts.swap_remove(index % receipts.len());
                let charge = receipt.consumed()[0];
                let at = charge.at().as_micros();
                let expected = naive::give_back(naive, now, at, charge.cost());
                (
                    expected,
                    subject.decide_at(Operation::Refund(&receipt), 0, now),
                )
            }
        };
        prop_assert_eq!(of(&verdict), expected, "{:?} at {}", ask, now);
        if verdict.consumed() > 0 {
            prop_assert_eq!(
                verdict.decided_at().as_micros(),
                instant,
                "{:?} at {}",
                ask,
                now
            );
        }
    }
    Ok(())
}

fn of(verdict: &Verdict) -> Answer {
    Answer {
        allowed: verdict.is_allowed(),
        granted: verdict.consumed(),
        remaining: verdict.remaining(),
        retry_after: retry_us(verdict),
        reset_after: reset_us(verdict),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![
        forwards(false),
        forwards(true),
        backwards(false),
        backwards(true)
    ]
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn sliding_log_agrees_with_a_list_of_units(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let Size { amount, window, .. } = size;
        let mut machine = SlidingLog::new(size.quota()).unwrap();
        if count_denied {
            machine = machine.count_denied();
        }
        let mut naive = Log { amount, window, count_denied, units: Vec::new(), latest: 0 };
        agree(machine.into(), &mut naive, start, &steps)?;
    }

    #[test]
    fn gcra_agrees_with_a_dripping_bucket(size in small(), start in start(), steps in steps()) {
        let Size { amount, window, burst, .. } = size;
        let burst = if amount == 0 { 0 } else { burst };
        let mut naive = Bucket { amount, window, burst, changes: Vec::new() };
        let machine = Gcra::with_burst(size.quota(), burst).unwrap();
        agree(machine.into(), &mut naive, start, &steps)?;
    }

    #[test]
    fn aligned_windows_agree_with_a_scan_of_events(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let mut machine = FixedWindow::aligned(size.quota());
        if count_denied {
            machine = machine.count_denied();
        }
        let mut naive = Aligned::new(size.amount, size.window, count_denied);
        agree(machine.into(), &mut naive, start, &steps)?;
    }

    #[test]
    fn anchored_windows_agree_with_a_scan_of_events(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let mut machine = FixedWindow::anchored(size.quota());
        if count_denied {
            machine = machine.count_denied();
        }
        let mut naive = Anchored::new(size.amount, size.window, count_denied);
        agree(machine.into(), &mut naive, start, &steps)?;
    }

    #[test]
    fn sliding_counter_agrees_with_a_scan_of_events(
        size in small(), start in start(), steps in steps()
    ) {
        let mut naive = Estimate::new(size.amount, size.window);
        let machine = SlidingCounter::new(size.quota()).unwrap();
        agree(machine.into(), &mut naive, start, &steps)?;
    }

    #[test]
    fn sliding_buckets_agree_with_a_scan_of_events(
        size in small(), start in start(), steps in steps()
    ) {
        let mut naive = Ring::new(size.amount, size.window, size.buckets);
        let machine = SlidingBuckets::new(size.quota(), size.buckets).unwrap();
        agree(machine.into(), &mut naive, start, &steps)?;
    }
}
