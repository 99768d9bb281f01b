//! Replies of scripts, pinned byte for byte, the same on every server.

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Limit, Timestamp};
use tollgate_testkit::Flavor;
use tollgate_wire::WireStore;

use crate::engine::{Raw, limit, now, store};

/// Long after the epoch, and at the start of no window.
const START: u64 = 1_780_000_000_000_000;

/// Does `operation` at `cost` a few milliseconds after the start, and returns the raw reply.
fn told(
    store: &WireStore<Raw>,
    limits: &[Limit],
    operation: Operation<'_>,
    cost: u64,
    millis: u64,
) -> String {
    let checks: Vec<_> = limits.iter().map(|l| Check::new(l, "k", cost)).collect();
    let at = Timestamp::from_micros(START + 1_000 * millis).unwrap();
    let _ = now(store.execute(&Request::new(operation, &checks).at(at))).unwrap();
    written(&store.engine().told(), limits.len())
}

/// Returns a reply in hexadecimal: whether it was allowed, the instant, and of each state its length
/// and its words, with a space between two.
fn written(reply: &[u8], states: usize) -> String {
    let (head, mut rest) = reply.split_at(9);
    let mut parts = vec![&head[..1], &head[1..]];
    for _ in 0..states {
        let (length, after) = rest.split_at(2);
        let (state, after) = after.split_at(usize::from(length[0]));
        parts.push(length);
        parts.extend(state.chunks(8));
        rest = after;
    }
    parts.push(rest);
    let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts: Vec<String> = parts.into_iter().map(hex).collect();
    parts.join(" ").trim_end().to_owned()
}

