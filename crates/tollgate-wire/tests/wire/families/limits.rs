//! Limits, one or several to a call: every operation on every shape of their states.

use std::time::Duration;

use tollgate_core::store::{Check, Operation, Prefetch, Request, Verdicts};
use tollgate_core::{Limit, Receipt, StoreError, Timestamp};
use tollgate_testkit::Flavor;

use super::{Answer, Call, Family, NOW, Store};
use crate::engine::{LIMITS, limit, now};

/// Limits whose users are told what they need.
pub(super) const FOR_USERS: [&str; 7] = [
    "gcra:10/1s",
    "fixed-window:10/1s",
    "sliding-counter:10/1s",
    "sliding-buckets:10/1s,buckets=4",
    "sliding-log:10/1s",
    "sliding-log:10/1s,count-denied",
    "gcra:10/1s sliding-log:10/1s",
];

/// Those of them that need what GCRA needs.
pub(super) const NEED_NO_MORE: &[&str] = FOR_USERS.split_at(4).0.split_at(1).1;

/// Beside [`LIMITS`]: quotas that count denied calls from the second on, pairs with a log in both
/// orders, and five limits, which run another script.
const MORE: [&str; 6] = [
    "fixed-window:1/10s,count-denied",
    "sliding-log:1/10s,count-denied",
    "gcra:10/1s sliding-log:10/1s",
    "sliding-log:10/1s gcra:10/1s",
    "sliding-log:10/1s,count-denied fixed-window:10/1s",
    "sliding-log:10/1s gcra:10/1s sliding-log:10/1s fixed-window:10/1s sliding-counter:10/1s",
];

pub(super) fn families() -> Vec<Box<dyn Family>> {
    let families = LIMITS.into_iter().chain(MORE).map(|texts| {
        let limits = texts.split(' ').map(limit).collect();
        Box::new(Limits { texts, limits }) as Box<dyn Family>
    });
    families.collect()
}

struct Limits {
    texts: &'static str,
    limits: Vec<Limit>,
}

