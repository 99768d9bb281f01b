//! Replies that no script gives: each is an error that says so, and none is a panic.

use std::fmt::Debug;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{Check, Fingerprint, Operation, Prefetch, Request, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Receipt, StoreError};
use tollgate_testkit::rounds;

use crate::engine::{Canned, LIMITS, config, limit, now, stamp};

/// What a request does; a refund is of as many limits as it names.
#[derive(Clone, Copy, Debug)]
enum Act {
    Consume,
    Peek,
    Prefetch,
    Refund,
    TakeUpTo,
}

/// Returns the receipt of a call of 2 that `checks` have counted at `at`, or by the server's clock.
fn receipt(checks: &[Check<'_>], at: Option<u64>) -> Receipt {
    let costs = checks.iter().map(|c| Check::new(c.limit(), c.key(), 2));
    let mut request = Request::new(Operation::Consume, costs);
    if let Some(at) = at {
        request = request.at(stamp(at));
    }
    let verdict = Verdict::allow(5, 3).with_consumed(2, stamp(at.unwrap_or(5)));
    let verdicts = Verdicts::new(Fingerprint::of(&request), checks.iter().map(|_| verdict));
    verdicts.into_receipt().unwrap()
}

/// Returns a reply that is made like those of scripts, of these numbers.
fn reply(allowed: u8, at: f64, states: &[Vec<f64>]) -> Vec<u8> {
    let mut reply = vec![allowed];
    reply.extend_from_slice(&at.to_le_bytes());
    for state in states {
        let length = u16::try_from(8 * state.len()).unwrap();
        reply.extend_from_slice(&length.to_le_bytes());
        reply.extend(state.iter().flat_map(|number| number.to_le_bytes()));
    }
    reply
}

/// Asks about `limits` at an instant or by the server's clock, and is answered `reply`.
///
/// Whatever comes of it must be a decision or an error of the protocol.
fn answered(
    limits: &[&str],
    act: Act,
    cost: u64,
    at: Option<u64>,
    reply: &[u8],
) -> Result<Verdicts, StoreError> {
    let store = Canned::store(reply);
    let limits: Vec<_> = limits.iter().map(|text| limit(text)).collect();
    let keys: Vec<_> = (0..limits.len()).map(|index| index.to_string()).collect();
    let checks = limits.iter().zip(&keys);
    let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, cost)).collect();
    let receipt = receipt(&checks, at);
    let operation = match act {
        Act::Consume => Operation::Consume,
        Act::Peek => Operation::Peek,
        Act::Prefetch => Operation::Prefetch(Prefetch::new(8, Duration::from_secs(1))),
        Act::Refund => Operation::Refund(&receipt),
        Act::TakeUpTo => Operation::TakeUpTo,
    };
    let mut request = Request::new(operation, &checks);
    if let Some(at) = at {
        request = request.at(stamp(at));
    }
    let outcome = now(store.execute(&request));
    match &outcome {
        Ok(decision) => assert_eq!(decision.as_slice().len(), checks.len()),
        // No reply of a script, or a state that no limit has written.
        Err(error) => {
            let kinds = [ErrorKind::Protocol, ErrorKind::Misconfigured];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
    }
    outcome
}

/// Returns numbers at the edges of what is exact, and others.
pub(crate) fn odd_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        2 => prop::sample::select(&[
            9_007_199_254_740_991., 9_007_199_254_740_992., 1_000., 1_001., 1e15, 1e18, -1., -0., 0.5,
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE,
        ][..]),
        1 => any::<f64>(),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![5 => (0..20_u32).prop_map(f64::from), 3 => odd_number()]
}

