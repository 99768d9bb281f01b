//! Keys that limits count, or that hold leases or events: at most `max_keys` of them, none dropped that still counts, and
//! room for others once what they hold is over.

use std::time::Duration;

use tollgate_core::lease::ConcurrencyLimiter;
use tollgate_core::schedule::Schedule;
use tollgate_core::store::{Check, Request};
use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, StoreError, SyncStore, Timestamp};
use tollgate_memory::{Clock, ManualClock, MemoryStore};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MICRO: Duration = Duration::from_micros(1);

pub(crate) fn store(max_keys: usize) -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    let builder = MemoryStore::builder().max_keys(max_keys);
    (builder.clock(clock.clone()).build(), clock)
}

/// Two leases of ten seconds.
pub(crate) fn places(store: &MemoryStore) -> ConcurrencyLimiter<&MemoryStore> {
    ConcurrencyLimiter::new(store, "places", 2, 10 * SECOND).unwrap()
}

/// One event in ten seconds; an event counts for eleven, with the tolerance.
pub(crate) fn plans(store: &MemoryStore) -> Schedule<&MemoryStore> {
    Schedule::new(store, "plans", ["1/10s"]).unwrap()
}

/// Calls under a limit of one a day, and returns whether that is allowed.
pub(crate) fn consume(store: &MemoryStore, key: &str) -> Result<bool, ErrorKind> {
    let limit = Limit::new("once", FixedWindow::anchored(Quota::per_day(1))).unwrap();
    let decided = store.decide_now(&Request::consume(Check::new(&limit, key, 1)));
    decided
        .map(|verdicts| verdicts.is_allowed())
        .map_err(|error| error.kind())
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A call under a limit of one a minute.
    Call,
    Lease,
    Event,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Call, Self::Lease, Self::Event];

    fn limit() -> Limit {
        Limit::new("calls", FixedWindow::anchored(Quota::per_minute(1))).unwrap()
    }

    /// Makes one that begins now, by the store's clock or at a caller's instant.
    fn try_make(
        self,
        store: &MemoryStore,
        key: &str,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Call => {
                let limit = Self::limit();
                let request = Request::consume(Check::new(&limit, key, 1));
                let request = match at {
                    Some(at) => request.at(at),
                    None => request,
                };
                store.decide_now(&request).map(|made| made.is_allowed())
            }
            Self::Lease => {
                let places = places(store);
                let call = places.acquire(key, "a");
                let call = match at {
                    Some(at) => call.at(at),
                    None => call,
                };
                call.run().map(|acquired| acquired.is_granted())
            }
            Self::Event => {
                let plans = plans(store);
                let call = plans.add(key, "a", at.unwrap_or(now));
                let call = match at {
                    Some(at) => call.at(at),
                    None => call,
                };
                call.run().map(|placed| placed.is_planned())
            }
        }
    }

    fn make(self, store: &MemoryStore, clock: &ManualClock, key: &str) -> Result<bool, ErrorKind> {
        let made = self.try_make(store, key, None, clock.now());
        made.map_err(|error| error.kind())
    }

    /// Returns how long one counts.
    fn lasts(self) -> Duration {
        match self {
            Self::Call => 60 * SECOND,
            Self::Lease => 10 * SECOND,
            Self::Event => 11 * SECOND,
        }
    }
}

#[test]
fn a_full_store_serves_only_keys_that_it_holds() {
    for (kind, max_keys) in [1, 10, 300]
        .into_iter()
        .flat_map(|most| Kind::ALL.map(|kind| (kind, most)))
    {
        let (store, clock) = store(max_keys);
        for key in 0..max_keys {
            assert_eq!(kind.make(&store, &clock, &format!("held-{key}")), Ok(true));
        }
        assert_eq!(store.len(), max_keys);
        for key in 0..50 {
            let new = format!("new-{key}");
            for other in Kind::ALL {
                assert_eq!(other.make(&store, &clock, &new), Err(ErrorKind::Full));
            }
            assert_eq!(consume(&store, &new), Err(ErrorKind::Full));
        }
        // A lease or an event that is there already is the same; a limit has counted its call.
        let again = !matches!(kind, Kind::Call);
        for key in 0..max_keys {
            assert_eq!(kind.make(&store, &clock, &format!("held-{key}")), Ok(again));
        }
        assert_eq!(store.len(), max_keys);
    }
}

#[test]
fn room_is_made_when_the_last_one_is_over_and_not_before() {
    for (kind, max_keys) in [1_u32, 10, 64]
        .into_iter()
        .flat_map(|most| Kind::ALL.map(|kind| (kind, most)))
    {
        let (store, clock) = store(max_keys.try_into().unwrap());
        let start = clock.now();
        for key in 0..max_keys {
            clock.set(start.saturating_add(key * MICRO));
            assert_eq!(kind.make(&store, &clock, &format!("early-{key}")), Ok(true));
        }
        clock.set(start.saturating_add(kind.lasts() - MICRO));
        for key in 0..max_keys {
            assert_eq!(kind.make(&store, &clock, "late"), Err(ErrorKind::Full));
            assert_eq!(consume(&store, "late"), Err(ErrorKind::Full));
            // That of exactly one more key is over.
            clock.advance(MICRO);
            let new = format!("late-{key}");
            // They make room for limits, too.
            let made = match key % 2 {
                0 => kind.make(&store, &clock, &new),
                _ => consume(&store, &new),
            };
            assert_eq!(made, Ok(true));
            assert_eq!(kind.make(&store, &clock, "late"), Err(ErrorKind::Full));
            for held in key + 1..max_keys {
                let held = kind.make(&store, &clock, &format!("early-{held}"));
                assert!(held.is_ok(), "{kind:?}");
            }
        }
    }
}

