//! Tests of forecasts: what this process knows, and what it does not know better than the store.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{Fingerprint, Operation, Source, State, Verdict, Verdicts};
use tollgate_core::{Key, Limit, Timestamp, Wait};

use super::Forecast;
use crate::wait::caller::Asker;

thread_local! {
    /// How often a state machine was asked on this thread.
    pub(in crate::wait) static DECIDED: Cell<usize> = const { Cell::new(0) };
}

const NOW: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// What the store's clock says at first.
const STORE_START: u64 = 1_700_000_000_000_000;

/// A limit, the store that decides, and what the process knows of it. Times are counted from when
/// this was made.
struct Scene {
    limits: [Limit; 1],
    store: Vec<State>,
    started: Instant,
    forecast: Forecast,
}

impl Scene {
    fn new(limit: &str) -> Self {
        Self {
            limits: [limit.parse().unwrap()],
            store: vec![State::default()],
            started: Instant::now(),
            forecast: Forecast::default(),
        }
    }

    /// The store decides on a call of this cost, of any process.
    fn decide(&mut self, at: Duration, cost: u64) -> Verdicts {
        let now = Timestamp::from_micros(STORE_START).unwrap();
        let request = asker(&self.limits).request(Operation::Consume, &cost.into(), alice);
        request.decide_on(&mut self.store[..], now.saturating_add(at))
    }

    /// The process learns of this verdict on a call that it made at `at`.
    fn learn(&mut self, at: Duration, cost: u64, answer: &Verdicts) {
        let decided = answer.as_slice()[0].decided_at();
        let asked = self.started + at;
        let cost = cost.into();
        let consumed = answer.is_allowed().then_some(&cost);
        self.forecast
            .learn(asker(&self.limits), asked, decided, consumed, answer);
    }

    /// Learns of the verdict of a store of its own.
    fn learn_of(&mut self, cost: u64, verdict: Verdict) {
        let request = asker(&self.limits).request(Operation::Consume, &cost.into(), alice);
        let answer = Verdicts::new(Fingerprint::of(&request), [verdict]);
        self.learn(NOW, cost, &answer);
    }

    /// The process makes a call. Tells whether it was allowed.
    fn call(&mut self, at: Duration, cost: u64) -> bool {
        let answer = self.decide(at, cost);
        self.learn(at, cost, &answer);
        answer.is_allowed()
    }

    /// Returns when a call of this cost is ready.
    fn ready(&mut self, cost: u64) -> Option<Duration> {
        let ready = self.forecast.ready(asker(&self.limits), &cost.into());
        ready.map(|(ready, _)| ready.duration_since(self.started))
    }

    /// Returns how long a call of this cost waits from `at` on, behind others of these costs.
    fn wait(&mut self, at: Duration, ahead: &[u64], cost: u64) -> Option<Duration> {
        let total: u64 = ahead.iter().sum();
        let (from, total) = (self.started + at, u128::from(total + cost));
        let wait = self
            .forecast
            .least_wait(asker(&self.limits), from, |_| total);
        wait.map(|(wait, _)| wait)
    }
}

fn asker(limits: &[Limit]) -> Asker<'_> {
    Asker { limits }
}

pub(in crate::wait) fn alice<'a>(_: usize) -> Key<'a> {
    Key::from("alice")
}

#[test]
fn nothing_is_foreseen_from_a_store_that_does_not_say_when_it_decided() {
    let mut scene = Scene::new("l=sliding-log:1/1s");
    for verdict in [
        Verdict::allow(1, 0).with_consumed(1, Timestamp::UNIX_EPOCH),
        Verdict::deny(1, 0, Wait::from_micros(1)),
    ] {
        scene.learn_of(1, verdict);
        assert_eq!(scene.ready(1), None);
        assert_eq!(scene.wait(NOW, &[], 1), None);
        assert!(!scene.forecast.is_known());
    }
}

