//! Refunds of sliding logs: right on both sides of the log, and bounded in what they rewrite.

use tollgate_core::store::{Check, Operation, Request, Verdicts};
use tollgate_core::{Algorithm, ErrorKind, Limit, Receipt, StoreError, Timestamp};
use tollgate_testkit::{Flavor, Server, rounds};
use tollgate_wire::WireStore;

use crate::engine::{Raw, changes, limit, now, remaining, store, store_on};

/// So many entries are rewritten at most: those before the refunded one, or those after it.
const BOUND: u64 = 2_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(1_780_000_000_000_000 + micros).unwrap()
}

/// A log of `entries` calls, one in each microsecond, with their receipts.
fn filled(store: &WireStore<Raw>, limit: &Limit, entries: u64) -> Vec<Receipt> {
    let calls = (0..entries).map(|micros| {
        let request = Request::consume(Check::new(limit, "k", 1)).at(at(micros));
        let decision = now(store.execute(&request)).unwrap();
        decision.into_receipt().unwrap()
    });
    calls.collect()
}

fn refund(
    store: &WireStore<Raw>,
    limit: &Limit,
    receipt: &Receipt,
    micros: u64,
) -> Result<Verdicts, StoreError> {
    let request = Request::refund(receipt, Check::new(limit, "k", 0)).at(at(micros));
    now(store.execute(&request))
}

/// Fails unless the error says that the refund is too deep in the log, and that nothing was done.
fn is_too_deep(error: &StoreError) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!error.is_retryable());
    let text = error.to_string();
    assert!(text.contains("more than 2,000 calls"), "{text}");
    assert!(text.contains("nothing was given back"), "{text}");
}

#[test]
fn refunds_rewrite_at_most_2000_entries_of_the_shorter_side() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let (store, limit) = (store_on(&server), limit("sliding-log:10000/1s"));
        let entries = 2 * BOUND + 3;
        let receipts = filled(&store, &limit, entries);
        let raw = store.engine();
        let key = raw.keys(store.options()).remove(0);
        let changes = || changes(&server);
        let middle = usize::try_from(BOUND + 1).unwrap();

        // One entry beyond the bound on either side.
        let (before, changed) = (raw.command(&[b"DUMP", &key]), changes());
        for cost in [0, 1] {
            let check = Check::new(&limit, "k", cost);
            let request = Request::refund(&receipts[middle], check).at(at(entries));
            is_too_deep(&now(store.execute(&request)).unwrap_err());
        }
        assert_eq!(raw.command(&[b"DUMP", &key]), before, "{flavor}");
        assert_eq!(changes(), changed, "{flavor}: it was written");

        // At the bound: so many entries before it, and one more after it; and the other way round.
        let mut left = 10_000 - entries;
        for index in [middle - 1, middle + 1] {
            let decision = refund(&store, &limit, &receipts[index], entries).unwrap();
            left += 1;
            assert_eq!(decision.remaining(), left, "{index} on {flavor}");
        }
        // The two that were given back are gone, so the middle is at the bound now.
        let decision = refund(&store, &limit, &receipts[middle], entries).unwrap();
        assert_eq!(decision.remaining(), left + 1, "{flavor}");
        // What is left leaves the window one by one, as if the three had never been.
        let remaining = |micros| {
            let request = Request::peek(Check::new(&limit, "k", 1)).at(at(1_000_000 + micros));
            now(store.execute(&request)).unwrap().remaining()
        };
        let start = left + 1;
        assert_eq!(remaining(0), start + 1, "{flavor}");
        assert_eq!(remaining(BOUND - 1), start + BOUND, "{flavor}");
        assert_eq!(remaining(BOUND + 2), start + BOUND, "{flavor}");
        assert_eq!(remaining(BOUND + 3), start + BOUND + 1, "{flavor}");
        assert_eq!(remaining(entries - 1), 10_000, "{flavor}");
    }
}

