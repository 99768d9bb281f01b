//! States as servers hold them, pinned, and how much of a server's memory they take.

use tollgate_core::store::{Check, Request};
use tollgate_core::{Algorithm, ErrorKind, Key, Limit, Timestamp};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::Options;

use crate::engine::{Raw, START, doubles, limit, now, stamp, store, store_on};

/// Returns what a key of one string or list holds.
fn held(raw: &Raw, options: &Options) -> Vec<Vec<u8>> {
    let keys = raw.keys(options);
    assert_eq!(keys.len(), 1);
    let reply = raw.command(&[b"GET", &keys[0]]);
    let reply = match reply {
        Reply::Error(_) => raw.command(&[b"LRANGE", &keys[0], b"0", b"-1"]),
        reply => Reply::Array(vec![reply]),
    };
    let bytes = reply.items().iter().map(|item| match item {
        Reply::Bulk(bytes) => bytes.clone(),
        other => panic!("{other:?}"),
    });
    bytes.collect()
}

/// Returns an element of a log.
fn entry(at: u64, total: u32) -> Vec<u8> {
    let mut bytes = doubles(&[at]);
    bytes.extend(total.to_le_bytes());
    bytes
}

#[test]
fn states_have_not_changed() {
    const LATER: u64 = START + 1_000_000;
    let strings = [
        // debt, instant, unit
        ("gcra:10/1m", &[23_000_000, LATER, 6_000_000][..]),
        // start, count, count at the start
        ("fixed-window:10/1m", &[START - 40_000_000, 4, 0]),
        ("fixed-window:10/1m,anchored", &[START, 4, 3]),
        // start, current, previous
        ("sliding-counter:10/1m", &[START - 40_000_000, 4, 0]),
        // head, total, ring
        (
            "sliding-buckets:10/2s,buckets=2",
            &[LATER / 1_000_000, 4, 0, 3, 1],
        ),
    ];
    let strings = strings.map(|(written, state)| (written, [3, 1], vec![doubles(state)]));
    // a header, and an instant and a running total for each entry
    let entries = [(0, 0), (START, 70_000), (LATER, 100_000)];
    let entries = entries.map(|(at, total)| entry(at, total)).to_vec();
    let log = ("sliding-log:100000/1m", [70_000, 30_000], entries);
    for flavor in Flavor::chosen() {
        for (written, costs, expected) in strings.iter().chain([&log]) {
            let (store, limit) = (store(flavor), limit(written));
            for (at, cost) in [START, LATER].into_iter().zip(costs) {
                let request = Request::consume(Check::new(&limit, "k", *cost)).at(stamp(at));
                assert!(now(store.execute(&request)).unwrap().is_allowed());
            }
            let held = held(store.engine(), store.options());
            assert_eq!(held, *expected, "{written} on {flavor}");
        }
    }
}

/// Returns how many bytes a key takes on a server after each call that `asked` names, of `calls`; the
/// key's name is that of the documentation.
fn growth(
    flavor: Flavor,
    written: &str,
    calls: u64,
    asked: impl Fn(u64) -> bool,
) -> Vec<(u64, u64)> {
    // Of its own, for names of just that length.
    let server = Server::start(flavor);
    let store = store_on(&server);
    let limit = Limit::new("login", written.parse::<Algorithm>().unwrap()).unwrap();
    let check = Check::new(&limit, Key::new("alice").with_rest("/login"), 1);
    let mut taken = Vec::new();
    for call in 1..=calls {
        let decision = now(store.execute(&Request::consume(check))).unwrap();
        assert!(decision.is_allowed());
        if asked(call) {
            let key = store.engine().keys(store.options()).remove(0);
            taken.push((call, store.engine().usage(&key)));
        }
    }
    taken
}

/// What `docs/internals/server.md` says that a key takes, under "States", on the servers in the order of
/// [`Flavor::chosen()`].
#[test]
fn keys_take_no_more_than_is_documented() {
    for (written, calls, documented) in [
        ("fixed-window:100000/1d", 1, [152, 138, 120]),
        ("gcra:100000/1d", 1, [120, 122, 88]),
        ("sliding-counter:100000/1d", 1, [136, 138, 120]),
        ("sliding-buckets:100000/1d,buckets=10", 1, [232, 232, 224]),
        ("sliding-buckets:100000/1d,buckets=60", 1, [632, 632, 624]),
        ("sliding-log:100000/1d", 10, [360, 333, 256]),
        ("sliding-log:100000/1d", 100, [1_704, 1_593, 1_520]),
        ("sliding-log:100000/1d", 1_000, [14_544, 14_236, 14_240]),
        ("sliding-log:100000/1d", 10_000, [141_392, 140_924, 141_008]),
    ] {
        // The longest takes long.
        let flavors = Flavor::chosen().into_iter().zip(documented);
        for (flavor, documented) in flavors.filter(|_| calls < 10_000 || Flavor::is_every()) {
            let taken = growth(flavor, written, calls, |call| call == calls)[0].1;
            // Allocators round differently.
            let most = documented + documented / 10;
            let holds = taken <= most;
            assert!(holds, "{calls} calls of {written} take {taken} on {flavor}");
        }
    }
}

/// From how many calls on is on the same page.
#[test]
fn a_long_log_takes_at_most_sixteen_bytes_a_call() {
    for (flavor, long) in Flavor::chosen().into_iter().zip([530, 110, 80]) {
        // Twice through what the server allocates for one piece of a list.
        let taken = growth(flavor, "sliding-log:100000/1d", 3_000, |call| call >= long);
        for (calls, bytes) in taken {
            let holds = bytes <= 16 * calls;
            assert!(holds, "{calls} calls take {bytes} on {flavor}");
        }
    }
}

/// The last bucket of all time is one, and a state of a later bucket is another program's.
#[test]
fn sliding_buckets_end_with_the_last_instant() {
    let limit = limit("sliding-buckets:1/2us,buckets=2");
    let check = Check::new(&limit, "k", 1);
    for flavor in Flavor::chosen() {
        let store = store(flavor);
        let request = Request::consume(check).at(Timestamp::MAX);
        let ask = || now(store.execute(&request));
        assert!(ask().unwrap().is_allowed(), "{flavor}");
        assert!(ask().unwrap().is_denied(), "{flavor}");
        let raw = store.engine();
        let keys = raw.keys(store.options());
        let [key] = &keys[..] else {
            panic!("{keys:?}, {flavor}");
        };
        let found = raw.command(&[b"STRLEN", key]).integer();
        assert_eq!(found, Some(40), "{flavor}");
        let head = 9_007_199_254_740_992_f64.to_le_bytes();
        raw.command(&[b"SET", key, &[&head[..], &[0; 32]].concat()]);
        let found = ask().unwrap_err().kind();
        assert_eq!(found, ErrorKind::Misconfigured, "{flavor}");
    }
}
