//! How long servers keep states: as long as they say something, and never for ever.

use std::time::Duration;

use tollgate_core::Algorithm;
use tollgate_core::Timestamp;
use tollgate_core::store::{Check, Request};
use tollgate_testkit::{Flavor, Reply};
use tollgate_wire::{Options, TimeSource};

use crate::engine::{LIMITS, Raw, limit, now, store, store_with};

/// Returns the server's time in microseconds.
pub(crate) fn server_time(raw: &Raw) -> u64 {
    let reply = raw.command(&[b"TIME"]);
    let part = |index: usize| -> u64 {
        let Reply::Bulk(digits) = &reply.items()[index] else {
            panic!("{reply:?} is no time");
        };
        std::str::from_utf8(digits).unwrap().parse().unwrap()
    };
    part(0) * 1_000_000 + part(1)
}

/// Returns the TTL in milliseconds of a state that counts for `reset` microseconds.
///
/// A log has one more, because `PEXPIRE` deletes a key at once if the millisecond in which it ends
/// begins while the command runs.
pub(crate) fn lives(algorithm: &Algorithm, reset: u64) -> u64 {
    let millis = reset.div_ceil(1_000);
    match algorithm {
        Algorithm::SlidingLog(_) => millis + 1,
        // A day longer, for zones whose boundaries move.
        Algorithm::CalendarWindow(_) if millis > 0 => millis + 86_400_000,
        _ => millis.max(1),
    }
}

/// By the server's clock a state lives while it counts, and by a caller's clock longer by the slack.
#[test]
fn a_state_lives_while_it_counts_and_by_the_callers_clock_for_the_slack() {
    let options = || Options::new().with_caller_slack(Duration::from_secs(100));
    let by_caller = || options().with_time_source(TimeSource::Caller);
    let epoch = Some(Timestamp::UNIX_EPOCH);
    for (options, at, slack) in [
        (options(), None, 0),
        (options(), epoch, 100_000),
        (by_caller(), None, 100_000),
    ] {
        for written in LIMITS {
            let store = store_with(Flavor::System, options.clone());
            let (raw, limit) = (store.engine(), limit(written));
            for cost in [1, 2] {
                let request = Request::consume(Check::new(&limit, "k", cost));
                let request = match at {
                    Some(at) => request.at(at),
                    None => request,
                };
                // The server adds to the time that it is by its own clock.
                let before = server_time(raw) / 1_000;
                let decision = now(store.execute(&request)).unwrap();
                let after = server_time(raw) / 1_000;
                let reset = decision.reset_after().as_micros().unwrap();
                let lives = lives(limit.algorithm(), reset) + slack;
                let ends = raw.look(&raw.keys(store.options())[0]).ends;
                let began = ends - lives;
                let holds = (before..=after).contains(&began);
                assert!(holds, "{written}: {began} in {before}..={after}");
            }
        }
    }
}

/// Where a state ends within a millisecond, its key lives until the end of that millisecond.
#[test]
fn a_ttl_is_rounded_up_to_the_millisecond() {
    const SLACK: u64 = 600_000;
    // After the refund, two of three units leak within 2,000 and two thirds of a microsecond.
    for (text, apart) in [
        ("gcra:3/3001us", 0),
        ("gcra:7/4700us,burst=3", 211),
        ("fixed-window:3/1500us", 211),
        ("fixed-window:3/1500us,anchored", 211),
        ("fixed-window:3/day@UTC", 211),
        ("sliding-counter:3/1500us", 211),
        ("sliding-buckets:3/1500us,buckets=3", 211),
        ("sliding-log:3/1500us", 211),
    ] {
        let (store, limit) = (store(Flavor::System), limit(text));
        let raw = store.engine();
        // By step, how often the end of the key was that of the millisecond of the call, and how
        // often another. A server may read the clock that keys expire by earlier than a call began.
        let mut ends = [[0, 0]; 3];
        for tried in 0..60 {
            let start = 1_780_000_000_000_000 + tried * 1_000_037;
            let check = |cost| Check::new(&limit, "k", cost);
            let mut receipt = None;
            for step in 0..3 {
                let at = Timestamp::from_micros(start + apart * step).unwrap();
                let request = match (step, &receipt) {
                    (0, _) => Request::consume(check(2)),
                    (2, Some(receipt)) => Request::refund(receipt, check(0)),
                    _ => Request::consume(check(1)),
                };
                let step = usize::try_from(step).unwrap();
                let sent = server_time(raw) / 1_000;
                let decision = now(store.execute(&request.at(at))).unwrap();
                let is_within = sent == server_time(raw) / 1_000;
                let key = raw.keys(store.options()).pop();
                let held = key.map(|key| raw.look(&key).ends).filter(|ends| *ends > 0);
                let reset = decision.reset_after().as_micros().unwrap();
                let lives = lives(limit.algorithm(), reset) + SLACK;
                if let Some(held) = held.filter(|_| is_within) {
                    ends[step][usize::from(held != sent + lives)] += 1;
                }
                receipt = decision.into_receipt();
            }
            now(store.reset(&[check(0)])).unwrap();
        }
        for (step, [right, wrong]) in ends.into_iter().enumerate() {
            let holds = 4 * right > wrong;
            assert!(holds, "{text}, step {step}: {right} right, {wrong} wrong");
        }
    }
}
