//! States and answers as bytes: what they are, and that others are refused.

use std::time::Duration;

use tollgate_core::store::{BlockSpan, Check, Operation, Request, State, Verdicts};
use tollgate_core::{ErrorKind, Limit, StoreError, Timestamp, lease, schedule};

const START: u64 = 1_800_000_000_000_000;

/// Limits, the calls under them (when, in microseconds from the start on, what, and the cost), and the bytes of
/// their states, and how many. Rows of databases hold such bytes: they must not change.
const WRITTEN: &str = "\
gcra:10/1s | 7 peek 1 | 0 |
gcra:10/1s | 7 take 10 | 11 | 26651728988007150f4240
gcra:10/1m | 7 take 10 | 12 | 266517289880076603938700
gcra:5/1m | 7 take 4, 8 take 1 | 12 | 2665172898800886039386ff
gcra:1000/1h | 7 take 1000 | 12 | 26651728988007c5d693a400
gcra:1000/1d | 7 take 1000 | 13 | 26651728988007f5141dd76000
gcra:1/1s | 7 take 1, 7 reserve 1 | 15 | 266517289880071600c0843d1e8480
gcra:1/1s | 7 take 1, 8 give 1 | 7 | 26651728988008
fixed-window:900/1h | 7 take 800 | 9 | 06651728988000a006
fixed-window:9/1h,anchored | 7 take 4, 8 take 3 | 9 | 066517289880070704
fixed-window:9/1h,anchored | 7 take 4, 8 take 3, 9 undo 0, 9 undo 0 | 9 | 066517289880070104
sliding-buckets:99/1h,buckets=60 | 7 take 4, 120000000 take 3 | 10 | 4665172fbf8e00030004
sliding-counter:900/1m | 7 take 800, 60000007 take 3 | 10 | 6665172c2c070003a006
sliding-log:9/1m | 7 take 1, 1000 take 1, 30000000 take 2 | 21 | 8665172a62438003f18dce1c01c20f01b0fecd1c02
block:15m,doublings=3 | 7 block 0 | 12 | a665172898800780d293ad03
fixed-window:900/day@Europe/Berlin | 7 take 800 | 15 | c6650f9d67bc00a00680c0ddeec102
fixed-window:900/month@Europe/Berlin | 7 take 800 | 15 | c663f5fba07c00a00680c0d2e8f94d
leases | | 23 | e18980e2c4f2a299030002fc887a020201610400020162
events | | 24 | e08080e2c4f2a2990302809c9c39010161808ece1c010162
answer | | 51 | e203566ec2fce6d14041050100c1843d81897a018080e2c4f2a29903c0849fc5f2a299038080e2c4f2a29903c0843dc0843d00";

/// What is read, and bytes of it; and below, some like them that are refused: there is a shorter form, or nothing
/// comes to it. Such are a third newest bucket that is before the epoch, 100,001 units in a log, units of more
/// than an hour ahead, and a period of more than two days.
const REFUSED: &str = "\
fixed-window:9/1s | 06651728988000 03 01
 06651728988000 8300 01, 06651728988000 03 01 00, 06651728988000 03 81, 06651728988000 00 04
 06651728988001 03 01, 06651728988000 8080808080808010, 06651728988000 8080808080808080808001
 00000000000000, 066517289880
gcra:9/1s | 26651728988000 16 00 01 0f4240
 26651728988000 16 00 00 0f4240, 26651728988000 16 00 8100 0f4240, 26651728988000 16
 26651728988000 06 01 0f4240, 26651728988000 00 0a 0f4240, 26651728988000 00 00 0f4240
 26651728988000 1f 20000000000000, 26651728988000 1f 010000000000000000, 26651728988000 af 0f4240
 3fffffffffffff 16 00 01 0f4240
sliding-buckets:9/4s,buckets=4 | 46651728988000 03 01
 46651728988000 03 00, 46651728988000 01 01 01 01 01 01, 46651728988001 03 01
 46651728988000 ffffffffffffff0f 01, 400000000f4240 01 01 01