#[test]
fn limits_make_room_for_leases_and_events() {
    for kind in Kind::ALL {
        let (store, clock) = store(10);
        for key in 0..10 {
            assert_eq!(consume(&store, &key.to_string()), Ok(true));
        }
        assert_eq!(kind.make(&store, &clock, "k"), Err(ErrorKind::Full));
        clock.advance(86_400 * SECOND);
        assert_eq!(kind.make(&store, &clock, "k"), Ok(true));
        assert!(store.len() <= 10);
    }
}

/// One call does not look at every key.
#[test]
fn room_is_made_in_small_steps() {
    for kind in Kind::ALL {
        let (store, clock) = store(4_000);
        for key in 0..4_000 {
            assert_eq!(kind.make(&store, &clock, &key.to_string()), Ok(true));
        }
        clock.advance(kind.lasts());
        assert_eq!(consume(&store, "new"), Ok(true));
        let left = store.len();
        assert!((4_000 - 512..4_000).contains(&left), "{left}");
        assert_eq!(store.sweep(), left - 1);
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn new_keys_drop_those_that_are_over() {
    for kind in Kind::ALL {
        let (store, clock) = store(1_000_000);
        let mut most = 0;
        for key in 0..10_000 {
            assert_eq!(kind.make(&store, &clock, &key.to_string()), Ok(true));
            clock.advance(kind.lasts() / 1_000);
            most = most.max(store.len());
        }
        // A thousand count at a time.
        assert!((1_000..4_000).contains(&most), "{most}");
    }
}

#[test]
fn sweeps_clear_and_reset_drop_what_they_say() {
    for kind in Kind::ALL {
        let (store, clock) = store(100);
        let now = clock.now();
        let empty = store.bytes();
        let both = |at: Timestamp| {
            for key in ["a", "b"] {
                assert_eq!(kind.make(&store, &clock, key), Ok(true));
                assert!(kind.try_make(&store, key, Some(at), at).unwrap());
            }
        };
        both(now);
        assert!(store.bytes() > empty);
        assert_eq!(store.len(), 4);
        let over = now.saturating_add(kind.lasts());
        // Callers' instants and the store's clock count apart.
        assert_eq!(store.sweep(), 0);
        assert_eq!(store.sweep_at(now), 0);
        assert_eq!(store.sweep_at(over), 2);
        assert_eq!(store.len(), 2);
        clock.set(over);
        assert_eq!(store.sweep_at(over), 0);
        assert_eq!(store.sweep(), 2);
        assert!(store.is_empty());

        both(over);
        assert_eq!(consume(&store, "a"), Ok(true));
        // A reset forgets what either clock has for the key, and nothing else.
        match kind {
            Kind::Call => {
                let limit = Kind::limit();
                store.reset_now(&[Check::new(&limit, "a", 0)]).unwrap();
            }
            Kind::Lease => places(&store).reset("a").run().unwrap(),
            Kind::Event => plans(&store).reset("a").run().unwrap(),
        }
        assert_eq!(store.len(), 3);
        assert_eq!(consume(&store, "a"), Ok(false));
        assert_eq!(store.clear(), 3);
        assert!(store.is_empty());
        assert_eq!(consume(&store, "a"), Ok(true));
    }
}

/// A replay may go back in time, and then finds what it had before.
#[test]
fn what_counts_at_callers_instants_stays_while_there_is_room() {
    for kind in Kind::ALL {
        let (store, _clock) = store(10_000);
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let make = |key: &str, at| kind.try_make(&store, key, Some(at), at).unwrap();
        for key in 0..500 {
            assert!(make(&format!("early-{key}"), early));
        }
        for key in 0..9_500 {
            assert!(make(&format!("late-{key}"), late));
        }
        assert_eq!(store.len(), 10_000);
        let again = !matches!(kind, Kind::Call);
        assert_eq!(make("early-0", early), again);
    }
}

/// By the store's clock, which is in 2020, what began at the epoch is long over, and by a caller's
/// instant at the end of time, so is what the store's clock began.
#[test]
fn what_counts_by_one_clock_is_not_dropped_by_the_other() {
    for kind in Kind::ALL {
        let (store, clock) = store(1);
        let (past, last) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        assert!(kind.try_make(&store, "caller", Some(past), past).unwrap());
        assert_eq!(kind.make(&store, &clock, "new"), Err(ErrorKind::Full));
        assert_eq!(consume(&store, "new"), Err(ErrorKind::Full));
        assert_eq!(store.clear(), 1);
        assert_eq!(kind.make(&store, &clock, "store"), Ok(true));
        let error = kind.try_make(&store, "new", Some(last), last).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
    }
}
