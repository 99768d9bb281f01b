//! Scripts and arguments, pinned: a server that runs two releases at once holds both.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::{Check, Fingerprint, Operation, Request, State, Verdict, Verdicts};
use tollgate_core::{Timestamp, schedule};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Canned, LIMITS, SentCall, limit, now};

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
fn arguments_have_not_changed() {
    let own_clock = asked(Operation::Consume, &["gcra:10/1m"], None).argument;
    assert_eq!(numbers(&own_clock), [-1., 0., 1., 0., 1., 6e6, 6e7]);
    let two = [
        "fixed-window:10/1m,anchored,count-denied",
        "sliding-buckets:9/1s,buckets=3",
    ];
    let at = asked(Operation::Peek, &two, Some(77)).argument;
    let slack = 600_000.;
    assert_eq!(
        numbers(&at),
        [77., slack, 1., 1., 10., 6e7, 1., 1., 0., 9., 333_334., 3.]
    );
    let take = asked(Operation::TakeUpTo, &["sliding-counter:10/1m"], None).argument;
    assert_eq!(
        numbers(&take),
        [4., -1., 0., 3., 0., 1., 0., 10., 6e7, 1., 6e7]
    );
    let receipt = {
        let limit = limit("gcra:10/1m");
        let request = Request::consume(Check::new(&limit, "0", 1));
        let at = Timestamp::from_micros(55).unwrap();
        let verdict = Verdict::allow(10, 7).with_consumed(3, at);
        Verdicts::new(Fingerprint::of(&request), [verdict]).into_receipt()
    };
    let refund = Operation::Refund(receipt.as_ref().unwrap());
    let refund = asked(refund, &["gcra:10/1m"], None).argument;
    assert_eq!(
        numbers(&refund),
        [3., -1., 0., 1., 0., 3., 55., 1., 6e6, 6e7, 0.]
    );
    // What a request about many limits does, is sent first.
    for (operation, code) in [(Operation::Consume, 1.), (Operation::Peek, 2.)] {
        let argument = asked(operation, &["gcra:10/1m"; 5], None).argument;
        assert_eq!(numbers(&argument)[..2], [code, -1.]);
    }
    // A reservation under few limits is sent how long it may wait, at most as long as is exact.
    let within = Operation::Reserve {
        max_delay: Duration::from_nanos(7_999),
    };
    let reserve = asked(within, &["gcra:10/1m"], None).argument;
    assert_eq!(numbers(&reserve), [-1., 0., 7., 1., 0., 1., 6e6, 6e7]);
    let longest = Operation::Reserve {
        max_delay: Duration::MAX,
    };
    let reserve = asked(longest, &["gcra:10/1m", "gcra:2/3us"], Some(77)).argument;
    let exact = 4_503_599_627_370_492.;
    assert_eq!(
        numbers(&reserve),
        [77., slack, exact, 1., 0., 1., 6e6, 6e7, 1., 0., 2., 3., 6.]
    );
    let many = asked(longest, &["gcra:2/3us"; 5], None).argument;
    assert_eq!(numbers(&many)[..7], [6., -1., 0., 1., 0., 1., exact]);
    // To cancel one, also what was counted before it.
    let receipt = {
        let limit = limit("gcra:10/1m,burst=1");
        let check = Check::new(&limit, "0", 1);
        let mut state = State::default();
        let at = |micros| Timestamp::from_micros(micros).unwrap();
        let _ = Request::consume(check).decide_on(&mut state, at(5));
        let reserve = Request::reserve(check, Duration::MAX);
        reserve.decide_on(&mut state, at(7)).into_receipt().unwrap()
    };
    let cancel = asked(Operation::Refund(&receipt), &["gcra:10/1m,burst=1"], None).argument;
    assert_eq!(
        numbers(&cancel),
        [
            3., -1., 0., 1., 0., 1., 6_000_005., 1., 6e6, 6e6, 0., 7., 5_999_998., 0.
        ]
    );
    // Every limit has as many places for parameters.
    let take = asked(Operation::TakeUpTo, &["gcra:10/1m"], None).argument;
    assert_eq!(
        numbers(&take),
        [4., -1., 0., 1., 0., 1., 0., 1., 6e6, 6e7, 0.]
    );
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
            numbers[..11],
            [
                3., instant, slack, tolerance, horizon, retention, 0., 256., 256., 2., 1.
            ]
        );
        // A quota of a calendar has no window, and has periods only in a request that looks for room.
        assert_eq!(numbers[11..], [2., 1e7, 0., 9., 0., 0., 0., 1.]);
        assert!(argument.ends_with(b"\x01a"));
    }
}