sliding-counter:9/1s | 66651728988000 03 01
 66651728988000 03 00, 66651728988001 03 01, 66651728988000 ffffffffffffff0f
 66651728988000 00 ffffffffffffff0f
sliding-log:9/1s | 86651728988000 02 00 03 02 01
 86651728988000 02 00 03 00 01, 86651728988000 02 00 03 01 01, 86651728988000 02 00 03
 86651728988000 01 00 03 02 01, 86651728988000 00, 86651728988000 02 00 a08d06 02 01
 86651728988000 01 82909de91a 01
block:1m | a6651728988000 808ece1c
 a6651728988000, a6651728988000 808ece1c 00, a6651728988000 808ece1c 8280c489e5c5b206, bfffffffffffff 01
fixed-window:9/day@UTC | dfffffffffffff 03 01
 dfffffffffffff 03 02, c6651728988000 03, c6651728988000 03 8190d8c69e05
leases | e1 05 04 02 14 01 02 0161 00 00 01 0162
 e0 05 04 02 14 01 02 0161 00 00 01 0162, e1 05 04 02 14 01 02 0161 01 00 01 0162
 e1 05 04 02 14 01 02 0161 00 01 01 0162, e1 05 04 02 14 01 02 0161 00 00 01 0161
 e1 05 04 02 14 01 02 0161 00 00 01 00, e1 05 04 02 14 05 02 0161 00 00 01 0162
 e1 05 04 02 14 01 00 0161 00 00 01 0162, e1 05 04 02 14 01 e807 0161 00 00 01 0162
 e1 05 04 01 8080808080808008 01 02 0161, e1 05 04 03 14 01 02 0161 00 00 01 0162
 e1 05 04 01 14 01 02 0161 00 00 01 0162, e1 ffffffffffffff7f 00 00, e1 00 00 00
events | e0 07 02 14 01 0162 02 02 0161
 e1 07 02 14 01 0162 02 02 0161, e0 07 02 14 01 0162 00 02 0161, e0 07 02 14 01 0162 01 02 0163
 e0 07 02 14 01 0162 02 02 0162, e0 07 02 14 01 0162 02 00 0161, e0 07 02 14 01 0162 02 a18d06 0161
 e0 07 02 14 01 0162 02 02 00, e0 07 01 8080808080808008 02 0161, e0 07 03 14 01 0162 02 02 0161
 e0 07 00
answer | e2 01 0102030405060708 01 09 08 01 01 01 07
 -, e1 01 0102030405060708 01 09 08 01 01 01 07, e2 01 01020304050607
 e2 05 0102030405060708 01 09 08 01 01 01 07, e2 03 0102030405060708 01 09 08 01 01 01 07
 e2 01 0102030405060708 11 09 08 01 01 01 07, e2 01 0102030405060708 01 09 08 01 01 01
 e2 01 0102030405060708 01 09 08 01 01 01 8080808080808010";

fn limit(text: &str) -> Limit {
    format!("l={text}").parse().unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::saturating_from_micros(micros)
}

fn bytes(hex: &str) -> Vec<u8> {
    let hex: Vec<_> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).unwrap();
    hex.chunks(2).map(byte).collect()
}

