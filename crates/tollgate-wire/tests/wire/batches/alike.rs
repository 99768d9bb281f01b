//! A history decided in batches has the same decisions, field by field, as one decided call by call.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate_core::store::{BlockSpan, Check, Operation, Prefetch, Request, Verdicts};
use tollgate_core::{Limit, Receipt, StoreError, Timestamp};
use tollgate_testkit::Flavor;
use tollgate_wire::{Options, WireStore};

use super::tasks::{Spawning, together};
use crate::engine::{Raw, config, fresh, now};

const LIMITS: [&str; 10] = [
    "gcra:5/1s",
    "gcra:7/3s,burst=3",
    "fixed-window:5/1s",
    "fixed-window:5/1s,anchored",
    "sliding-counter:6/1s",
    "sliding-buckets:6/1s,buckets=4",
    "sliding-log:6/1s",
    "sliding-log:4/1s,count-denied",
    "block:50ms,doublings=2",
    "fixed-window:3/1s,shadow",
];

/// A call: what it does, on which limits and key, at which costs, and when.
#[derive(Clone, Debug)]
struct Planned {
    act: Act,
    limits: Vec<usize>,
    key: usize,
    cost: u64,
    /// How much more each limit is asked for than the one before it.
    more: u64,
    /// Milliseconds after the batch before it.
    after: u64,
    id: Option<u8>,
}

#[derive(Clone, Debug)]
enum Act {
    Consume,
    Peek,
    Take,
    Lower,
    /// How many units ahead, within how many milliseconds, and what part of what is left: one in the last number.
    Prefetch(u64, u64, u32),
    Reserve(u64),
    Block(u64),
    Charge,
    Give,
    Refund(Index),
    Settle(Index),
}

fn call() -> impl Strategy<Value = Planned> {
    let act = prop_oneof![
        16 => Just(Act::Consume),
        3 => Just(Act::Peek),
        2 => Just(Act::Take),
        1 => Just(Act::Charge),
        1 => Just(Act::Give),
        1 => Just(Act::Lower),
        3 => (0..9_u64, 0..900_u64, 1..3_u32)
            .prop_map(|(most, millis, parts)| Act::Prefetch(most, millis, parts)),
        2 => (0..2_000_u64).prop_map(Act::Reserve),
        1 => (0..90_u64).prop_map(Act::Block),
        2 => any::<Index>().prop_map(Act::Refund),
        2 => any::<Index>().prop_map(Act::Settle),
    ];
    let limits = prop_oneof![
        4 => (0..10_usize).prop_map(|one| vec![one]),
        // Each denied call changes what the next one is told.
        2 => Just(vec![7]),
        1 => Just(vec![9, 2]),
        1 => Just(vec![0, 6]),
        1 => Just(vec![6, 2, 4]),
        1 => Just(vec![0, 1]),
        1 => Just(vec![7, 0]),
        1 => Just(vec![0, 2, 3, 4, 5, 6]),
    ];
    let cost = prop_oneof![8 => Just(1_u64), 2 => Just(2), 1 => 0..5_u64, 1 => Just(u64::MAX)];
    let more = prop_oneof![4 => Just(0_u64), 1 => 1..3_u64];
    let after = prop_oneof![6 => Just(0_u64), 1 => 1..30_u64];
    let id = prop_oneof![9 => Just(None), 1 => (0..2_u8).prop_map(Some)];
    let call = (act, limits, 0..2_usize, cost, more, after, id);
    call.prop_map(|(act, limits, key, cost, more, after, id)| Planned {
        act,
        limits,
        key,
        cost,
        more,
        after,
        id,
    })
}

/// Batches, and how many milliseconds lie between them. Calls are repeated in a row, as those of a
/// key that many want are, some of them with costs that take turns.
fn history() -> impl Strategy<Value = Vec<(u64, Vec<Planned>)>> {
    let turns = prop_oneof![3 => Just(1_u64), 1 => Just(2)];
    let calls = prop::collection::vec((call(), turns, 1..5_u64), 1..14);
    let batch = calls.prop_map(|calls| {
        let repeated = calls.into_iter().flat_map(|(call, turns, times)| {
            (0..times).map(move |time| Planned {
                more: call.more + time % turns,
                ..call.clone()
            })
        });
        repeated.collect()
    });
    prop::collection::vec((0..900_u64, batch), 1..6)
}

