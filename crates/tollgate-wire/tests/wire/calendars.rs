//! Windows of a calendar: the server's clock decides, wherever the caller's clock is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::store::{Check, Request, State, Verdict};
use tollgate_core::{CallId, ErrorKind, Limit, Timestamp};
use tollgate_testkit::{Flavor, Server};
use tollgate_wire::inside::Reply;
use tollgate_wire::operate::Search;

use crate::admin::{Fake, HERE, bytes, list};
use crate::engine::{Canned, Raw, limit, now, store, store_on};
use crate::lifetime::server_time;

const HOUR: u64 = 3_600;

/// A call takes one round trip if the clocks differ by less than half a period, and otherwise two. It is
/// counted once, in the period of the server's clock.
#[test]
fn the_servers_clock_decides_wherever_the_callers_is() {
    let server = Server::start(Flavor::System);
    // Loads the script.
    let day = limit("fixed-window:10/day@UTC");
    let _ = now(store_on(&server).execute(&Request::consume(Check::new(&day, "k", 1)))).unwrap();
    for (text, hours, takes) in [
        ("fixed-window:10/day@Europe/Berlin", 0, 1),
        ("fixed-window:10/day@Europe/Berlin", 11, 1),
        ("fixed-window:10/day@Europe/Berlin", 60, 2),
        ("fixed-window:10/month@Asia/Kolkata", 13 * 24, 1),
        ("fixed-window:10/month@Asia/Kolkata", 50 * 24, 2),
        ("fixed-window:10/year@UTC", 170 * 24, 1),
        ("fixed-window:10/year@UTC", 600 * 24, 2),
        // Before 1970, or after 2255.
        ("fixed-window:10/year@UTC", 300 * 366 * 24, 2),
    ] {
        let limit = limit(text);
        for ahead in [false, true] {
            let store = store_on(&server);
            let raw: &Raw = store.engine();
            raw.be_off(Duration::from_secs(hours * HOUR), ahead);
            let key = format!("{hours}{ahead}");
            let consume = Request::consume(Check::new(&limit, key.as_str(), 3));
            for remaining in [7, 4] {
                let sent = server.calls("evalsha");
                let before = server_time(raw);
                let decided = now(store.execute(&consume)).unwrap();
                let after = server_time(raw);
                assert_eq!(server.calls("evalsha") - sent, takes, "{text} {key}");
                assert_eq!(decided.remaining(), remaining, "{text} {key}");
                // What the machine says at the server's time.
                let at = decided.as_slice()[0].decided_at();
                assert!((before..=after).contains(&at.as_micros()), "{text} {key}");
                let expected = consume.decide_on(&mut State::default(), at);
                let reset = decided.reset_after();
                assert_eq!(reset, expected.reset_after(), "{text} {key}");
            }
        }
    }
}

/// What operators ask about states is decided by the server's clock, too, in one more round trip; if the
/// clock is elsewhere again by then, it is not.
#[test]
fn states_are_read_wherever_the_callers_clock_is() {
    let days = |days: u64| HERE + Duration::from_secs(days * 24 * HOUR);
    let fresh = |at: Duration| bytes([said(1, at), vec![0, 0]].concat());
    let uncovered = |at| bytes(said(2, at));
    for (replies, expected) in [
        (vec![fresh(days(1))], Ok(vec![10])),
        (vec![uncovered(days(400)), fresh(days(400))], Ok(vec![10])),
        (
            vec![uncovered(days(400)), uncovered(days(800))],
            Err(ErrorKind::Unavailable),
        ),
        // No script says so of an instant that is covered.
        (vec![uncovered(days(1))], Err(ErrorKind::Protocol)),
        (vec![uncovered(days(400)); 2], Err(ErrorKind::Protocol)),
    ] {
        let asked = AtomicUsize::new(0);
        let takes = replies.len();
        let asked = Arc::new(asked);
        let counted = Arc::clone(&asked);
        let store = Fake::store(move |words| match words[0].as_str() {
            "SCAN" => {
                let key = "tollgate:l:calendar-window-month-Europe/Berlin:v1:{k}";
                Reply::List(vec![bytes("0"), list(&[key])])
            }
            "EVALSHA" => replies[counted.fetch_add(1, Relaxed)].clone(),
            _ => Reply::Integer(1),
        });
        let limit = limit("fixed-window:10/month@Europe/Berlin");
        let states = now(store.find(&mut Search::new())).unwrap().unwrap();
        let verdicts = now(store.peek_at(&limit, &states));
        let left = verdicts.map_err(|error| error.kind()).map(|verdicts| {
            let known = verdicts.iter().flatten();
            known.map(Verdict::remaining).collect::<Vec<_>>()
        });
        assert_eq!(left, expected);
        assert_eq!(asked.load(Relaxed), takes);
    }
}

/// Returns how a script's reply begins.
fn said(status: u8, at: Duration) -> Vec<u8> {
    #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
    let micros = at.as_micros() as f64;
    [&[status][..], &micros.to_le_bytes()].concat()
}