/// A server keeps every script that it was ever sent, and is sent one that it does not know.
///
/// While two releases run side by side, as when a fleet is brought up to date, a changed script is
/// loaded beside the old one, and both write the same states. So a change here is a decision: old
/// and new must read what the other writes, or the version in the keys must be counted up. The first
/// calls of the new release then cost two exchanges more.
#[test]
fn scripts_have_not_changed() {
    let one = [
        (
            "fixed-window:1/1s",
            "e35746da55fa31b6b605be543e6108cc5b7b3f50",
            "f6dca1a7930a4770369c10cfd1384d5255f5a8d8",
        ),
        (
            "gcra:1/1s",
            "81174b81c922321dd1068b49b2934a940ff0b96d",
            "ba7f7bfdb20b6e44edc2c4ccf6fb69f4e212bc85",
        ),
        (
            "sliding-buckets:1/1s,buckets=2",
            "a6c8ab055ba910f760604c9deb5fe249ff6d6a21",
            "bdfdb38cafc08d62aa55de77bd9528f5b11753da",
        ),
        (
            "sliding-counter:1/1s",
            "97ae8abde6c21ca9e8893b46dd2a3eb5da5e3066",
            "b5000a826ee4f26bc3ef91b0e28f04acb04f9358",
        ),
        (
            "sliding-log:1/1s",
            "cb722bfa21cb070578138ee7ded3e5227cf87b89",
            "0e5b20ee59d272d556c404f044a6a3514b3993fe",
        ),
    ];
    let sha1 = |operation, limits: &[&str]| asked(operation, limits, None).sha1;
    for (limit, consumes, peeks) in one {
        assert_eq!(sha1(Operation::Consume, &[limit]), consumes, "{limit}");
        assert_eq!(sha1(Operation::Peek, &[limit]), peeks, "{limit}");
    }
    // One line for each limit, and a loop over any.
    let two = ["gcra:1/1s", "sliding-log:1/1s"];
    assert_eq!(
        sha1(Operation::Consume, &two),
        "4f5bb05cd3960a5a7160af9f355ac3d6b57f5cf7"
    );
    assert_eq!(
        sha1(Operation::Peek, &two),
        "bd9d43a6a2974855e745cabcc176b49edcde76f1"
    );
    let within = Operation::Reserve {
        max_delay: Duration::from_secs(1),
    };
    assert_eq!(
        sha1(within, &["gcra:1/1s"]),
        "a7b0a5ca53d152e2b85e7dd257139725954817b6"
    );
    assert_eq!(
        sha1(within, &["gcra:1/1s"; 2]),
        "2c2063c6139352d1a4ec9789874fc238103629bc"
    );
    assert_eq!(
        sha1(within, &["gcra:1/1s"; 5]),
        "aaf736945b16334f7319dd77cbcbd3869ee217f8"
    );
    let all = one.map(|(limit, ..)| limit);
    for operation in [Operation::Consume, Operation::Peek, Operation::TakeUpTo] {
        assert_eq!(
            sha1(operation, &all),
            "e25aabe87243ec091c0a80a4d833a75725726ac3"
        );
    }
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
    assert_eq!(
        (cost, amount),
        (9_007_199_254_740_992., 9_007_199_254_740_991.)
    );
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
    assert_eq!(
        text(&["sliding-log:3/1s", "gcra:1/1s"]),
        text(&["sliding-log:9/1m,count-denied", "gcra:2/1m"])
    );
    // Many limits are told apart by what they are, not by how many there are.
    assert_eq!(text(&["gcra:1/1s"; 5]), text(&["gcra:1/1s"; 32]));
}

#[test]
fn up_to_four_limits_have_a_script_of_their_own() {
    let text = |operation, count| asked(operation, &["gcra:1/1s"; 5][..count], None).text;
    for (operation, own) in [
        (Operation::Consume, 4),
        (Operation::Peek, 4),
        (
            Operation::Reserve {
                max_delay: Duration::MAX,
            },
            4,
        ),
        (Operation::TakeUpTo, 0),
    ] {
        let texts: BTreeSet<_> = (1..=5).map(|count| text(operation, count)).collect();
        assert_eq!(texts.len(), own + 1, "{operation:?}");
    }
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
        let of_set = each
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 1);
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scripts_contain_no_names_amounts_or_keys(
        limits in prop::collection::vec(prop::sample::select(&LIMITS[..]), 1..8),
        at in prop::option::of(1_000_000_000_u64..2_000_000_000),
    ) {
        let asked = asked(Operation::Consume, &limits, at);
        prop_assert_eq!(asked.keys.len(), limits.len());
        if let Some(at) = at {
            prop_assert!(!asked.text.contains(&at.to_string()));
        }
    }
}