/// What a limit admits at the earliest, of calls of cost one that follow each other, is what the
/// store admits.
#[test]
fn any_number_of_calls_is_foreseen_as_the_store_admits_it() {
    for limit in [
        "l=gcra:7/1s",
        "l=gcra:7/1s,burst=1",
        "l=gcra:7/1s,burst=20",
        "l=sliding-log:7/1s",
        "l=sliding-log:1/1s",
        "l=fixed-window:7/1s",
        "l=fixed-window:7/1s,anchored",
        "l=sliding-buckets:7/1s,buckets=1",
        "l=sliding-counter:7/1s",
        "l=fixed-window:7/day@Europe/Berlin",
    ] {
        for first in 1..=3 {
            let mut scene = Scene::new(limit);
            if first > scene.limits[0].algorithm().capacity() {
                continue;
            }
            let at = Duration::from_millis(130);
            assert!(scene.call(at, first));
            let mut now = at;
            for total in 1..40 {
                let foreseen = at + scene.wait(at, &[], total).unwrap();
                loop {
                    let verdicts = scene.decide(now, 1);
                    if verdicts.is_allowed() {
                        break;
                    }
                    now += verdicts.retry_after().duration().unwrap();
                }
                let is_exact = !limit.starts_with("l=sliding-counter");
                let late = now.checked_sub(foreseen);
                let late = late.unwrap_or_else(|| panic!("{limit}: {total} of {first}: {now:?}"));
                // Each of the store's waits is rounded up.
                let most = Duration::from_micros(if is_exact { total } else { 2_000_000 });
                assert!(
                    late <= most,
                    "{limit}: {total} after {first}: {foreseen:?}, not {now:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_foreseen_counts_from_the_instant_that_it_is_asked_for() {
    for limit in [
        "l=gcra:1/1s",
        "l=sliding-log:1/1s",
        "l=fixed-window:1/1s,anchored",
    ] {
        let mut scene = Scene::new(limit);
        assert!(scene.call(NOW, 1));
        let found = scene.wait(SECOND / 4, &[1], 1);
        assert_eq!(found, Some(7 * SECOND / 4), "{limit}");
        // The first of them could have been admitted long ago, and is now at the earliest.
        let found = scene.wait(10 * SECOND, &[1, 1], 1);
        assert_eq!(found, Some(2 * SECOND), "{limit}");
    }
}

#[test]
fn the_longest_wait_is_of_the_first_limit_that_waits_so_long() {
    for (limits, wait, binding) in [
        (["a=sliding-log:1/1s", "b=sliding-log:1/2s"], 2 * SECOND, 1),
        (["a=sliding-log:1/2s", "b=sliding-log:1/1s"], 2 * SECOND, 0),
        (["a=sliding-log:1/2s", "b=gcra:1/2s"], 2 * SECOND, 0),
    ] {
        let limits = limits.map(|limit| limit.parse::<Limit>().unwrap());
        let asker = asker(&limits);
        let mut store = vec![State::default(); 2];
        let now = Timestamp::from_micros(STORE_START).unwrap();
        let request = asker.request(Operation::Consume, &1.into(), alice);
        let answer = request.decide_on(&mut store[..], now);
        let (started, mut forecast) = (Instant::now(), Forecast::default());
        forecast.learn(asker, started, now, Some(&1.into()), &answer);
        let found = forecast.least_wait(asker, started, |_| 1);
        assert_eq!(found, Some((wait, binding)));
        let found = forecast.ready(asker, &1.into());
        assert_eq!(found, Some((started + wait, binding)));
    }
}

#[test]
fn what_others_gave_back_is_no_longer_waited_for() {
    for limit in [
        "l=sliding-log:2/1h",
        "l=sliding-counter:2/1h",
        "l=fixed-window:2/1h",
        "l=sliding-buckets:2/1h,buckets=4",
        "l=gcra:2/1h",
    ] {
        let mut scene = Scene::new(limit);
        assert!(scene.call(NOW, 2));
        assert!(scene.wait(SECOND, &[], 1).unwrap() > SECOND, "{limit}");
        // Somebody resets the key, and takes one.
        scene.store = vec![State::default()];
        assert!(scene.decide(SECOND, 1).is_allowed());
        let peek = asker(&scene.limits).request(Operation::Peek, &1.into(), alice);
        let now = Timestamp::from_micros(STORE_START + 2_000_000).unwrap();
        let left = peek.decide_on(&mut scene.store[..], now);
        assert!(left.is_allowed());
        let asked = scene.started + 2 * SECOND;
        scene
            .forecast
            .learn(asker(&scene.limits), asked, now, None, &left);
        assert_eq!(scene.wait(2 * SECOND, &[], 1), Some(NOW), "{limit}");
    }
}

/// Others took something: that is not mistaken for something given back.
#[test]
fn an_answer_that_leaves_less_changes_nothing_that_was_counted() {
    let mut scene = Scene::new("l=sliding-log:4/1s");
    assert!(scene.call(NOW, 1));
    assert!(scene.decide(NOW, 2).is_allowed());
    assert!(scene.call(SECOND / 2, 1));
    // Of those two calls, the first leaves the window after a second.
    assert_eq!(scene.wait(SECOND / 2, &[], 4), Some(SECOND));
    assert_eq!(scene.wait(SECOND / 2, &[], 3), Some(SECOND / 2));
}

#[test]
fn an_older_answer_says_nothing_about_now() {
    let mut scene = Scene::new("l=gcra:2/2s");
    let older = scene.decide(NOW, 1);
    let newer = scene.decide(SECOND / 2, 1);
    scene.learn(SECOND / 2, 1, &newer);
    scene.learn(NOW, 1, &older);
    assert_eq!(scene.wait(SECOND / 2, &[], 1), Some(SECOND / 2));
    // Of two of the same time, the one that leaves less is the later one.
    let mut scene = Scene::new("l=gcra:2/2s");
    let (earlier, later) = (scene.decide(NOW, 1), scene.decide(NOW, 1));
    scene.learn(NOW, 1, &later);
    scene.learn(NOW, 1, &earlier);
    assert_eq!(scene.wait(NOW, &[], 1), Some(SECOND));
}

/// What a process has in hand is less than what is left, by any amount.
#[test]
fn units_in_hand_tell_nothing_of_what_is_left() {
    for limit in [
        "l=gcra:7/1s",
        "l=sliding-log:7/1s",
        "l=fixed-window:7/1s",
        "l=fixed-window:7/1s,anchored",
        "l=sliding-buckets:7/1s,buckets=1",
        "l=sliding-counter:7/1s",
    ] {
        let mut scene = Scene::new(limit);
        let in_hand = |at: Duration| {
            let decided = Timestamp::from_micros(STORE_START).unwrap();
            let decided = decided.saturating_add(at);
            let verdict = Verdict::allow(7, 0).with_reset_after(Wait::from_micros(1_000_000));
            let verdict = verdict.with_consumed(1, decided);
            let answer = Verdicts::new(Fingerprint::new(0), [verdict]);
            answer.with_source(Source::Prefetched)
        };
        scene.learn(NOW, 1, &in_hand(NOW));
        assert_eq!(scene.wait(NOW, &[], 7), None, "{limit}");
        assert!(scene.call(NOW, 1));
        for at in [NOW, Duration::from_millis(1)] {
            scene.learn(at, 1, &in_hand(at));
            assert_eq!(scene.wait(at, &[], 4), Some(NOW), "{limit}");
        }
    }
}

#[test]
fn each_answer_tells_when_an_anchored_window_ends() {
    let mut scene = Scene::new("l=fixed-window:3/10s,anchored");
    // The process believes that its call begins a window, and that two more fit.
    assert!(scene.call(NOW, 1));
    assert_eq!(scene.ready(2), Some(NOW));
    assert_eq!(scene.wait(9 * SECOND, &[2], 1), Some(SECOND));
    // The window ends, and others begin the next one before it calls.
    assert!(scene.decide(14 * SECOND, 1).is_allowed());
    assert_eq!(scene.wait(16 * SECOND, &[2], 1), Some(NOW));
    assert!(scene.call(16 * SECOND, 1));
    // One fits until 24 s.
    assert_eq!(scene.ready(1), Some(16 * SECOND));
    assert_eq!(scene.ready(2), Some(24 * SECOND));
    assert_eq!(scene.wait(17 * SECOND, &[2, 1], 1), Some(7 * SECOND));
    assert_eq!(scene.wait(17 * SECOND, &[2, 2], 1), Some(17 * SECOND));
}

/// Stores may be wrong, and clocks may be set to anything.
#[test]
fn what_an_anchored_window_cannot_be_is_taken_for_the_nearest() {
    let start = Timestamp::from_micros(STORE_START).unwrap();
    let early = Timestamp::from_micros(5_000_000).unwrap();
    for (remaining, decided, reset_after, ready) in [
        // Two of three are used until the window ends.
        (1, start, 4_000_000, 4 * SECOND..=4 * SECOND),
        // More remains than fits: nothing is used.
        (4, start, 4_000_000, NOW..=NOW),
        // It began before the clock did: it is taken to begin with the clock.
        (0, early, 2_000_000, 5 * SECOND..=5 * SECOND),
        // It ends later than the clock can tell.
        (0, start, u64::MAX - 1, CENTURY..=Duration::MAX),
    ] {
        let mut scene = Scene::new("l=fixed-window:3/10s,anchored,count-denied");
        let verdict = Verdict::allow(3, remaining)
            .with_consumed(1, decided)
            .with_reset_after(Wait::from_micros(reset_after));
        scene.learn_of(1, verdict);
        let found = scene.ready(3).unwrap();
        assert!(ready.contains(&found), "{verdict:?}: {found:?}");
    }
}
