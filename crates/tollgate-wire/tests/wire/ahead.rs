//! How far states lie ahead of the server's clock, read from what each kind of store writes.

use std::time::Duration;

use tollgate_wire::inside::Reply;
use tollgate_wire::operate::Clear;

use crate::admin::{Fake, HERE, bytes, list, time};
use crate::engine::{doubles, now};

/// The server's time in microseconds.
#[expect(clippy::cast_possible_truncation, reason = "it is of this century")]
const NOW: u64 = HERE.as_micros() as u64;

/// Returns what a server holds for these numbers.
fn state(numbers: &[u64]) -> Reply {
    bytes(doubles(numbers))
}

/// Returns what a server holds for `records` leases after these numbers.
fn leases(numbers: &[u64], records: usize) -> Reply {
    match state(numbers) {
        Reply::Bytes(header) => bytes([header, vec![7; 34 * records]].concat()),
        other => other,
    }
}

/// Returns the error of a server where a key holds a value of another type.
fn another() -> Reply {
    Reply::Error("WRONGTYPE of another".to_owned())
}

/// Returns an element of a list: an instant, and a running total of `total` bytes.
fn element(at: u64, total: usize) -> Reply {
    bytes([doubles(&[at]), vec![0; total]].concat())
}

/// Returns the states found and those passed over by more than `least` ahead, where a server holds
/// `values` at the only key: of a list, the first element and the last.
fn clear(key: &str, values: &[Reply], least: Duration) -> (u64, u64) {
    let key = format!("tollgate:a:{key}:{{k}}");
    let values = values.to_vec();
    let store = Fake::store(move |words| match words[0].as_str() {
        "SCAN" => Reply::List(vec![bytes("0"), list(&[&key])]),
        "GET" | "PTTL" => values[0].clone(),
        "HGET" if words[2] == "c" => values[1].clone(),
        "LINDEX" if words[2] == "0" => values[0].clone(),
        "LINDEX" => values[1].clone(),
        "TIME" => time(0),
        _ => Reply::Integer(1),
    });
    let cleared = now(store.clear(&Clear::new().ahead_by(least), &mut |_| ())).unwrap();
    (cleared.found, cleared.skipped)
}

const AHEAD: (u64, u64) = (1, 0);
const NOT_AHEAD: (u64, u64) = (0, 0);
const UNREAD: (u64, u64) = (0, 1);