/// A decision, without what tells errors of the two ways apart.
fn shown(result: &Result<Verdicts, StoreError>) -> String {
    match result {
        Ok(verdicts) => format!("{verdicts:?}"),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

/// What a refund and a settlement are about.
struct Earlier {
    receipt: Receipt,
    limits: Vec<usize>,
    key: usize,
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_batch_decides_as_one_call_after_the_other(
        flavor in prop::sample::select(Flavor::chosen()),
        limits_at_once in prop::sample::select(&[2, 5, 64]),
        history in history(),
    ) {
        const KEYS: [&str; 2] = ["alice", "bob"];
        let limits: Vec<Limit> = LIMITS
            .iter()
            .enumerate()
            .map(|(index, text)| format!("l{index}={text}").parse().unwrap())
            .collect();
        let options = || Options::new().with_prefix(&fresh("batches")).unwrap();
        let one_by_one = WireStore::new(Raw::to(flavor), options());
        let small = options().with_batches_only().with_batch_limits(limits_at_once);
        let batched = WireStore::new(Spawning(Raw::to(flavor)), small);
        let mut clock = 1_780_000_000_000_000;
        let mut earlier: Vec<Earlier> = Vec::new();
        for (pause, batch) in history {
            clock += pause * 1_000;
            let mut requests = Vec::new();
            let mut about = Vec::new();
            for planned in &batch {
                clock += planned.after * 1_000;
                let receipt_of = |index: &Index| {
                    (!earlier.is_empty()).then(|| &earlier[index.index(earlier.len())])
                };
                let (of, key) = match &planned.act {
                    Act::Refund(index) | Act::Settle(index) => match receipt_of(index) {
                        Some(earlier) => (&earlier.limits, earlier.key),
                        None => continue,
                    },
                    _ => (&planned.limits, planned.key),
                };
                let operation = match &planned.act {
                    Act::Consume => Operation::Consume,
                    Act::Peek => Operation::Peek,
                    Act::Take => Operation::TakeUpTo,
                    Act::Charge => Operation::Charge,
                    Act::Give => Operation::Give,
                    Act::Lower => Operation::Lower,
                    Act::Prefetch(most, millis, parts) => {
                        let within = Duration::from_millis(*millis);
                        Operation::Prefetch(Prefetch::new(*most, within).one_of(*parts))
                    }
                    Act::Reserve(millis) => Operation::Reserve {
                        max_delay: Duration::from_millis(*millis),
                    },
                    Act::Block(0) => Operation::Block(BlockSpan::Usual),
                    Act::Block(millis) => {
                        Operation::Block(BlockSpan::Lasting(Duration::from_millis(*millis)))
                    }
                    Act::Refund(index) => Operation::Refund(&receipt_of(index).unwrap().receipt),
                    Act::Settle(index) => Operation::Settle(&receipt_of(index).unwrap().receipt),
                };
                let costs = (1..).map(|place| planned.cost.saturating_add(planned.more * place));
                let checks = of.iter().zip(costs);
                let checks = checks.map(|(&index, cost)| Check::new(&limits[index], KEYS[key], cost));
                let request = Request::new(operation, checks).at(Timestamp::from_micros(clock).unwrap());
                let request = match planned.id {
                    Some(0) => request.id("one"),
                    Some(_) => request.id("two"),
                    None => request,
                };
                requests.push(request);
                about.push((of.clone(), key));
            }
            if requests.is_empty() {
                continue;
            }
            // What is refused before it is sent waits for nothing.
            let is_sent = |request: &Request<'_>| {
                request.split_id().is_ok_and(|(_, request)| request.validate_operation().is_ok())
            };
            let (sent, about): (Vec<_>, Vec<_>) = requests
                .into_iter()
                .zip(about)
                .filter(|(request, _)| is_sent(request))
                .unzip();
            let alone: Vec<_> = sent.iter().map(|request| now(one_by_one.execute(request))).collect();
            let batched = together(&batched, &sent);
            let mut receipts = Vec::new();
            for (index, (alone, batched)) in alone.iter().zip(&batched).enumerate() {
                prop_assert_eq!(shown(alone), shown(batched), "{}: {:?}", index, sent[index]);
                let receipt = |answer: &Result<Verdicts, StoreError>| {
                    answer.as_ref().ok().and_then(|verdicts| verdicts.again().into_receipt())
                };
                prop_assert_eq!(receipt(alone), receipt(batched), "{}: {:?}", index, sent[index]);
                // What was given back has none that a store accepts.
                let is_given = matches!(sent[index].operation(), Operation::Give);
                receipts.extend(receipt(batched).filter(|_| !is_given).map(|receipt| (receipt, about[index].clone())));
            }
            drop(sent);
            earlier.extend(receipts.into_iter().map(|(receipt, (limits, key))| Earlier {
                receipt,
                limits,
                key,
            }));
        }
    }
}