/// What was counted before: the offset in microseconds and the cost of each call, which of them is
/// given back, and when that or something else happens.
type Shape = (&'static [(u64, u64)], usize, u64);

/// The states of a key that a log's script writes to in different ways, with windows of one second.
const SHAPES: [Shape; 5] = [
    (&[(0, 1)], 0, 600_000),
    // The next call is at the instant of the last.
    (&[(0, 1), (500_000, 3)], 1, 500_000),
    // The oldest has left the window, and the last is given back.
    (&[(0, 1), (500_000, 2), (1_100_000, 1)], 2, 1_200_000),
    // All have left the window.
    (&[(0, 2)], 0, 2_000_000),
    // The whole quota is used.
    (&[(0, 4), (250_000, 3), (500_000, 3)], 0, 600_000),
];

#[derive(Clone, Copy, Debug)]
enum Act {
    Consume(u64),
    Lower,
    Peek,
    Prefetch(u64),
    Refund,
    Settle(u64),
    TakeUpTo(u64),
}

const ACTS: [Act; 12] = [
    Act::Consume(0),
    Act::Consume(1),
    // More than any of the limits admits.
    Act::Consume(11),
    Act::Peek,
    Act::Prefetch(3),
    Act::Refund,
    Act::TakeUpTo(1),
    Act::TakeUpTo(11),
    Act::Lower,
    Act::Settle(0),
    Act::Settle(3),
    Act::Settle(11),
];

impl Limits {
    /// Makes a request about each limit, at a key of its own.
    fn with<T>(&self, cost: u64, run: impl FnOnce(&[Check<'_>]) -> T) -> T {
        const KEYS: [&str; 5] = ["0", "1", "2", "3", "4"];
        let checks = self.limits.iter().zip(KEYS);
        let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
        run(&checks)
    }

    fn decide(
        &self,
        store: &Store,
        operation: Operation<'_>,
        cost: u64,
        micros: u64,
    ) -> Result<Verdicts, StoreError> {
        let at = Timestamp::from_micros(NOW + micros).unwrap();
        self.with(cost, |checks| {
            now(store.execute(&Request::new(operation, checks).at(at)))
        })
    }

    fn counts_denied(&self) -> bool {
        let mut limits = self.limits.iter();
        limits.any(|limit| limit.algorithm().counts_denied())
    }
}

impl Family for Limits {
    fn name(&self) -> String {
        self.texts.to_owned()
    }

    fn rows(&self) -> Vec<&'static str> {
        let logs = ["sliding log |", "refunds and settlements of a sliding log"];
        let strings = ["fixed window, calendar window, GCRA"];
        let has_log = self.texts.contains("log");
        let has_string = self.texts.split(' ').any(|text| !text.contains("log"));
        let logs = logs.into_iter().filter(|_| has_log);
        let strings = strings.into_iter().filter(|_| has_string);
        let always = ["every store", "`reset`"].into_iter();
        always.chain(logs).chain(strings).collect()
    }

    fn writes_before(&self, _refused: &str) -> bool {
        self.texts.contains("log")
    }

    /// Of every shape, and after a reset of each or of one.
    fn states(&self) -> usize {
        match Flavor::is_every() {
            true => 2 * SHAPES.len(),
            false => SHAPES.len() + 1,
        }
    }

    fn prepare(&self, store: &Store, state: usize) -> Vec<Option<Receipt>> {
        let calls = SHAPES[state % SHAPES.len()].0.iter();
        let receipts = calls.map(|&(micros, cost)| {
            let decision = self.decide(store, Operation::Consume, cost, micros);
            decision.unwrap().into_receipt()
        });
        let receipts = receipts.collect();
        if state >= SHAPES.len() {
            self.reset(store).unwrap();
        }
        receipts
    }

    fn calls(&self) -> Vec<Call> {
        let calls = ACTS.into_iter().map(|act| Call {
            shown: format!("{act:?}"),
            needs_memory: match act {
                Act::Consume(0) | Act::Peek => false,
                Act::Consume(11) => self.counts_denied(),
                _ => true,
            },
            is_read: matches!(act, Act::Peek),
        });
        calls.collect()
    }

    fn ask(
        &self,
        store: &Store,
        call: usize,
        state: usize,
        receipts: &[Option<Receipt>],
    ) -> Result<Answer, StoreError> {
        let (_, receipt, micros) = SHAPES[state % SHAPES.len()];
        let act = ACTS[call];
        let (operation, cost) = match (act, &receipts[receipt]) {
            (Act::Consume(cost), _) => (Operation::Consume, cost),
            (Act::Refund, Some(receipt)) => (Operation::Refund(receipt), 0),
            (Act::Settle(cost), Some(receipt)) => (Operation::Settle(receipt), cost),
            (Act::Lower, _) => (Operation::Lower, 0),
            (Act::Peek, _) => (Operation::Peek, 1),
            // A call that was denied has nothing to give back.
            (Act::Refund | Act::Settle(_), None) => (Operation::Lower, 1),
            (Act::Prefetch(most), _) => {
                let ahead = Prefetch::new(most, Duration::from_millis(50));
                (Operation::Prefetch(ahead), 1)
            }
            (Act::TakeUpTo(most), _) => (Operation::TakeUpTo, most),
        };
        let verdicts = self.decide(store, operation, cost, micros)?;
        let may_change = match operation {
            Operation::Peek => false,
            Operation::Consume | Operation::Prefetch(_) => {
                cost > 0 && (verdicts.is_allowed() || self.counts_denied())
            }
            Operation::TakeUpTo => verdicts.consumed() > 0 || self.counts_denied(),
            _ => true,
        };
        let shown = format!("{verdicts:?}");
        Ok(Answer { shown, may_change })
    }

    fn reset(&self, store: &Store) -> Result<(), StoreError> {
        self.with(0, |checks| now(store.reset(checks)))
    }

    fn look_by_clock(&self, store: &Store) -> Result<(), StoreError> {
        self.with(1, |checks| {
            now(store.execute(&Request::new(Operation::Peek, checks))).map(drop)
        })
    }

    fn advice(&self) -> &'static str {
        " again"
    }

    fn key(&self) -> &'static str {
        match self.texts {
            "gcra:10/1s" => "l:gcra:v1-caller:{0}",
            "sliding-log:10/1s" => "l:sliding-log:v1-caller:{0}",
            "gcra:10/1s sliding-log:10/1s" => "l:sliding-log:v1-caller:{1}",
            "sliding-log:10/1s gcra:10/1s" => "l:gcra:v1-caller:{1}",
            text if text.len() > 60 => "l:sliding-counter-1000000:v1-caller:{4}",
            _ => "l:other",
        }
    }

    fn foreign(&self) -> Vec<(Vec<Vec<u8>>, &'static str)> {
        let is_known = self.key() != "l:other";
        let set = vec![b"SADD".to_vec(), b"member".to_vec()];
        is_known
            .then_some((set, "another prefix"))
            .into_iter()
            .collect()
    }
}
