//! One decision is one command, and one reading of the server's clock, however many limits it names.

use tollgate_core::wire::{Clock, Options, WireStore};
use tollgate_core::{Check, Limit, Operation, Request};
use tollgate_testkit::{Flavor, Server};

use crate::engine::{LIMITS, Raw, calls, fresh, limit, now};

/// One limit alone of each algorithm, and composites: two and four run straight, five and thirty-two,
/// the most that there may be, in a loop.
fn requests() -> Vec<Vec<Limit>> {
    let several = |count| LIMITS.into_iter().cycle().take(count).map(limit).collect();
    let alone = LIMITS.iter().map(|text| vec![limit(text)]);
    alone.chain([2, 4, 5, 32].map(several)).collect()
}

/// Decides each of `requests` in every way, and calls `decided` with the name of each decision.
fn decide_all(store: &WireStore<Raw>, requests: &[Vec<Limit>], mut decided: impl FnMut(&str)) {
    for limits in requests {
        // One key each, or two equal limits would share their state.
        let keys: Vec<_> = limits.iter().map(|_| fresh("k")).collect();
        let mut decide = |operation, cost| {
            let checks = limits.iter().zip(&keys);
            let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
            let decision = now(store.execute(&Request::new(operation, &checks))).unwrap();
            let first = limits[0].algorithm();
            decided(&format!("{operation:?} of {} from {first}", limits.len()));
            decision.into_receipt()
        };
        decide(Operation::Peek, 1);
        let receipt = decide(Operation::Consume, 2).expect("what was consumed");
        decide(Operation::TakeUpTo, 1);
        // More than any of them admits at once.
        decide(Operation::Consume, 100);
        decide(Operation::TakeUpTo, 100);
        decide(Operation::Refund(&receipt), 0);
    }
}

#[test]
fn a_decision_is_one_command_and_reads_the_clock_once() {
    let requests = requests();
    for flavor in Flavor::chosen() {
        // A server counts what it has run for all of its clients together.
        let server = Server::start(flavor);
        for (clock, readings) in [(Clock::Server, 1), (Clock::Caller, 0)] {
            let options = Options::new().with_clock(clock);
            let store = WireStore::new(Raw::over(server.connection(), None), options);
            let count = || ["evalsha", "script|load", "script", "time"].map(|c| calls(&server, c));
            // So that every script is there.
            decide_all(&store, &requests, |_| {});
            server.command(&["CONFIG", "RESETSTAT"]);
            let mut expected = [0; 4];
            decide_all(&store, &requests, |what| {
                expected[0] += 1;
                expected[3] += readings;
                assert_eq!(count(), expected, "{what}, by {clock:?} on {flavor}");
            });
        }
    }
}

#[test]
fn a_call_about_many_limits_reads_each_state_once() {
    let server = Server::start(Flavor::System);
    let store = WireStore::new(Raw::over(server.connection(), None), Options::new());
    let limits: Vec<_> = ["gcra:10/1s"; 5].map(limit).into();
    let keys: Vec<_> = limits.iter().map(|_| fresh("k")).collect();
    let checks = limits.iter().zip(&keys);
    let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, 1)).collect();
    for operation in [Operation::Consume, Operation::Peek, Operation::TakeUpTo] {
        let before = calls(&server, "get");
        let _ = now(store.execute(&Request::new(operation, &checks))).unwrap();
        assert_eq!(calls(&server, "get") - before, 5, "{operation:?}");
    }
}
