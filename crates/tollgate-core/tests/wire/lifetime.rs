//! How long servers keep states: as long as they say something, and never for ever.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::wire::{Clock, Options};
use tollgate_core::{Check, Operation, Receipt, Request, Timestamp};
use tollgate_testkit::{Flavor, Reply};

use crate::engine::{LIMITS, Raw, limit, now, store, store_with};

/// Returns the server's time in microseconds.
fn server_time(raw: &Raw) -> u64 {
    let reply = raw.command(&[b"TIME"]);
    let part = |index: usize| -> u64 {
        let Reply::Bulk(digits) = &reply.items()[index] else {
            panic!("{reply:?} is no time");
        };
        std::str::from_utf8(digits).unwrap().parse().unwrap()
    };
    part(0) * 1_000_000 + part(1)
}

/// What a history does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Consume(u64),
    TakeUpTo(u64),
    Refund,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (1..4_u64).prop_map(Act::Consume),
        1 => (1..12_u64).prop_map(Act::TakeUpTo),
        3 => Just(Act::Refund),
    ];
    prop::collection::vec(act, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A state is kept until it says nothing, and at most a millisecond longer.
    #[test]
    fn by_the_servers_clock_a_state_lives_as_long_as_it_says_something(
        index in 0..LIMITS.len(),
        history in acts(),
    ) {
        let (store, limit) = (store(Flavor::System), limit(LIMITS[index]));
        let raw = store.engine();
        let mut receipts: Vec<Receipt> = Vec::new();
        for act in history {
            let check = |cost| Check::new(&limit, "k", cost);
            let receipt = receipts.pop();
            let before = server_time(raw);
            let request = match (act, &receipt) {
                (Act::Consume(cost), _) => Request::consume(check(cost)),
                (Act::TakeUpTo(cost), _) => Request::take_up_to(check(cost)),
                (Act::Refund, Some(receipt)) => Request::refund(receipt, check(0)),
                (Act::Refund, None) => continue,
            };
            let decision = now(store.decide(&request)).unwrap();
            let wrote = decision.is_allowed() || limit.algorithm().counts_denied();
            let (keys, after) = (raw.keys(store.options()), server_time(raw));
            let took = after - before;
            if !wrote { continue; }
            let ends = decision.verdicts()[0].decided_at().as_micros().max(before)
                + u64::try_from(decision.reset_after().as_micros()).unwrap();
            let Some(key) = keys.first() else {
                prop_assert!(ends <= after + 1_000, "the state is gone {} early", ends - after);
                continue;
            };
            let left = raw.pttl(key);
            let asked = server_time(raw);
            prop_assert_ne!(left, -1, "a key without an end");
            if let Ok(left) = u64::try_from(left) {
                // It can be read through the millisecond in which it ends.
                let gone = (asked / 1_000 + left + 1) * 1_000;
                let slack = took + (asked - after) + 2_000;
                prop_assert!(gone + slack >= ends, "gone at {gone}, said something until {ends}");
                prop_assert!(gone <= ends + slack, "gone at {gone}, said nothing from {ends}");
            }
            receipts.extend(decision.into_receipt());
        }
    }

    /// Whatever is done, no key is left without an end.
    #[test]
    fn no_key_is_for_ever(
        flavor in prop::sample::select(&Flavor::ALL[..]),
        limits in prop::sample::subsequence(&LIMITS[..], 1..=LIMITS.len()),
        history in acts(),
        caller in prop::option::of(1_700_000_000_000_000..1_800_000_000_000_000_u64),
    ) {
        let store = store(flavor);
        let limits: Vec<_> = limits.iter().map(|text| limit(text)).collect();
        let keys: Vec<_> = (0..limits.len()).map(|index| index.to_string()).collect();
        let mut receipts: Vec<Receipt> = Vec::new();
        for act in history {
            let cost = match act {
                Act::Consume(cost) | Act::TakeUpTo(cost) => cost,
                Act::Refund => 0,
            };
            let checks = limits.iter().zip(&keys);
            let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
            let receipt = receipts.pop();
            let operation = match (act, &receipt) {
                (Act::Consume(_), _) => Operation::Consume,
                (Act::TakeUpTo(_), _) => Operation::TakeUpTo,
                (Act::Refund, Some(receipt)) => Operation::Refund(receipt),
                (Act::Refund, None) => continue,
            };
            let mut request = Request::of(operation, &checks);
            if let Some(at) = caller {
                request = request.at(Timestamp::from_micros(at).unwrap());
            }
            let decision = now(store.decide(&request)).unwrap();
            receipts.extend(decision.into_receipt());
            for key in store.engine().keys(store.options()) {
                prop_assert_ne!(store.engine().pttl(&key), -1, "a key without an end");
            }
        }
    }
}

#[test]
fn under_a_callers_clock_a_state_is_kept_longer_by_the_slack() {
    for (clock, at) in [
        (Clock::Server, Some(Timestamp::UNIX_EPOCH)),
        (Clock::Caller, None),
    ] {
        let slack = Duration::from_secs(100);
        let options = Options::new().with_clock(clock).with_caller_slack(slack);
        for written in LIMITS {
            let store = store_with(Flavor::System, options.clone());
            let limit = limit(written);
            let mut request = Request::consume(Check::new(&limit, "k", 1));
            if let Some(at) = at {
                request = request.at(at);
            }
            let decision = now(store.decide(&request)).unwrap();
            let needed = i64::try_from((decision.reset_after() + slack).as_millis()).unwrap();
            let raw = store.engine();
            let left = raw.pttl(&raw.keys(store.options())[0]);
            // A tenth of a second is a long time for a test to take between the two.
            assert!(
                (needed - 5_000..=needed + 1).contains(&left),
                "{written}: {left}"
            );
        }
    }
}
