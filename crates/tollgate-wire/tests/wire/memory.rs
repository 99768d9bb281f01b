//! A server that has reached its `maxmemory`: nothing is written, and what reads still works.

use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{ErrorKind, Limit, Receipt, StoreError, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::WireStore;

use crate::engine::{LIMITS, Raw, info, limit, now, store_on};

/// Beyond [`LIMITS`]: a quota of zero that counts denied calls, which has a way of its own to write.
const ZERO: [&str; 2] = [
    "fixed-window:1/10s,count-denied",
    "sliding-log:1/10s,count-denied",
];

/// Single limits, and pairs with a log in both orders. Five or more limits run another script.
fn requests() -> Vec<Vec<Limit>> {
    let alone = LIMITS.into_iter().chain(ZERO).map(|text| vec![text]);
    let pairs = [
        vec!["gcra:10/1s", "sliding-log:10/1s"],
        vec!["sliding-log:10/1s", "gcra:10/1s"],
        vec!["sliding-log:10/1s,count-denied", "fixed-window:10/1s"],
        vec![
            "sliding-log:10/1s",
            "gcra:10/1s",
            "sliding-log:10/1s",
            "fixed-window:10/1s",
            "sliding-counter:10/1s",
        ],
    ];
    let texts = alone.chain(pairs);
    texts
        .map(|texts| texts.into_iter().map(limit).collect())
        .collect()
}

/// Decides on `limits`, each on a key of its own, `micros` after the start of a day long past.
fn decide(
    store: &WireStore<Raw>,
    limits: &[Limit],
    stem: &str,
    operation: Operation<'_>,
    cost: u64,
    micros: u64,
) -> Result<Verdicts, StoreError> {
    let keys: Vec<_> = (0..limits.len())
        .map(|index| format!("{stem}-{index}"))
        .collect();
    let checks = limits.iter().zip(&keys);
    let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
    let at = Timestamp::from_micros(1_780_000_000_000_000 + micros).unwrap();
    now(store.execute(&Request::new(operation, &checks).at(at)))
}

/// Returns every key of a server with what it holds, and whether it expires.
fn dump(server: &Server, raw: &Raw) -> Vec<(Vec<u8>, Reply, bool)> {
    let Reply::Array(mut keys) = server.command(&["KEYS", "*"]) else {
        panic!("no keys");
    };
    keys.sort_by_key(|key| format!("{key:?}"));
    let held = keys.into_iter().map(|key| {
        let Reply::Bulk(key) = key else {
            panic!("{key:?} is no key");
        };
        let expires = raw.pttl(&key) >= 0;
        (key.clone(), raw.command(&[b"DUMP", &key]), expires)
    });
    held.collect()
}

/// What was counted before the memory ran out: the offset in microseconds and the cost of each call,
/// and which of them is given back.
type Shape = (&'static str, &'static [(u64, u64)], usize);

/// The states of a key that a log's script writes to in different ways, with windows of one second.
const SHAPES: [Shape; 5] = [
    ("one call", &[(0, 1)], 0),
    // The next call is at the instant of the last.
    ("same instant", &[(0, 1), (500_000, 3)], 1),
    // The oldest has left the window, and the last is given back.
    ("one has left", &[(0, 1), (500_000, 2), (1_100_000, 1)], 2),
    // All have left the window.
    ("old", &[(0, 2)], 0),
    // The whole quota is used.
    ("full", &[(0, 4), (250_000, 3), (500_000, 3)], 0),
];

fn instant(shape: &Shape) -> u64 {
    match shape.0 {
        "same instant" => 500_000,
        "old" => 2_000_000,
        "one has left" => 1_200_000,
        _ => 600_000,
    }
}

/// Counts the calls of a shape, and returns the receipts of those that were allowed.
fn prepare(
    store: &WireStore<Raw>,
    limits: &[Limit],
    stem: &str,
    shape: &Shape,
) -> Vec<Option<Receipt>> {
    let calls = shape.1.iter();
    let decided = calls.map(|&(micros, cost)| {
        let decision = decide(store, limits, stem, Operation::Consume, cost, micros);
        decision.unwrap().into_receipt()
    });
    decided.collect()
}

/// What is asked of the states of a shape.
#[derive(Clone, Copy, Debug)]
enum Act {
    Consume(u64),
    Peek,
    Lower,
    Refund,
    Settle(u64),
    TakeUpTo(u64),
}

const ACTS: [Act; 11] = [
    Act::Consume(0),
    Act::Consume(1),
    // More than any of the limits admits.
    Act::Consume(11),
    Act::Peek,
    Act::Refund,
    Act::TakeUpTo(1),
    Act::TakeUpTo(11),
    Act::Lower,
    Act::Settle(0),
    Act::Settle(3),
    Act::Settle(11),
];

/// Every operation on every state that would write is refused with `Full`, and writes nothing; what
/// would not write is decided.
#[test]
fn server_without_memory_refuses_the_first_write() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        for limits in requests() {
            let names: Vec<_> = limits.iter().map(|l| l.algorithm().to_string()).collect();
            // Which of the acts have been refused.
            let mut refused = [false; ACTS.len()];
            for shape in &SHAPES {
                for (stem, (index, act)) in ["old", "new"]
                    .into_iter()
                    .flat_map(|stem| ACTS.into_iter().enumerate().map(move |act| (stem, act)))
                {
                    let prepared = || {
                        server.command(&["CONFIG", "SET", "maxmemory", "0"]);
                        server.command(&["FLUSHALL"]);
                        let receipts = prepare(&store, &limits, stem, shape);
                        if stem == "new" {
                            // Its keys are gone, and others are there.
                            server.command(&["FLUSHALL"]);
                            prepare(&store, &limits, "old", shape);
                        }
                        (receipts, dump(&server, store.engine()))
                    };
                    let run = |receipts: &[Option<Receipt>]| {
                        let (operation, cost) = match (act, &receipts[shape.2]) {
                            (Act::Consume(cost), _) => (Operation::Consume, cost),
                            (Act::Refund, Some(receipt)) => (Operation::Refund(receipt), 0),
                            (Act::Settle(cost), Some(receipt)) => {
                                (Operation::Settle(receipt), cost)
                            }
                            (Act::Lower, _) => (Operation::Lower, 0),
                            (Act::Peek | Act::Refund | Act::Settle(_), _) => (Operation::Peek, 1),
                            (Act::TakeUpTo(most), _) => (Operation::TakeUpTo, most),
                        };
                        decide(&store, &limits, stem, operation, cost, instant(shape))
                    };
                    let (receipts, _) = prepared();
                    let changes = info(&server, "persistence", "rdb_changes_since_last_save");
                    let decided = run(&receipts).unwrap();
                    let writes =
                        info(&server, "persistence", "rdb_changes_since_last_save") > changes;
                    let (receipts, before) = prepared();
                    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                    let what = format!("{act:?} by {stem} of {names:?}, {}, on {flavor}", shape.0);
                    match run(&receipts) {
                        Ok(decision) => {
                            assert!(!writes, "{what}: decided");
                            assert_eq!(decision, decided, "{what}");
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Full, "{what}: {error}");
                            assert!(writes, "{what}: {error}");
                            refused[index] = true;
                        }
                    }
                    assert_eq!(dump(&server, store.engine()), before, "{what}: written");
                }
            }
            let counts = limits.iter().any(|l| l.algorithm().counts_denied());
            let admits = limits.iter().all(|l| l.algorithm().capacity() > 0);
            let expected = [
                false, true, counts, false, admits, true, true, admits, admits, admits, admits,
            ];
            assert_eq!(refused, expected, "{names:?} on {flavor}");
        }
    }
}