#[test]
fn every_algorithm_has_a_latest_instant() {
    // Buckets of a fourth of a second, and rings of one more than the buckets.
    let bucket = NOW / 250_000;
    let aligned = "fixed-window-aligned-9:v1";
    let plain = |window| format!("fixed-window-aligned-1000000:v1-plain-{window}");
    let (log, ring) = ("sliding-log:v1", "sliding-buckets-1000000-4:v1");
    let (of_9, of_10) = ("sliding-buckets-9-3:v1", "sliding-buckets-10-3:v1");
    let endless = "sliding-buckets-9-18446744073709551615:v1";
    let one = "sliding-buckets-16384-1:v1";
    let three = |newest| state(&[newest, 0, 0, 0, 0, 0]);
    let of_caller = "schedule:v1-caller";
    let table: &[(&str, &[Reply], _)] = &[
        ("gcra:v1", &[state(&[9, NOW + 1, 1])], AHEAD),
        ("gcra:v1", &[state(&[9, NOW, 1])], NOT_AHEAD),
        ("gcra:v1-caller", &[state(&[9, NOW + 1, 1])], AHEAD),
        ("gcra:v1", &[state(&[9, NOW + 1])], UNREAD),
        // A state with a later start.
        ("gcra:v1", &[state(&[9, NOW + 1, 1, NOW + 2])], AHEAD),
        ("gcra:v1", &[state(&[9, NOW + 1, 1, NOW + 2, 0])], UNREAD),
        ("gcra:v1", &[Reply::Nil], NOT_AHEAD),
        ("gcra:v1", &[Reply::Integer(1)], UNREAD),
        ("gcra:v1", &[bytes([0; 25])], UNREAD),
        (aligned, &[state(&[NOW + 1, 1, 0])], AHEAD),
        (aligned, &[state(&[NOW, 1, 0])], NOT_AHEAD),
        (aligned, &[state(&[NOW + 1, 1])], UNREAD),
        ("sliding-counter-9:v1", &[state(&[NOW + 1, 1, 0])], AHEAD),
        ("sliding-counter-9:v1", &[state(&[NOW, 1, 0])], NOT_AHEAD),
        ("sliding-counter-9:v1", &[state(&[NOW + 1, 1])], UNREAD),
        // The header of a log tells the latest attempt, which may be later than the newest entry.
        (log, &[element(NOW + 1, 4), element(NOW, 4)], AHEAD),
        (log, &[element(NOW, 4), element(NOW + 1, 4)], AHEAD),
        (log, &[element(NOW, 4), element(NOW, 4)], NOT_AHEAD),
        (log, &[Reply::Nil, Reply::Nil], NOT_AHEAD),
        (log, &[element(NOW + 1, 5), element(NOW, 4)], UNREAD),
        (log, &[element(NOW + 1, 3), element(NOW, 4)], UNREAD),
        (log, &[element(NOW + 1, 4), element(NOW, 5)], UNREAD),
        (log, &[bytes([0; 7]), element(NOW, 4)], UNREAD),
        (log, &[bytes([0xff; 12]), element(NOW, 4)], UNREAD),
        (ring, &[state(&[bucket + 1, 1, 1, 0, 0, 0, 0])], AHEAD),
        (ring, &[state(&[bucket, 1, 1, 0, 0, 0, 0])], NOT_AHEAD),
        (ring, &[state(&[bucket + 1, 1, 1, 0, 0, 0])], UNREAD),
        (ring, &[state(&[bucket + 1, 1, 1, 0, 0, 0, 0, 0])], UNREAD),
        (ring, &[state(&[bucket + 1])], UNREAD),
        // A bucket is as many whole microseconds as all of them need to cover the window.
        (of_10, &[three(NOW / 4 + 1)], AHEAD),
        (of_10, &[three(NOW / 4)], NOT_AHEAD),
        (of_9, &[three(NOW / 3)], NOT_AHEAD),
        (of_9, &[three(NOW / 3 + 1)], AHEAD),
        // Buckets that no limit has, or that begin after all time.
        ("sliding-buckets-9-0:v1", &[state(&[1, 0, 0])], UNREAD),
        (endless, &[state(&[1, 0])], UNREAD),
        (one, &[state(&[1 << 50, 0, 0, 0])], UNREAD),
        // What keeps no state by a script says in its name when its window begins.
        (&plain(NOW / 1_000_000 + 1), &[], AHEAD),
        (&plain(NOW / 1_000_000), &[], NOT_AHEAD),
        // A schedule of few events begins with the latest instant.
        ("schedule:v1", &[state(&[NOW + 1]), another()], AHEAD),
        ("schedule:v1", &[state(&[NOW]), another()], NOT_AHEAD),
        (of_caller, &[state(&[NOW + 1, 2]), another()], AHEAD),
        ("schedule:v1", &[bytes([0xff; 24]), another()], UNREAD),
        ("schedule:v1", &[bytes([0; 7]), another()], UNREAD),
        ("schedule:v1", &[Reply::Nil, Reply::Nil], NOT_AHEAD),
        // One of many holds it in a field of a hash.
        ("schedule:v1", &[another(), state(&[NOW + 1, 2])], AHEAD),
        ("schedule:v1", &[another(), state(&[NOW])], NOT_AHEAD),
        (of_caller, &[another(), state(&[NOW + 1])], AHEAD),
        ("schedule:v1", &[another(), bytes([0xff; 24])], UNREAD),
        ("schedule:v1", &[another(), bytes([0; 7])], UNREAD),
        ("schedule:v1", &[another(), bytes("")], UNREAD),
        ("schedule:v1", &[another(), Reply::Nil], UNREAD),
        ("schedule:v1", &[another(), Reply::Integer(1)], UNREAD),
        ("schedule:v1", &[another(), another()], UNREAD),
        ("schedule:v2", &[], UNREAD),
        // Leases: the latest instant, the latest token and the weight, and 34 bytes for each lease.
        ("leases:v1", &[state(&[NOW + 1, NOW, 0])], AHEAD),
        ("leases:v1", &[state(&[NOW, NOW + 1, 0])], NOT_AHEAD),
        ("leases:v1-caller", &[leases(&[NOW + 1, NOW, 2], 2)], AHEAD),
        ("leases:v1", &[leases(&[NOW, NOW, 2], 2)], NOT_AHEAD),
        ("leases:v1", &[state(&[NOW + 1])], UNREAD),
        ("leases:v1", &[state(&[NOW + 1, NOW])], UNREAD),
        ("leases:v1", &[state(&[NOW + 1, NOW, 0, 0])], UNREAD),
        ("leases:v1", &[bytes([0xff; 24])], UNREAD),
        ("leases:v1", &[bytes([0; 7])], UNREAD),
        ("leases:v1", &[bytes("")], UNREAD),
        ("leases:v1", &[Reply::Integer(1)], UNREAD),
        ("leases:v1", &[Reply::Nil], NOT_AHEAD),
        ("leases:v1", &[another()], UNREAD),
        ("leases:v2", &[], UNREAD),
        ("gcra:v2", &[], UNREAD),
        // A block: its end, which may lie ahead, and when it was made.
        ("block:v1", &[state(&[NOW + 9, NOW + 1, 5])], AHEAD),
        ("block:v1", &[state(&[NOW + 9, NOW, 5])], NOT_AHEAD),
        ("block:v1-caller", &[state(&[NOW + 9, NOW + 1, 5])], AHEAD),
        ("block:v1", &[state(&[NOW + 9, NOW + 1])], UNREAD),
        ("block:v1", &[state(&[NOW + 9, NOW + 1, 5, 0])], UNREAD),
        ("block:v1", &[Reply::Nil], NOT_AHEAD),
        // An answer keeps nobody waiting.
        ("answer:v1", &[state(&[NOW + 9, NOW + 9, 9])], NOT_AHEAD),
        ("answer:v1-caller", &[Reply::Integer(1)], NOT_AHEAD),
    ];
    for (key, values, expected) in table {
        let found = clear(key, values, Duration::ZERO);
        assert_eq!(found, *expected, "{key} {values:?}");
    }
}

