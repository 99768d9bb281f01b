//! The memory store and both Redis stores decide every history as the state machines do.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says where"
)]

#[path = "../src/machine.rs"]
mod machine;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use machine::Machine;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate_conformance::fresh_key;
use tollgate_core::store::{Check, Checks, Operation, Request, Verdicts};
use tollgate_core::{Key, Limit, Receipt, Store, StoreError, Timestamp};
use tollgate_fred::FredStore;
use tollgate_memory::MemoryStore;
use tollgate_redis::{Options, RedisStore};
use tollgate_testkit::{Flavor, shared};

const START: u64 = 1_780_000_000_000_000;

const LIMITS: [&str; 9] = [
    "gcra:5/1s",
    "gcra:7/1300ms,burst=3",
    "fixed-window:5/1m",
    "fixed-window:4/7ms,anchored",
    "fixed-window:3/1s,count-denied",
    "sliding-buckets:7/1300ms,buckets=10",
    "sliding-counter:7/1300ms",
    "sliding-log:5/1s",
    "sliding-log:3/1s,count-denied",
];

/// One call: how far the clock moves before it, the operation, and the checks.
#[derive(Clone, Debug)]
struct Step {
    later: i64,
    act: Act,
    checks: Vec<PlannedCheck>,
}

/// The index of a limit, the index of a key, and the cost.
type PlannedCheck = (usize, usize, u64);

#[derive(Clone, Copy, Debug)]
enum Act {
    Consume,
    Peek,
    TakeUpTo,
    Refund,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let later = prop_oneof![
        4 => Just(0_i64),
        2 => 1..2_000_i64,
        2 => 100_000..400_000_i64,
        1 => prop::sample::select(&[1_000_000_i64, 1_300_000, 60_000_000][..]),
        1 => -2_000..0_i64,
        1 => -400_000..-100_000_i64,
    ];
    let act = prop_oneof![
        6 => Just(Act::Consume),
        1 => Just(Act::Peek),
        2 => Just(Act::TakeUpTo),
        2 => Just(Act::Refund),
        1 => Just(Act::Reset),
    ];
    let places: Vec<_> = (0..LIMITS.len())
        .flat_map(|limit| (0..2).map(move |key| (limit, key)))
        .collect();
    let checks = prop::sample::subsequence(places, 1..=6).prop_flat_map(|places| {
        let check = |(limit, key)| (0..4_u64).prop_map(move |cost| (limit, key, cost));
        places.into_iter().map(check).collect::<Vec<_>>()
    });
    let step = (later, act, checks).prop_map(|(later, act, checks)| Step { later, act, checks });
    prop::collection::vec(step, 1..25)
}

/// The state machines as a store that decides at the caller's instants.
#[derive(Default)]
struct Machines(Mutex<Machine>);

impl Machines {
    /// Returns `now`, or `latest` if the clock stepped back and a store may have dropped a state.
    fn reachable(&self, now: Timestamp, latest: Timestamp) -> Timestamp {
        let machine = self.0.lock().unwrap();
        let dropped = |at| machine.may_have_dropped(at);
        let behind = now < latest;
        if behind && (dropped(latest) || dropped(now)) {
            return latest;
        }
        now
    }
}

#[async_trait]
impl Store for Machines {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let request = &request;
        let now = request.caller_time().unwrap();
        Ok(self.0.lock().unwrap().answer(request, now))
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.0.lock().unwrap().reset(&checks);
        Ok(())
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        request.is_defined()
    }
}

/// A store, and the receipts that were not refunded, with the checks of their calls.
struct Subject {
    name: &'static str,
    store: Arc<dyn Store>,
    receipts: Vec<(Vec<PlannedCheck>, Receipt)>,
}