/// Checks that a reply which is cut off or goes on is an error, and one with another bit is an error or
/// another answer: to `read`, which returns an answer.
pub(crate) fn assert_exact<T: Debug + PartialEq>(whole: &[u8], read: impl Fn(&[u8]) -> Option<T>) {
    let answer = read(whole).expect("it is one of the script");
    for length in 0..whole.len() {
        assert_eq!(read(&whole[..length]), None, "{answer:?}: {length} bytes");
    }
    for more in [1, 8] {
        assert_eq!(read(&[whole, &vec![0; more]].concat()), None, "{answer:?}");
    }
    for index in 0..whole.len() {
        for bit in 0..usize::try_from(rounds(8)).unwrap() {
            let mut other = whole.to_vec();
            other[index] ^= 1 << ((bit + index) % 8);
            // The instant is the caller's, and so is known.
            if let Some(other) = read(&other) {
                assert!(index == 0 || index > 8, "{answer:?}");
                assert_ne!(other, answer, "byte {index}, bit {bit}");
            }
        }
    }
}

fn state() -> impl Strategy<Value = Vec<f64>> {
    let lengths = prop::sample::select(&[0_usize, 3, 5, 5, 7, 2, 40][..]);
    lengths.prop_flat_map(|length| prop::collection::vec(number(), length))
}

fn act() -> impl Strategy<Value = Act> {
    prop::sample::select(
        &[
            Act::Consume,
            Act::Peek,
            Act::Prefetch,
            Act::Refund,
            Act::TakeUpTo,
        ][..],
    )
}

fn limits() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(&LIMITS[..]), 1..4)
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn any_numbers_decode_without_a_panic(
        limits in limits(),
        act in act(),
        cost in prop_oneof![0..12_u64, Just(u64::MAX)],
        allowed in 0..3_u8,
        at in number(),
        states in prop::collection::vec(state(), 1..4),
    ) {
        let _ = answered(&limits, act, cost, None, &reply(allowed, at, &states));
    }
}

#[test]
fn a_decision_that_differs_from_the_machine_is_an_error() {
    let fresh = reply(1, 5., &[vec![]]);
    let _ = answered(&["gcra:5/1s"], Act::Consume, 1, None, &fresh).unwrap();
    let store = Canned::store(&reply(0, 5., &[vec![]]));
    let limit = limit("gcra:5/1s");
    let error = crate::engine::consume(&store, &limit, "k", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("delete the keys"), "{error}");
}

/// The decision about a refund shows what is left afterwards, whatever the cost of its check.
#[test]
fn a_refund_that_is_refused_is_an_error() {
    for cost in [0, 1, u64::MAX] {
        // One unit of five is still counted: its debt, the instant, and the unit.
        let state = [vec![200_000., 5., 200_000.]];
        let refund = |allowed| {
            let reply = reply(allowed, 5., &state);
            answered(&["gcra:5/1s"], Act::Refund, cost, None, &reply)
        };
        let decision = refund(1).unwrap();
        let (remaining, granted) = (decision.remaining(), decision.consumed());
        assert_eq!((remaining, granted), (4, 0), "at a cost of {cost}");
        refund(0).unwrap_err();
    }
    // Nor does it need anything to be left.
    let reply = reply(1, 5., &[vec![1e6, 5., 200_000.]]);
    let decision = answered(&["gcra:5/1s"], Act::Refund, 1, None, &reply).unwrap();
    assert_eq!(decision.remaining(), 0);
}