/// However many new keys ask, the server's memory stays within `maxmemory` and 64 KiB: what it holds
/// for its clients, and the last key, whose size it does not know beforehand.
#[test]
fn new_keys_stay_within_maxmemory() {
    const ROOM: u64 = 64 << 10;
    const SLACK: u64 = 64 << 10;
    const CALLS: u64 = 2_000;
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        for limits in requests() {
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            server.command(&["FLUSHALL", "SYNC"]);
            let names: Vec<_> = limits.iter().map(|l| l.algorithm().to_string()).collect();
            let consume = |stem: &str| decide(&store, &limits, stem, Operation::Consume, 1, 0);
            // So that the script is there.
            let writes = consume("first").unwrap().is_allowed() || names[0].contains("denied");
            let most = info(&server, "memory", "used_memory") + ROOM;
            server.command(&["CONFIG", "SET", "maxmemory", &most.to_string()]);
            let mut refused = 0;
            for call in 0..CALLS {
                if let Err(error) = consume(&call.to_string()) {
                    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                    refused += 1;
                }
            }
            let used = info(&server, "memory", "used_memory");
            assert!(
                writes && refused > 0,
                "{names:?} on {flavor}: {used} bytes, never `Full`"
            );
            assert!(
                used <= most + SLACK,
                "{names:?} on {flavor}: {used} > {most}"
            );
        }
    }
}