/// What the logs of one request rewrite together is bounded, not what each of them does.
#[test]
fn refunds_of_several_logs_rewrite_at_most_2000_entries_together() {
    let store = store(Flavor::System);
    let limits = ["one", "two"].map(|name| {
        let algorithm: Algorithm = "sliding-log:10000/1s".parse().unwrap();
        Limit::new(name, algorithm).unwrap()
    });
    let checks = limits.each_ref().map(|limit| Check::new(limit, "k", 1));
    let entries = BOUND + 3;
    let receipts: Vec<_> = (0..entries)
        .map(|micros| {
            let request = Request::new(Operation::Consume, checks).at(at(micros));
            now(store.execute(&request))
                .unwrap()
                .into_receipt()
                .unwrap()
        })
        .collect();
    let left = || {
        let peek = Request::new(Operation::Peek, checks).at(at(entries));
        remaining(&now(store.execute(&peek)).unwrap())
    };
    let refund = |index: u64| {
        let receipt = &receipts[usize::try_from(index).unwrap()];
        let request = Request::new(Operation::Refund(receipt), checks);
        now(store.execute(&request.at(at(entries))))
    };
    let before = left();
    is_too_deep(&refund(BOUND / 2 + 1).unwrap_err());
    assert_eq!(left(), before);
    let decision = refund(BOUND / 2).unwrap();
    let expected = before.iter().map(|left| left + 1).collect::<Vec<_>>();
    assert_eq!(remaining(&decision), expected);
}

/// Calls that have left the window are in the way until the next call that is counted removes them.
#[test]
fn the_next_call_removes_expired_entries_that_are_in_the_way_of_a_refund() {
    let (store, limit) = (store(Flavor::System), limit("sliding-log:10000/1s"));
    let entries = 2 * BOUND + 3;
    let receipts = filled(&store, &limit, entries);
    let middle = &receipts[usize::try_from(BOUND + 1).unwrap()];
    is_too_deep(&refund(&store, &limit, middle, 1_000_000).unwrap_err());
    let request = Request::consume(Check::new(&limit, "k", 1)).at(at(1_000_000));
    let _ = now(store.execute(&request)).unwrap();
    let decision = refund(&store, &limit, middle, 1_000_000).unwrap();
    assert_eq!(decision.remaining(), 10_000 - entries + 1);
}

/// A receipt that gives nothing back rewrites nothing, wherever it is.
#[test]
fn a_refund_without_effect_is_never_too_deep() {
    let (store, limit) = (store(Flavor::System), limit("sliding-log:10000/1s"));
    let (middle, entries) = (BOUND + 1, 2 * BOUND + 3);
    let other = crate::engine::limit("gcra:5/1s");
    // What the log and the other limit have counted in the same microsecond.
    let consume = |micros, cost| {
        let checks = [Check::new(&limit, "k", cost), Check::new(&other, "k", 1)];
        let request = Request::new(Operation::Consume, checks).at(at(micros));
        now(store.execute(&request))
            .unwrap()
            .into_receipt()
            .unwrap()
    };
    let refund = |receipt| {
        let checks = [Check::new(&limit, "k", 0), Check::new(&other, "k", 0)];
        let request = Request::new(Operation::Refund(receipt), checks);
        now(store.execute(&request.at(at(entries))))
    };
    filled(&store, &limit, middle);
    let (one, nothing) = (consume(middle, 1), consume(middle, 0));
    for micros in middle + 1..entries {
        let request = Request::consume(Check::new(&limit, "k", 1)).at(at(micros));
        let _ = now(store.execute(&request)).unwrap();
    }
    is_too_deep(&refund(&one).unwrap_err());
    let left = remaining(&refund(&nothing).unwrap());
    assert_eq!(left, [10_000 - entries, 4]);
}

/// Where one of several logs is too deep, no other limit is given anything back, in any order.
#[test]
fn a_refund_that_is_too_deep_in_one_log_gives_back_to_no_limit() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let store = store_on(&server);
        let limits = [
            // Slow, so that there is something to give back.
            "gcra:10000/1h",
            "sliding-log:10000/1s",
            "fixed-window:10000/1s",
        ];
        let limits = limits.map(limit);
        let entries = 2 * BOUND + 3;
        let orders = [[1, 0, 2], [0, 1, 2], [2, 0, 1]];
        for order in &orders[..usize::try_from(rounds(3)).unwrap()] {
            server.command(&["FLUSHALL"]);
            let checks = order.map(|index: usize| Check::new(&limits[index], "k", 1));
            let mut receipts = Vec::new();
            for micros in 0..entries {
                let request = Request::new(Operation::Consume, &checks).at(at(micros));
                receipts.extend(now(store.execute(&request)).unwrap().into_receipt());
            }
            let changes = || changes(&server);
            let middle = usize::try_from(BOUND + 1).unwrap();
            let refund = |index: usize| {
                let request = Request::new(Operation::Refund(&receipts[index]), &checks);
                now(store.execute(&request.at(at(entries))))
            };
            let before = changes();
            is_too_deep(&refund(middle).unwrap_err());
            assert_eq!(changes(), before, "{order:?} on {flavor}: it was written");
            let _ = refund(middle + 1).unwrap();
            assert!(changes() > before);
        }
    }
}