/// Runs one step on a store, and returns its answer as text.
async fn ask(
    subject: &mut Subject,
    step: &Step,
    limits: &[Limit],
    partition: &str,
    now: Timestamp,
) -> String {
    let rests = ["", "/b"];
    let checks = |asked: &[PlannedCheck]| -> Vec<Check<'_>> {
        let check = |&(limit, key, cost): &PlannedCheck| {
            let key = Key::from(partition).with_rest(rests[key]);
            Check::new(&limits[limit], key, cost)
        };
        asked.iter().map(check).collect()
    };
    let asked = checks(&step.checks);
    let mut returned = None;
    let operation = match step.act {
        Act::Consume => Operation::Consume,
        Act::Peek => Operation::Peek,
        Act::TakeUpTo => Operation::TakeUpTo,
        Act::Refund => match subject.receipts.pop() {
            Some(receipt) => {
                returned = Some(receipt);
                Operation::Consume
            }
            None => return "nothing to give back".to_owned(),
        },
        Act::Reset => {
            subject.store.reset(asked[..].into()).await.unwrap();
            return "reset".to_owned();
        }
    };
    let request = match &returned {
        Some((asked, receipt)) => Request::new(Operation::Refund(receipt), checks(asked)),
        None => Request::new(operation, asked.clone()),
    };
    let decision = subject.store.decide(request.at(now)).await.unwrap();
    let said = format!("{decision:?}");
    if let Some(receipt) = decision.into_receipt() {
        subject.receipts.push((step.checks.clone(), receipt));
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_store_decides_a_history_alike() {
    let limits: Vec<_> = LIMITS
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let algorithm: tollgate_core::Algorithm = text.parse().unwrap();
            Limit::new(&format!("limit-{index}"), algorithm).unwrap()
        })
        .collect();
    for flavor in Flavor::chosen() {
        let server = shared::standalone(flavor);
        let options = |prefix: &str| {
            let options = Options::new().with_deadline(Duration::from_secs(10));
            options.with_prefix(&fresh_key(prefix)).unwrap()
        };
        let redis = RedisStore::builder()
            .options(options("redis"))
            .connect(server.url())
            .await
            .unwrap();
        let fred = FredStore::builder()
            .options(options("fred"))
            .connect(&server.url())
            .await
            .unwrap();
        let stores: [(&str, Arc<dyn Store>); 3] = [
            ("memory", Arc::new(MemoryStore::new())),
            ("redis-rs", Arc::new(redis)),
            ("fred", Arc::new(fred)),
        ];
        let steps_back = AtomicU64::new(0);
        let config = ProptestConfig {
            cases: 150,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let play = |steps: Vec<Step>| {
            let machines = Arc::new(Machines::default());
            let first: (&str, Arc<dyn Store>) = ("the machines", machines.clone());
            let mut subjects: Vec<_> = [&first]
                .into_iter()
                .chain(&stores)
                .map(|(name, store)| Subject {
                    name,
                    store: Arc::clone(store),
                    receipts: Vec::new(),
                })
                .collect();
            let partition = fresh_key("tenant");
            let (mut now, mut latest) = (START, Timestamp::UNIX_EPOCH);
            let (limits, flavor, steps_back) = (&limits, flavor, &steps_back);
            async move {
                for step in &steps {
                    let then =
                        Timestamp::from_micros(now.saturating_add_signed(step.later)).unwrap();
                    latest = latest.max(then);
                    let at = machines.reachable(then, latest);
                    now = at.as_micros();
                    steps_back.fetch_add(u64::from(at < latest), Ordering::Relaxed);
                    let mut said: Option<String> = None;
                    for subject in &mut subjects {
                        let answer = ask(subject, step, limits, &partition, at).await;
                        let first = said.get_or_insert_with(|| answer.clone());
                        prop_assert_eq!(&*first, &answer, "{} on {}", subject.name, flavor);
                    }
                }
                Ok(())
            }
        };
        tokio::task::block_in_place(|| {
            let outcome = TestRunner::new(config).run(&steps(), |steps| {
                tokio::runtime::Handle::current().block_on(play(steps))
            });
            outcome.unwrap_or_else(|error| panic!("{flavor}: {error}"));
        });
        let steps_back = steps_back.into_inner();
        assert!(steps_back > 100, "{flavor}: only {steps_back} were behind");
    }
}