/// An anchored window began a window before its counter expires, in whole milliseconds.
#[test]
fn an_anchored_counter_has_its_instant_from_its_ttl() {
    let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
    for (window, least, left, expected) in [
        (60_000_000, zero, Reply::Integer(60_001), NOT_AHEAD),
        (60_000_000, zero, Reply::Integer(60_002), AHEAD),
        (60_000_000, second, Reply::Integer(61_001), NOT_AHEAD),
        (60_000_000, second, Reply::Integer(61_002), AHEAD),
        (60_000_000, zero, Reply::Integer(0), NOT_AHEAD),
        // It is gone, or another program wrote one that does not expire.
        (60_000_000, zero, Reply::Integer(-2), NOT_AHEAD),
        (60_000_000, zero, Reply::Integer(-1), UNREAD),
        (60_000_000, zero, Reply::Nil, UNREAD),
        // As long as no clock can tell.
        (60_000_000, zero, Reply::Integer((1 << 61) + 1), AHEAD),
        (60_000_000, zero, Reply::Integer(i64::MAX), AHEAD),
        (
            9_007_199_254_740_991_u64,
            zero,
            Reply::Integer(1),
            NOT_AHEAD,
        ),
    ] {
        let key = format!("fixed-window-anchored-{window}:v1-plain");
        let cleared = clear(&key, std::slice::from_ref(&left), least);
        assert_eq!(cleared, expected, "{window} {least:?} {left:?}");
    }
}