/// Each row: two units of three, one more, one too many, and a look, on a fresh key.
#[test]
fn replies_have_not_changed() {
    let table: [(&str, [&str; 4]); 7] = [
        (
            "fixed-window:3/1m",
            [
                "01 0000cd2e9a4b1943 0000",
                "01 8084eb2e9a4b1943 1800 009843259a4b1943 0000000000000040 0000000000000000",
                "00 00090a2f9a4b1943 1800 009843259a4b1943 0000000000000840 0000000000000000",
                "00 0012472f9a4b1943 1800 009843259a4b1943 0000000000000840 0000000000000000",
            ],
        ),
        (
            "fixed-window:3/1m,anchored",
            [
                "01 0000cd2e9a4b1943 0000",
                "01 8084eb2e9a4b1943 1800 0000cd2e9a4b1943 0000000000000040 0000000000000040",
                "00 00090a2f9a4b1943 1800 0000cd2e9a4b1943 0000000000000840 0000000000000040",
                "00 0012472f9a4b1943 1800 0000cd2e9a4b1943 0000000000000840 0000000000000040",
            ],
        ),
        (
            "gcra:3/1m",
            [
                "01 0000cd2e9a4b1943 0000",
                "01 8084eb2e9a4b1943 1800 00000000d0128341 0000cd2e9a4b1943 00000000d0127341",
                "00 00090a2f9a4b1943 1800 000000002f5f8c41 8084eb2e9a4b1943 00000000d0127341",
                "00 0012472f9a4b1943 1800 000000002f5f8c41 8084eb2e9a4b1943 00000000d0127341",
            ],
        ),
        (
            "sliding-buckets:3/2s,buckets=2",
            [
                "01 0000cd2e9a4b1943 0000",
                "01 8084eb2e9a4b1943 2800 000000402986da41 0000000000000040 0000000000000000 0000000000000040 0000000000000000",
                "00 00090a2f9a4b1943 2800 000000402986da41 0000000000000840 0000000000000000 0000000000000840 0000000000000000",
                "00 0012472f9a4b1943 2800 000000402986da41 0000000000000840 0000000000000000 0000000000000840 0000000000000000",
            ],
        ),
        (
            "sliding-counter:3/1m",
            [
                "01 0000cd2e9a4b1943 0000",
                "01 8084eb2e9a4b1943 1800 009843259a4b1943 0000000000000040 0000000000000000",
                "00 00090a2f9a4b1943 1800 009843259a4b1943 0000000000000840 0000000000000000",
                "00 0012472f9a4b1943 1800 009843259a4b1943 0000000000000840 0000000000000000",
            ],
        ),
        (
            "sliding-log:3/1m",
            [
                "01 0000cd2e9a4b1943 2800 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
                "01 8084eb2e9a4b1943 2800 0000000000000040 0000000000000000 0000000000000000 0000cd2e9a4b1943 0000cd2e9a4b1943",
                "00 00090a2f9a4b1943 2800 0000000000000840 0000cd2e9a4b1943 0000000000000000 8084eb2e9a4b1943 8084eb2e9a4b1943",
                "00 0012472f9a4b1943 2800 0000000000000840 0000cd2e9a4b1943 0000000000000000 8084eb2e9a4b1943 8084eb2e9a4b1943",
            ],
        ),
        (
            "sliding-log:3/1m,count-denied",
            [
                "01 0000cd2e9a4b1943 2800 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
                "01 8084eb2e9a4b1943 2800 0000000000000040 0000cd2e9a4b1943 0000cd2e9a4b1943 0000cd2e9a4b1943 0000cd2e9a4b1943",
                "00 00090a2f9a4b1943 2800 0000000000000840 0000cd2e9a4b1943 0000cd2e9a4b1943 8084eb2e9a4b1943 8084eb2e9a4b1943",
                "00 0012472f9a4b1943 2800 0000000000000840 0000cd2e9a4b1943 8084eb2e9a4b1943 00090a2f9a4b1943 00090a2f9a4b1943",
            ],
        ),
    ];
    for flavor in Flavor::chosen() {
        for (algorithm, expected) in table {
            let (store, limits) = (store(flavor), [limit(algorithm)]);
            let told = |operation, cost, millis| told(&store, &limits, operation, cost, millis);
            let replies = [
                told(Operation::Consume, 2, 0),
                told(Operation::Consume, 1, 500),
                told(Operation::Consume, 1, 1_000),
                told(Operation::Peek, 1, 2_000),
            ];
            assert_eq!(replies, expected, "{algorithm} on {flavor}");
        }
    }
}

/// The states follow each other, as in the request: of a straight script, and of one that loops.
#[test]
fn replies_about_several_limits_have_not_changed() {
    for flavor in Flavor::chosen() {
        let (store, limits) = (store(flavor), ["gcra:3/1m", "sliding-log:2/1m"].map(limit));
        let told = |operation, cost, millis| told(&store, &limits, operation, cost, millis);
        let replies = [
            told(Operation::Consume, 1, 0),
            told(Operation::TakeUpTo, 3, 500),
            told(Operation::Consume, 1, 1_000),
            told(Operation::TakeUpTo, 3, 1_500),
        ];
        let expected = [
            "01 0000cd2e9a4b1943 0000 \
             2800 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
            "01 8084eb2e9a4b1943 1800 00000000d0127341 0000cd2e9a4b1943 00000000d0127341 \
             2800 000000000000f03f 0000cd2e9a4b1943 0000000000000000 0000cd2e9a4b1943 0000cd2e9a4b1943",
            "00 00090a2f9a4b1943 1800 00000000c7d58241 8084eb2e9a4b1943 00000000d0127341 \
             2800 0000000000000040 0000cd2e9a4b1943 0000000000000000 8084eb2e9a4b1943 8084eb2e9a4b1943",
            "00 808d282f9a4b1943 1800 00000000c7d58241 8084eb2e9a4b1943 00000000d0127341 \
             2800 0000000000000040 0000cd2e9a4b1943 0000000000000000 8084eb2e9a4b1943 8084eb2e9a4b1943",
        ];
        assert_eq!(replies, expected, "{flavor}");
    }
}
