//! Tests of forecasts: what this process knows, and what it does not know better than the store.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::algorithm::State;
use tollgate_core::{Fingerprint, Key, Limit, Operation, Timestamp, Verdict, Verdicts, Wait};

use super::Forecast;
use crate::wait::caller::Asker;

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
        let request = asker(&self.limits).request(Operation::Consume, cost);
        request.decide_on(&mut self.store[..], now.saturating_add(at))
    }

    /// The process learns of this verdict on a call that it made at `at`.
    fn learn(&mut self, at: Duration, cost: u64, answer: &Verdicts) {
        let decided = answer.as_slice()[0].decided_at();
        let asked = self.started + at;
        self.forecast
            .learn(asker(&self.limits), (asked, decided), cost, answer);
    }

    /// Learns of the verdict of a store of its own.
    fn learn_of(&mut self, cost: u64, verdict: Verdict) {
        let request = asker(&self.limits).request(Operation::Consume, cost);
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
        let ready = self.forecast.ready(asker(&self.limits), cost);
        ready.map(|ready| ready.duration_since(self.started))
    }

    /// Returns how long a call of this cost waits at `at`, behind others of these costs. The first
    /// of them is admitted at `ready`, at the earliest.
    fn wait(&mut self, at: Duration, ready: Duration, ahead: &[u64], cost: u64) -> Duration {
        let times = (self.started + at, self.started + ready);
        let ahead = ahead.iter().copied();
        let foreseen = self
            .forecast
            .foresee(asker(&self.limits), times, ahead, cost);
        foreseen.0.duration().unwrap()
    }

    fn join(&mut self, cost: u64) {
        self.forecast.join(asker(&self.limits), cost);
    }
}

fn asker(limits: &[Limit]) -> Asker<'_> {
    Asker {
        limits,
        key: Key::from("alice"),
    }
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
        let times = (scene.started, scene.started);
        let foreseen = scene
            .forecast
            .foresee(asker(&scene.limits), times, [1].into_iter(), 1);
        assert_eq!(foreseen, (Wait::ZERO, 0));
    }
}

#[test]
fn a_denial_changes_what_was_foreseen() {
    let mut scene = Scene::new("l=sliding-log:2/1s");
    assert!(scene.call(NOW, 1));
    assert_eq!(scene.wait(NOW, NOW, &[], 1), NOW);
    scene.join(1);
    assert_eq!(scene.wait(NOW, NOW, &[1], 1), SECOND);
    // Others take one before the call that has joined.
    assert!(scene.decide(SECOND / 2, 1).is_allowed());
    let denied = scene.decide(SECOND / 2, 2);
    assert!(denied.is_denied());
    scene.learn(SECOND / 2, 2, &denied);
    let retry = denied.retry_after().duration().unwrap();
    assert_eq!(retry, SECOND);
    // That one takes everything in one and a half seconds, and the next one follows.
    let ready = SECOND / 2 + retry;
    assert_eq!(scene.wait(SECOND / 2, ready, &[2], 1), 2 * SECOND);
}

#[test]
fn an_answer_that_was_foreseen_changes_nothing() {
    for limit in [
        "l=sliding-log:3/1s",
        "l=sliding-counter:3/1s",
        "l=gcra:3/1s",
        "l=fixed-window:3/1s",
    ] {
        let mut scene = Scene::new(limit);
        assert!(scene.call(NOW, 1));
        let foreseen = scene.wait(NOW, NOW, &[1], 3);
        assert!(foreseen > NOW, "{limit}");
        assert!(scene.call(NOW, 1));
        // So the calls ahead are not reckoned with again.
        assert_eq!(scene.wait(NOW, NOW, &[1, 1, 1], 3), foreseen, "{limit}");
        scene.forecast.replan();
        assert!(scene.wait(NOW, NOW, &[1, 1, 1], 3) > foreseen, "{limit}");
    }
}

#[test]
fn each_answer_tells_when_an_anchored_window_ends() {
    let mut scene = Scene::new("l=fixed-window:3/10s,anchored");
    // The process believes that its call begins a window, and that two more fit.
    assert!(scene.call(NOW, 1));
    assert_eq!(scene.ready(2), Some(NOW));
    assert_eq!(scene.wait(9 * SECOND, NOW, &[2], 1), SECOND);
    // The window ends, and others begin the next one before it calls.
    assert!(scene.decide(14 * SECOND, 1).is_allowed());
    assert_eq!(scene.wait(16 * SECOND, NOW, &[2], 1), NOW);
    assert!(scene.call(16 * SECOND, 1));
    // One fits until 24 s.
    assert_eq!(scene.ready(1), Some(16 * SECOND));
    assert_eq!(scene.ready(2), Some(24 * SECOND));
    let wait = scene.wait(17 * SECOND, 17 * SECOND, &[2, 1], 1);
    assert_eq!(wait, 17 * SECOND);
}

#[test]
fn whoever_joins_late_is_admitted_then() {
    let mut scene = Scene::new("l=sliding-log:1/1s");
    assert!(scene.call(NOW, 1));
    assert_eq!(scene.wait(NOW, NOW, &[], 1), SECOND);
    // The others could have been admitted long ago.
    for _ in 0..3 {
        scene.join(1);
    }
    let late = 10 * SECOND;
    assert_eq!(scene.wait(late, NOW, &[1; 3], 1), NOW);
    scene.join(1);
    assert_eq!(scene.wait(late, NOW, &[1; 4], 1), SECOND);
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
