//! Each machine answers as its second definition does, field by field.

use proptest::prelude::*;
use tollgate_conformance::naive::{Answer, Naive};
use tollgate_core::{
    Algorithm, FixedWindow, Gcra, Receipt, SlidingBuckets, SlidingCounter, SlidingLog,
};

use crate::histories::{Ask, Size, Step, Subject, backwards, cases, forwards, small, start};

fn agree(algorithm: Algorithm, start: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut subject = Subject::new(algorithm, start);
    let mut naive = Naive::of(&subject.limit).unwrap();
    let mut receipts: Vec<Receipt> = Vec::new();
    for &(shift, ask) in steps {
        subject.shift(shift);
        let now = subject.now;
        let expected = match ask {
            Ask::Consume(cost) => naive.consume(now, cost),
            Ask::Peek(cost) => naive.peek(now, cost),
            Ask::TakeUpTo(most) => naive.take_up_to(now, most),
            Ask::Lower(least) => naive.lower(now, least),
            Ask::Refund(_) | Ask::Settle(..) if receipts.is_empty() => continue,
            Ask::Settle(index, cost) => {
                let consumed = receipts[index % receipts.len()].consumed()[0];
                let (at, was) = (consumed.at().as_micros(), consumed.cost());
                naive.settle(now, at, was, cost)
            }
            Ask::Refund(index) => {
                // The subject refunds the receipt at this same index.
                let consumed = receipts[index % receipts.len()].consumed()[0];
                naive.refund(now, consumed.at().as_micros(), consumed.cost())
            }
        };
        let verdict = subject.ask(ask, &mut receipts);
        prop_assert_eq!(Answer::from(&verdict), expected, "{:?} at {}", ask, now);
    }
    Ok(())
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
    fn sliding_log_agrees_with_its_definition(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let mut machine = SlidingLog::new(size.quota()).unwrap();
        if count_denied {
            machine = machine.count_denied();
        }
        agree(machine.into(), start, &steps)?;
    }

    #[test]
    fn gcra_agrees_with_its_definition(size in small(), start in start(), steps in steps()) {
        let Size { amount, burst, .. } = size;
        let burst = if amount == 0 { 0 } else { burst };
        agree(Gcra::with_burst(size.quota(), burst).unwrap().into(), start, &steps)?;
    }

    #[test]
    fn aligned_windows_agree_with_their_definition(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let mut machine = FixedWindow::aligned(size.quota());
        if count_denied {
            machine = machine.count_denied();
        }
        agree(machine.into(), start, &steps)?;
    }

    #[test]
    fn anchored_windows_agree_with_their_definition(
        size in small(), count_denied: bool, start in start(), steps in steps()
    ) {
        let mut machine = FixedWindow::anchored(size.quota());
        if count_denied {
            machine = machine.count_denied();
        }
        agree(machine.into(), start, &steps)?;
    }

    #[test]
    fn sliding_counter_agrees_with_its_definition(
        size in small(), start in start(), steps in steps()
    ) {
        agree(SlidingCounter::new(size.quota()).unwrap().into(), start, &steps)?;
    }

    #[test]
    fn sliding_buckets_agree_with_their_definition(
        size in small(), start in start(), steps in steps()
    ) {
        agree(SlidingBuckets::new(size.quota(), size.buckets).unwrap().into(), start, &steps)?;
    }
}