/// A server that finds none of the periods twice, or that says so where it cannot be, has counted nothing.
#[test]
fn a_call_is_asked_again_once_and_only_where_its_periods_end() {
    let day = limit("fixed-window:10/day@UTC");
    let at = Duration::from_micros(20_000 * 24 * HOUR * 1_000_000);
    let store = Canned::store(&said(2, at));
    let consume = Request::consume(Check::new(&day, "k", 1));
    let ask = |request: &Request<'_>| now(store.execute(request)).map(drop).unwrap_err().kind();
    // It is asked again with the periods around this instant, and they hold it.
    assert_eq!(ask(&consume), ErrorKind::Protocol);
    let sent = store.engine().asked().argument;
    let midnight = 20_000.0 * 86.4e9;
    let boundaries = [-86.4e9, 0.0, 86.4e9].map(|of: f64| (midnight + of).to_le_bytes());
    assert!(sent.ends_with(&boundaries.concat()));
    // At a caller's instant, none is missing; a limit without a calendar has none.
    let instant = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
    assert_eq!(ask(&consume.clone().at(instant)), ErrorKind::Protocol);
    let gcra = limit("gcra:10/1d");
    let consume = Request::consume(Check::new(&gcra, "k", 1));
    assert_eq!(ask(&consume), ErrorKind::Protocol);
}

/// All limits of a call that needs other boundaries are decided once, with those.
#[test]
fn a_call_that_is_asked_again_counts_denied_calls_once() {
    let store = store(Flavor::System);
    store
        .engine()
        .be_off(Duration::from_secs(400 * 24 * HOUR), true);
    let limits: [Limit; 2] = [
        "denied=sliding-log:10/1d,count-denied".parse().unwrap(),
        "few=fixed-window:1/month@Europe/Berlin".parse().unwrap(),
    ];
    for remaining in [9, 8, 7] {
        let consume = Request::consume_all(&limits, "k", 1);
        let decided = now(store.execute(&consume)).unwrap();
        assert_eq!(decided.as_slice()[0].remaining(), remaining);
        assert_eq!(decided.is_allowed(), remaining == 9);
    }
    for request in [
        Request::peek(Check::new(&limits[1], "k", 1)),
        Request::lower(Check::new(&limits[1], "k", 0)),
        Request::take_up_to(Check::new(&limits[1], "k", 5)),
    ] {
        assert_eq!(now(store.execute(&request)).unwrap().remaining(), 0);
    }
}

/// A call with an id is asked again like any other, and its answer is kept once.
#[test]
fn a_call_with_an_id_is_asked_again_and_counted_once() {
    let store = store(Flavor::System);
    store
        .engine()
        .be_off(Duration::from_secs(400 * 24 * HOUR), true);
    let limits: [Limit; 2] = [
        "one=fixed-window:10/month@Europe/Berlin".parse().unwrap(),
        "two=fixed-window:10/day@UTC".parse().unwrap(),
    ];
    let both = Request::consume_all(&limits, "k", 3);
    // One script for few limits, and one for any operation.
    for (request, remaining) in [
        (Request::consume(Check::new(&limits[0], "a", 3)), 7),
        (both, 7),
        (Request::take_up_to(Check::new(&limits[1], "b", 4)), 6),
    ] {
        let request = request.id(CallId::new(b"one"));
        for _ in 0..2 {
            let decided = now(store.execute(&request)).unwrap();
            assert_eq!(decided.remaining(), remaining);
        }
    }
}

/// A call that is repeated after midnight is the call before.
#[test]
fn an_id_knows_its_call_on_both_sides_of_a_boundary() {
    let store = store(Flavor::System);
    let limit = limit("fixed-window:10/day@UTC");
    // Between the days that are sent before noon and after, and then at midnight.
    let at = |hours: u64| Timestamp::from_micros((20_000 * 24 + hours) * HOUR * 1_000_000).unwrap();
    let call = |hours| {
        let request = Request::consume(Check::new(&limit, "k", 3)).at(at(hours));
        now(store.execute(&request.id(CallId::new(b"one")))).unwrap()
    };
    assert_eq!(call(11).remaining(), 7);
    for hours in [13, 23, 24, 25] {
        let again = call(hours);
        assert_eq!(again.remaining(), 7, "{hours}");
        assert_eq!(again.as_slice()[0].decided_at(), at(11));
    }
}

/// Where a zone's boundaries move, a period that begins later than before keeps what it has counted, and
/// one that begins after what was counted has none of it.
#[test]
fn moved_boundaries_keep_what_their_period_has_counted() {
    let limit = limit("fixed-window:10/day@UTC");
    let midnight = 20_000 * 24 * HOUR * 1_000_000;
    let at = Timestamp::from_micros(midnight + 12 * HOUR * 1_000_000).unwrap();
    // By how many hours the period that was counted in begins after the one that the caller knows.
    for (moved, remaining) in [(0_i16, 7), (1, 7), (13, 7), (-1, 10)] {
        let store = store(Flavor::System);
        let consume = Request::consume(Check::new(&limit, "k", 3)).at(at);
        let _ = now(store.execute(&consume)).unwrap();
        let key = store.engine().keys(store.options()).remove(0);
        let length = f64::from(24 - moved) * 3.6e9;
        #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
        let start = midnight as f64 + f64::from(moved) * 3.6e9;
        let state = [start, length, 3.0].map(f64::to_le_bytes).concat();
        store.engine().command(&[b"SET", &key, &state, b"KEEPTTL"]);
        let left = || {
            let peek = Request::peek(Check::new(&limit, "k", 1)).at(at);
            now(store.execute(&peek)).unwrap().remaining()
        };
        assert_eq!(left(), remaining, "{moved}");
        let consume = Request::consume(Check::new(&limit, "k", 1)).at(at);
        let decided = now(store.execute(&consume)).unwrap();
        assert_eq!(left(), remaining - 1, "{moved}");
        let half_a_day = Duration::from_secs(12 * HOUR);
        let reset = decided.reset_after().as_micros().map(Duration::from_micros);
        assert_eq!(reset, Some(half_a_day), "{moved}");
    }
}
