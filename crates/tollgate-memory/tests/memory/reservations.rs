//! What a reservation is besides a check: its cost, its start, and which limits can have one.

use std::time::Duration;

use tollgate_core::SyncStore;
use tollgate_core::store::Operation;
use tollgate_memory::store::{Check, Request, Verdict};
use tollgate_memory::{MemoryStore, RateLimiter, Timestamp, Wait};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH.saturating_add(SECOND * u32::try_from(seconds).unwrap())
}

fn limiter(limits: &[&str]) -> RateLimiter<MemoryStore> {
    RateLimiter::new(MemoryStore::new(), limits.iter().copied()).unwrap()
}

#[test]
fn a_reservation_says_when_it_was_recorded_and_when_it_starts() {
    let limiter = limiter(&["a=gcra:1/1s", "b=gcra:1/1s"]);
    let _ = limiter.check("alice").at(at(10)).run().unwrap();
    // The clock has stepped back: what is recorded is recorded at the latest instant.
    let limits = limiter.limits();
    let checks = [
        Check::new(&limits[0], "alice", 1),
        Check::new(&limits[1], "alice", 0),
    ];
    let request = Request::new(
        Operation::Reserve {
            max_delay: 9 * SECOND,
        },
        checks,
    )
    .at(at(8));
    let verdicts = limiter.store().decide_now(&request).unwrap();
    assert_eq!(verdicts.delay().duration(), Some(3 * SECOND));
    let decided = verdicts
        .as_slice()
        .iter()
        .map(|verdict| verdict.decided_at());
    assert_eq!(decided.collect::<Vec<_>>(), [at(10), at(8)]);
    let receipt = verdicts.into_receipt().unwrap();
    let starts = receipt
        .consumed()
        .iter()
        .map(|consumed| (consumed.cost(), consumed.at()));
    assert_eq!(starts.collect::<Vec<_>>()[0], (1, at(11)));
}

/// A delay that one of several limits cannot count is not accepted, however long it may be.
#[test]
fn the_longest_delay_is_that_of_the_limit_that_can_count_least() {
    const DAY: u64 = 86_400;
    let slow = "slow=gcra:1/36500d";
    for (limits, is_allowed) in [(&[slow][..], true), (&[slow, "odd=gcra:7/1300ms"], false)] {
        let limiter = limiter(limits);
        let reserve = || {
            limiter
                .reserve("alice")
                .within(Duration::MAX)
                .at(at(DAY))
                .run()
                .unwrap()
        };
        assert!(reserve().is_allowed());
        assert_eq!(reserve().is_allowed(), is_allowed, "{limits:?}");
    }
}

#[test]
fn only_an_allowed_verdict_has_a_delay() {
    let wait = Wait::from_micros(7);
    let allowed = Verdict::allow(2, 1).with_delay(wait);
    assert_eq!((allowed.delay(), allowed.retry_after()), (wait, Wait::ZERO));
    let denied = Verdict::deny(2, 1, wait).with_delay(Wait::from_micros(9));
    assert_eq!((denied.delay(), denied.retry_after()), (Wait::ZERO, wait));
}
