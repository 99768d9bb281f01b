//! Scripts and arguments, pinned: a server that runs two releases at once holds both.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::store::{Check, Operation, Prefetch, Request};
use tollgate_core::{Timestamp, schedule};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Canned, SentCall, limit, now};

fn asked(operation: Operation<'_>, limits: &[&str], at: Option<u64>) -> SentCall {
    let store = Canned::store(&[]);
    let limits: Vec<_> = limits.iter().map(|text| limit(text)).collect();
    // One key each, or two equal limits would share their state.
    let keys: Vec<_> = (0..limits.len()).map(|index| index.to_string()).collect();
    let checks = limits.iter().zip(&keys);
    let checks: Vec<_> = checks.map(|(l, key)| Check::new(l, key, 1)).collect();
    let mut request = Request::new(operation, &checks);
    if let Some(at) = at {
        request = request.at(Timestamp::from_micros(at).unwrap());
    }
    now(store.execute(&request)).unwrap_err();
    store.engine().asked()
}

fn numbers(argument: &[u8]) -> Vec<f64> {
    let words = argument.chunks_exact(8);
    words
        .map(|word| f64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

#[test]
fn arguments_of_schedules_have_not_changed() {
    let terms = schedule::Terms::new("plans", ["2/10s", "9/day@UTC"]).unwrap();
    let store = Canned::store(&[]);
    let request = schedule::Request::new(&terms, "k", schedule::Operation::Cancel(b"a"));
    let at = Timestamp::from_micros(77).unwrap();
    // A key that lives by the server's clock is kept no longer than needed.
    for (request, instant, slack) in [(request.clone(), -1., 0.), (request.at(at), 77., 600_000.)] {
        now(store.schedule(&request)).unwrap_err();
        let argument = store.engine().asked().argument;
        let numbers = numbers(&argument);
        let (tolerance, horizon, retention) = (1e6, 366. * 86_400e6, 50. * 3_600e6);
        assert_eq!(
            numbers[..10],
            [
                3., instant, slack, tolerance, horizon, retention, 256., 256., 2., 1.
            ]
        );
        // A quota of a calendar has no window, and has periods only in a request that looks for room.
        assert_eq!(numbers[10..], [2., 1e7, 0., 9., 0., 0., 0., 1.]);
        assert!(argument.ends_with(b"\x01a"));
    }
}

/// An operation, the limits of a call, and the SHA-1 of its script: of one limit alone, of a few, one line
/// for each, and of a loop over any.
const SHA1S: &str = "\
consume fixed-window:1/1s 90c280ac8d9183eddc373361b7b2d4626167da56
peek fixed-window:1/1s 1a6f90cdbf82bd8880d1c396e3da76bc531da926
consume gcra:1/1s f644e9f953b5d42eeb38576a708c60880fa3cba4
peek gcra:1/1s 743e1a9ff8de3c961f027d19e76424b70bf33a32
consume sliding-buckets:1/1s,buckets=2 499c7eb18bfa3bdb3bedea8c9d8dbf608b1223db
peek sliding-buckets:1/1s,buckets=2 ef7c6bf9ee25c3ba75e88012111a63fe0b62bec9
consume sliding-counter:1/1s 811ab480a1cb466c82e2bf572ccae5ad4c545f25
peek sliding-counter:1/1s c3b63c4327cea3669490149eb0223c7434be1f8b
consume sliding-log:1/1s 9e6883ca814dbf38eac835f9c7747335c5a1bfae
peek sliding-log:1/1s aee694497e00b2a2d57208108f67a4384cfa7f73
consume gcra:1/1s sliding-log:1/1s bf739d2ede9e7f4827af3dc04b3d3e328b6d0bd9
peek gcra:1/1s sliding-log:1/1s b68f440bc966cd763b76499293959e831b14ffe8
reserve gcra:1/1s 582d81328c339acbfae68a53e5e9b2cf6eaf98e7
reserve gcra:1/1s gcra:1/1s e3022e5a4c6d09c00e06f00c9f088ab55a451ecd
reserve gcra:1/1s gcra:1/1s gcra:1/1s gcra:1/1s gcra:1/1s d20472244a89f027f4af3039babc5280d1936ccd
consume all 8d201c8f46740b4362f0a1a09b60542d119a4865
peek all 8d201c8f46740b4362f0a1a09b60542d119a4865
take all 8d201c8f46740b4362f0a1a09b60542d119a4865
";

/// A server keeps every script that it was ever sent, and is sent one that it does not know.
///
/// While two releases run side by side, as when a fleet is brought up to date, a changed script is
/// loaded beside the old one, and both write the same states. So a change here is a decision: old
/// and new must read what the other writes, or the version in the keys must be counted up. The first
/// calls of the new release then cost two exchanges more.
#[test]
fn scripts_have_not_changed() {
    const ALL: &str = "fixed-window:1/1s gcra:1/1s sliding-buckets:1/1s,buckets=2 \
                       sliding-counter:1/1s sliding-log:1/1s";
    for row in SHA1S.lines() {
        let (operation, rest) = row.split_once(' ').unwrap();
        let (limits, sha1) = rest.rsplit_once(' ').unwrap();
        let operation = match operation {
            "consume" => Operation::Consume,
            "peek" => Operation::Peek,
            "reserve" => Operation::Reserve {
                max_delay: Duration::from_secs(1),
            },
            _ => Operation::TakeUpTo,
        };
        let limits = limits.replace("all", ALL);
        let limits: Vec<_> = limits.split(' ').collect();
        assert_eq!(asked(operation, &limits, None).sha1, sha1, "{row}");
    }
}

/// What every limit is told stands with it, and what the whole call asks for after them.
#[test]
fn units_ahead_are_asked_for_after_all_limits() {
    let ahead = Prefetch::new(u64::MAX, Duration::from_nanos(70_001)).one_of(3);
    let limits = ["fixed-window:9/1s,anchored", "gcra:10/1s,burst=5"];
    let argument = asked(Operation::Prefetch(ahead), &limits, Some(77)).argument;
    let (prefetch, slack, cost, within) = (9., 600_000., 1., 71.);
    let most = 9_007_199_254_740_992.;
    let (full, unit) = (500_000., 100_000.);
    assert_eq!(
        numbers(&argument),
        [
            [prefetch, 77., slack].as_slice(),
            &[0., 0., cost, within, 9., 1e6, 1., 0.],
            &[1., 0., cost, within, 1., unit, full, 0.],
            &[most, 3.],
        ]
        .concat()
    );
}

#[test]
fn a_cost_above_every_capacity_is_sent_as_such() {
    let store = Canned::store(&[]);
    let limit = limit("fixed-window:9007199254740991/1s");
    let request = Request::consume(Check::new(&limit, "k", u64::MAX));
    now(store.execute(&request)).unwrap_err();
    let numbers = numbers(&store.engine().asked().argument);
    // The least that is more than any limit admits, which a double still holds exactly.
    let (cost, amount) = (numbers[2], numbers[4]);
    let found = (cost, amount);
    assert_eq!(found, (9_007_199_254_740_992., 9_007_199_254_740_991.));
}

#[test]
fn slack_is_sent_in_milliseconds_rounded_up() {
    const LONGEST: f64 = 9_007_199_254_740.;
    let limit = limit("gcra:10/1m");
    for (slack, expected) in [
        (Duration::ZERO, 0.),
        (Duration::from_nanos(1), 1.),
        (Duration::from_millis(1), 1.),
        (Duration::from_nanos(1_000_001), 2.),
        (Duration::from_secs(1_001), 1_001_000.),
        (Duration::from_millis(9_007_199_254_739), LONGEST - 1.),
        (Duration::from_millis(9_007_199_254_741), LONGEST),
        (Duration::MAX, LONGEST),
    ] {
        let options = Options::new().with_caller_slack(slack);
        let store = WireStore::new(Canned::default(), options);
        let request = Request::consume(Check::new(&limit, "k", 1));
        // A key that lives by the server's clock is kept no longer than needed.
        for (request, expected) in [
            (request.clone().at(Timestamp::UNIX_EPOCH), expected),
            (request, 0.),
        ] {
            now(store.execute(&request)).unwrap_err();
            let sent = numbers(&store.engine().asked().argument)[1];
            assert!((sent - expected).abs() < 0.5, "{slack:?}: {sent}");
        }
    }
}

#[test]
fn one_script_serves_all_parameters() {
    let text = |limits: &[&str]| asked(Operation::Consume, limits, None).text;
    assert_eq!(text(&["gcra:10/1m"]), text(&["gcra:3/1s,burst=2"]));
    let found = text(&["sliding-log:3/1s", "gcra:1/1s"]);
    assert_eq!(found, text(&["sliding-log:9/1m,count-denied", "gcra:2/1m"]));
    // Many limits are told apart by what they are, not by how many there are.
    assert_eq!(text(&["gcra:1/1s"; 5]), text(&["gcra:1/1s"; 32]));
}

/// Every sequence of few algorithms has a script, and every set of many.
#[test]
fn requests_of_other_algorithms_run_other_scripts() {
    let one = ["fixed-window", "gcra", "sliding-counter", "sliding-log"];
    let mut each: Vec<_> = one.map(|name| format!("{name}:1/1s")).into();
    each.push("sliding-buckets:1/1s,buckets=2".into());
    let mut sequences = vec![vec![]];
    let mut scripts = BTreeSet::new();
    for length in 1..=3 {
        sequences = sequences
            .iter()
            .flat_map(|sequence: &Vec<&str>| {
                each.iter().map(|limit| [&sequence[..], &[limit]].concat())
            })
            .collect();
        for sequence in &sequences {
            scripts.insert(asked(Operation::Consume, sequence, None).sha1);
        }
        assert_eq!(sequences.len(), 5_usize.pow(length));
    }
    assert_eq!(scripts.len(), 5 + 25 + 125);
    let last = each.last().unwrap().as_str();
    for limit in &each {
        scripts.insert(asked(Operation::Consume, &[last, last, last, limit], None).sha1);
    }
    assert_eq!(scripts.len(), 5 + 25 + 125 + 5);

    let sets = (1..32_usize).map(|set| {
        let of_set = each.iter().enumerate();
        let of_set = of_set.filter(|(bit, _)| set >> bit & 1 == 1);
        let of_set: Vec<_> = of_set.map(|(_, limit)| limit.as_str()).collect();
        asked(Operation::TakeUpTo, &of_set, None)
    });
    let sets: Vec<_> = sets.collect();
    let scripts: BTreeSet<_> = sets.iter().map(|asked| &asked.sha1).collect();
    assert_eq!(scripts.len(), 31);
    // No more is sent than is used.
    let longest = sets.iter().max_by_key(|asked| asked.text.len());
    assert_eq!(longest, sets.last());
}
