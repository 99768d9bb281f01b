//! Tests of the clock of `PlainStore`.

use super::*;

/// The engine's clock may be fast by one part in a thousand, and is read in whole microseconds.
#[test]
fn the_estimate_of_the_servers_clock_is_never_ahead_of_it() {
    let last = Reading {
        server: 5_000_000,
        local: 700,
    };
    for (local, earliest) in [
        (700, 5_000_000),
        (701, 5_000_000),
        (702, 5_000_001),
        (1_699, 5_000_998),
        (1_700, 5_000_998),
        (1_701, 5_000_999),
        (1_000_700, 5_998_999),
        // A clock that is not monotonic.
        (0, 5_000_000),
    ] {
        assert_eq!(last.earliest(local), earliest, "at {local}");
    }
    let late = Reading {
        server: u64::MAX - 1,
        local: 0,
    };
    assert_eq!(late.earliest(1_000), u64::MAX);
}