/// Returns the bytes of a row, after these calls.
fn written(what: &str, calls: &str) -> Vec<u8> {
    let terms = lease::Terms::new("l", 9, Duration::from_secs(1)).unwrap();
    let (mut leases, mut events) = (lease::State::default(), schedule::State::default());
    for (id, later) in [("a", 7), ("b", 9)] {
        let (id, weight) = (id.as_bytes(), 2);
        let request = lease::Request::new(&terms, "k", lease::Operation::Acquire { id, weight });
        _ = request.decide_on(&mut leases, at(START + later));
    }
    let terms = schedule::Terms::new("l", ["9/1h"]).unwrap();
    for (id, later) in [("a", 60_000_000), ("b", 90_000_000)] {
        let event = schedule::Event::new(id, at(START + later));
        let request = schedule::Request::new(&terms, "k", schedule::Operation::Add(vec![event]));
        _ = request.decide_on(&mut events, at(START));
    }
    let calls = match what {
        "leases" => return leases.to_bytes(),
        "events" => return events.to_bytes(),
        "answer" => "0 take 1, 0 reserve 1",
        _ => calls,
    };
    let limit = limit(if what == "answer" { "gcra:1/1s" } else { what });
    let (mut state, mut answer, mut receipt) = (State::default(), Vec::new(), None);
    for call in calls.split(", ") {
        let [later, act, cost] = call.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{call}")
        };
        let operation = match act {
            "peek" => Operation::Peek,
            "take" => Operation::Consume,
            "give" => Operation::Give,
            "undo" => Operation::Refund(receipt.as_ref().unwrap()),
            "reserve" => Operation::Reserve {
                max_delay: Duration::MAX,
            },
            _ => Operation::Block(BlockSpan::Usual),
        };
        let now = at(START + later.parse::<u64>().unwrap());
        let check = Check::new(&limit, "k", cost.parse().unwrap());
        let decided = Request::new(operation, [check]).decide_on(&mut state, now);
        answer = decided.to_bytes();
        receipt = decided.into_receipt().or(receipt);
    }
    if what == "answer" {
        answer
    } else {
        state.to_bytes()
    }
}

/// Reads a state or an answer: what is accepted must be the same bytes again.
fn read(what: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let written = match what {
        "leases" => {
            let terms = lease::Terms::new("l", 9, Duration::from_secs(1)).unwrap();
            lease::State::from_bytes(&terms, bytes)?.to_bytes()
        }
        "events" => {
            let terms = schedule::Terms::new("l", ["9/1h"]).unwrap();
            schedule::State::from_bytes(&terms, bytes)?.to_bytes()
        }
        "answer" => {
            let limit = limit("gcra:1/1s");
            let request = Request::consume(Check::new(&limit, "k", 1));
            Verdicts::from_bytes(&request, bytes)?.to_bytes()
        }
        _ => State::from_bytes(&limit(what), bytes)?.to_bytes(),
    };
    assert_eq!(written, bytes);
    Ok(())
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)> {
    WRITTEN.lines().map(|line| {
        let [what, calls, size, hex] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        (what, calls, size, hex)
    })
}

#[test]
fn bytes_stay_as_they_are_and_as_few() {
    for (what, calls, size, expected) in rows() {
        let found = written(what, calls);
        assert_eq!(
            (&found, found.len().to_string()),
            (&bytes(expected), size.into()),
            "{what}: {found:02x?}"
        );
        read(what, &found).unwrap();
    }
}

#[test]
fn other_bytes_are_refused_with_what_to_do() {
    let refused = |what: &str, bytes: &[u8], expected: &str| {
        let error = read(what, bytes).expect_err(&format!("{what}: {bytes:02x?}"));
        let told = error.to_string();
        let is_said = told.contains(expected) && told.contains("`l`");
        assert!(
            is_said && error.kind() == ErrorKind::Protocol,
            "{what}, {bytes:02x?}: {error:?}"
        );
    };
    let blocks = || REFUSED.lines().filter_map(|line| line.split_once(" | "));
    let mut whose = "";
    for line in REFUSED.lines() {
        let Some((what, hex)) = line.split_once(" | ") else {
            for other in line.split(',') {
                refused(
                    whose,
                    &bytes(other),
                    "is damaged, or something else wrote it: delete it",
                );
            }
            continue;
        };
        whose = what;
        let good = bytes(hex);
        read(what, &good).unwrap();
        for (other, _) in blocks().filter(|(other, _)| *other != what) {
            refused(other, &good, "is damaged");
        }
        for first in [0xe3, 0xff] {
            let newer = [&[first], &good[1..]].concat();
            refused(what, &newer, "a newer version of tollgate wrote");
        }
    }
}