#[test]
fn an_instant_that_differs_from_the_callers_is_an_error() {
    let store = Canned::store(&reply(1, 5., &[vec![]]));
    let limit = limit("gcra:5/1s");
    let request = Request::consume(Check::new(&limit, "k", 1));
    let at = |at| request.clone().at(stamp(at));
    assert!(now(store.execute(&at(5))).is_ok());
    let error = now(store.execute(&at(6))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn bytes_after_a_reply_are_an_error() {
    for states in [vec![vec![]], vec![vec![], vec![]]] {
        let limits = vec!["gcra:5/1s"; states.len()];
        let whole = reply(1, 5., &states);
        let _ = answered(&limits, Act::Consume, 1, None, &whole).unwrap();
        let another = reply(1, 5., &vec![vec![]; states.len() + 1]);
        let [zero, twice] = [&[0][..], &whole].map(|more| [&whole[..], more].concat());
        for more in [zero, twice, another] {
            answered(&limits, Act::Consume, 1, None, &more).unwrap_err();
        }
    }
}

/// Replies about one unit at 5 s: a limit, whether the call was allowed, the numbers of a state, and
/// whether they are read. Each state that is refused differs from one that is read in one way.
const STATES: &str = "\
block:1s 0 [6e6 5e6 1e6] read
block:1s 1 [5e6 4e6 1e6] read
block:1s 0 [9007199254740991 5e6 0] read
block:1s 0 [9007199254740992 5e6 0] refused
block:1s 0 [6e6 5e6 9007199254740991] read
block:1s 0 [6e6 5e6 9007199254740992] refused
block:1s 0 [6e6 5e6] refused
block:1s 0 [6e6 5e6 1e6 0] refused
fixed-window:10/1s 1 [5e6 3 0] read
fixed-window:10/1s 0 [5e6 9007199254740991 0] read
fixed-window:10/1s 0 [5e6 9007199254740992 0] refused
fixed-window:10/1s 0 [5e6 inf 0] refused
fixed-window:10/1s 1 [5e6 0.5 0] refused
fixed-window:10/1s 1 [5e6 3.5 0] refused
fixed-window:10/1s 1 [5e6 -0 0] refused
fixed-window:10/1s 1 [5e6 -1 0] refused
fixed-window:10/1s 1 [5e6 nan 0] refused
gcra:5/1s 1 [0 5e6 1] read
gcra:5/1s 1 [0 5e6 0] refused
# The latest start.
gcra:5/1s 1 [2e5 5e6 2e5 6e6] read
gcra:5/1s 1 [2e5 5e6 2e5 4e6] read
gcra:5/1s 1 [2e5 5e6 2e5 9007199254740991] read
gcra:5/1s 1 [2e5 5e6 0 6e6] refused
gcra:5/1s 1 [2e5 5e6 2e5 6e6 0] refused
# The newest bucket, the sum, and the ring of one more than the buckets.
sliding-buckets:10/1s,buckets=4 1 [20 3 1 2 0 0 0] read
sliding-buckets:10/1s,buckets=4 1 [20 3 1 1 0 0 0] refused
sliding-buckets:10/1s,buckets=4 1 [20 2 1 2 0 0 0] refused
sliding-buckets:10/1s,buckets=4 1 [20 3 1 2 0 0] refused
sliding-buckets:10/1s,buckets=4 1 [20 3 1 2 0 0 0 0] refused
# The last bucket that begins before time ends, and the next.
sliding-buckets:10/1s,buckets=4 1 [36028797018 3 3 0 0 0 0] read
sliding-buckets:10/1s,buckets=4 1 [36028797019 3 3 0 0 0 0] refused
# The units, when those leave that the call waits for, and the next, the newest and the latest.
sliding-log:10/1s 1 [0 0 0 0 5e6] read
sliding-log:10/1s 1 [1 0 0 4000001 5e6] read
sliding-log:10/1s 1 [1 0 0 4e6 5e6] refused
sliding-log:10/1s 1 [1 0 0 4e6 4e6] refused
sliding-log:10/1s 1 [1 0 0 5e6 5999999] read
sliding-log:10/1s 1 [1 0 0 5e6 6e6] refused
sliding-log:10/1s 1 [1 0 0 5e6 5e6] read
# Units that are used ahead, at most an hour.
sliding-log:10/1s 1 [1 0 0 36045e5 45e5] read
sliding-log:10/1s 1 [1 0 0 3604500001 45e5] refused
sliding-log:10/1s 0 [10 45e5 0 45e5 5e6] read
sliding-log:10/1s 0 [10 4e6 0 45e5 5e6] refused
sliding-log:10/1s 0 [10 46e5 0 45e5 5e6] refused
sliding-log:10/1s 0 [100000 45e5 0 45e5 5e6] read
sliding-log:10/1s 0 [100001 45e5 0 45e5 5e6] refused
sliding-log:10/1s,count-denied 0 [10 43e5 44e5 45e5 5e6] read
sliding-log:10/1s,count-denied 0 [10 44e5 43e5 45e5 5e6] refused
sliding-log:10/1s,count-denied 0 [10 43e5 46e5 45e5 5e6] refused
sliding-log:10/1s,count-denied 0 [10 43e5 4e6 45e5 5e6] refused
sliding-log:10/1s 1 [0 0 0 0] refused
sliding-log:10/1s 1 [0 0 0 0 5e6 0] refused
sliding-log:10/1s 1 [] refused
";

#[test]
fn states_that_no_script_writes_are_errors() {
    // A window has passed since 4 s.
    const NOW: u64 = 5_000_000;
    let rows = STATES.lines().filter(|row| !row.starts_with('#'));
    for row in rows {
        let (call, rest) = row.split_once(" [").unwrap();
        let (state, outcome) = rest.split_once("] ").unwrap();
        let (limit, allowed) = call.split_once(' ').unwrap();
        let numbers = state.split_whitespace();
        let state = numbers.map(|number| number.parse().unwrap()).collect();
        let reply = reply(allowed.parse().unwrap(), 5e6, &[state]);
        let decision = answered(&[limit], Act::Consume, 1, Some(NOW), &reply);
        assert_eq!(decision.is_ok(), outcome == "read", "{row}");
    }
    // Long before a window has passed since the Unix epoch nothing has left.
    let early = reply(1, 5., &[vec![1., 0., 0., 5., 5.]]);
    let _ = answered(&["sliding-log:10/1s"], Act::Consume, 1, Some(5), &early).unwrap();
}

#[test]
fn a_state_of_no_whole_words_is_an_error() {
    for length in [1, 7, 8, 23, 25] {
        let mut reply = vec![1];
        reply.extend_from_slice(&5_f64.to_le_bytes());
        reply.extend_from_slice(&u16::to_le_bytes(length));
        reply.extend(vec![0; length.into()]);
        let written = "fixed-window:10/1s";
        answered(&[written], Act::Consume, 1, None, &reply).unwrap_err();
    }
}

/// A log that is full, by a call that waits for several entries to leave, and that counts although
/// it is denied: the next one like it waits for as many more.
#[test]
fn a_reply_about_a_log_holds_the_entry_that_a_denied_call_waits_for() {
    const NOW: u64 = 5_000_000;
    let counts_denied = "sliding-log:10/1s,count-denied";
    for (written, cost, state, wait) in [
        // A call of nothing waits for nothing, even where more is counted than the quota is.
        ("sliding-log:10/1s", 0, [12., 0., 0., 45e5, 5e6], 0),
        ("sliding-log:10/1s", 4, [10., 44e5, 0., 45e5, 5e6], 400_000),
        // All of it must leave, which the newest tells.
        ("sliding-log:10/1s", 10, [10., 0., 0., 45e5, 5e6], 500_000),
        (counts_denied, 4, [10., 43e5, 44e5, 45e5, 5e6], 400_000),
        (counts_denied, 5, [10., 43e5, 0., 45e5, 5e6], 500_000),
    ] {
        #[allow(clippy::cast_precision_loss, reason = "an instant is exact")]
        let reply = reply(u8::from(cost == 0), NOW as f64, &[state.to_vec()]);
        let decision = answered(&[written], Act::Consume, cost, Some(NOW), &reply).unwrap();
        let found = decision.retry_after().as_micros();
        assert_eq!(found, Some(wait), "{written} {cost}");
    }
}
