//! Tests of lines: who asks when, what an answer changes, and who is refused.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::store::{Operation, State, Verdict, Verdicts};
use tollgate_core::{Key, Limit, Timestamp, Wait};

use super::{Line, Position, Start, TICK, Turn};
use crate::wait::Patience;
use crate::wait::caller::Asker;
use crate::wait::error::{TooLong, WaitError};
use crate::wait::forecast::tests::DECIDED;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
/// What the store's clock says when a scene starts.
const STORE_START: u64 = 1_700_000_000_000_000;

/// A line, the store that its calls ask, and the time. Nothing happens by itself.
struct Scene {
    limits: Vec<Limit>,
    store: Vec<State>,
    line: Line,
    now: Instant,
    started: Instant,
}

/// A call in the line.
struct Caller {
    position: Position,
    wake: Arc<Notify>,
}

impl Caller {
    /// Returns whether it was woken since this was last asked.
    fn was_woken(&self) -> bool {
        self.wake.notified().now_or_never().is_some()
    }
}

fn asker(limits: &[Limit]) -> Asker<'_> {
    let key = Key::from("alice");
    Asker { limits, key }
}

impl Scene {
    fn new(limits: &[&str]) -> Self {
        let limits: Vec<Limit> = limits.iter().map(|text| text.parse().unwrap()).collect();
        let now = Instant::now();
        Self {
            store: vec![State::default(); limits.len()],
            limits,
            line: Line::new(false, now),
            now,
            started: now,
        }
    }

    fn try_enter(&mut self, cost: u64, longest: Duration) -> Result<Caller, TooLong> {
        let wake = Arc::new(Notify::new());
        let patience = Patience {
            since: self.now,
            longest,
            most: usize::MAX,
        };
        let asker = asker(&self.limits);
        let place = (cost, patience);
        match self.line.enter(asker, place, self.now, Arc::clone(&wake)) {
            Ok(position) => Ok(Caller { position, wake }),
            Err(WaitError::TooLong(refused)) => Err(refused),
            Err(error) => panic!("{error}"),
        }
    }

    fn enter(&mut self, cost: u64) -> Caller {
        self.try_enter(cost, Duration::MAX).unwrap()
    }

    /// Returns for how long a call of this cost would have to wait.
    fn wait_of(&mut self, cost: u64) -> Duration {
        match self.try_enter(cost, Duration::ZERO) {
            Ok(caller) => {
                self.leave(&caller);
                Duration::ZERO
            }
            Err(refused) => refused.wait().duration().unwrap(),
        }
    }

    fn is_idle(&self) -> bool {
        self.line.idle_from().is_some_and(|from| from <= self.now)
    }

    fn turn(&mut self, caller: &Caller) -> Turn {
        let asker = asker(&self.limits);
        self.line.turn(asker, &caller.position, self.now)
    }

    #[track_caller]
    fn asks(&mut self, caller: &Caller) {
        let turn = self.turn(caller);
        assert!(matches!(turn, Turn::Ask(_)), "{}", shown(&turn));
    }

    /// Returns how long the call waits from now, at most.
    #[track_caller]
    fn waits(&mut self, caller: &Caller) -> Option<Duration> {
        match self.turn(caller) {
            Turn::Wait(until) => until.map(|until| until.duration_since(self.now)),
            turn => panic!("{} instead of a wait", shown(&turn)),
        }
    }

    #[track_caller]
    fn is_admitted(&mut self, caller: &Caller) -> Start {
        match self.turn(caller) {
            Turn::Admitted(start) => start,
            turn => panic!("{} instead of a start", shown(&turn)),
        }
    }

    #[track_caller]
    fn is_too_long(&mut self, caller: &Caller) -> TooLong {
        match self.turn(caller) {
            Turn::TooLong(refused) => refused,
            turn => panic!("{} instead of a refusal", shown(&turn)),
        }
    }

    /// The store decides on a call of this cost now.
    fn decide(&mut self, cost: u64) -> Verdicts {
        self.decide_by(Operation::Consume, cost)
    }

    fn decide_by(&mut self, operation: Operation<'_>, cost: u64) -> Verdicts {
        let passed = self.now.duration_since(self.started).as_micros();
        let now = Timestamp::from_micros(STORE_START + u64::try_from(passed).unwrap());
        let asker = asker(&self.limits);
        let request = asker.request(operation, cost);
        request.decide_on(&mut self.store[..], now.unwrap())
    }

    /// The answer to a call that was sent at `asked` arrives. Returns what the call may use now.
    fn answer(
        &mut self,
        caller: &Caller,
        asked: Instant,
        answer: Option<&Verdicts>,
    ) -> Option<Start> {
        let answer = answer.map(Verdicts::again);
        self.answer_to(caller, (asked, Operation::Consume), answer)
    }

    fn answer_to(
        &mut self,
        caller: &Caller,
        asked: (Instant, Operation<'_>),
        answer: Option<Verdicts>,
    ) -> Option<Start> {
        let asker = asker(&self.limits);
        let answered = self
            .line
            .answered(asker, &caller.position, asked, answer, self.now);
        answered.unwrap_or_else(|refused| panic!("{refused}"))
    }

    /// The call asks, is decided and answered now. Tells whether it was allowed.
    #[track_caller]
    fn ask(&mut self, caller: &Caller) -> bool {
        self.asks(caller);
        let answer = self.decide(caller.position.cost);
        self.answer(caller, self.now, Some(&answer));
        answer.is_allowed()
    }

    fn leave(&mut self, caller: &Caller) {
        let asker = asker(&self.limits);
        self.line.leave(asker, caller.position.number, self.now);
    }
}

fn shown(turn: &Turn) -> String {
    match turn {
        Turn::Ask(operation) => format!("Ask({operation:?})"),
        Turn::Admitted(_) => "Admitted".to_owned(),
        Turn::Wait(until) => format!("Wait({until:?})"),
        Turn::TooLong(refused) => format!("TooLong({refused})"),
        Turn::Gone => "Gone".to_owned(),
    }
}

#[test]
fn the_first_call_asks_alone_as_long_as_nothing_is_known() {
    let mut scene = Scene::new(&["l=sliding-log:10/1s"]);
    let (first, second) = (scene.enter(1), scene.enter(1));
    assert_eq!(scene.waits(&second), None);
    scene.asks(&first);
    // The second one is now the first that waits, and hears so.
    assert!(second.was_woken() && !first.was_woken());
    assert_eq!(scene.waits(&second), None);
    let answer = scene.decide(1);
    scene.answer(&first, scene.now, Some(&answer));
    assert!(second.was_woken());
    scene.asks(&second);
}

#[test]
fn as_many_calls_are_on_their_way_as_fit_what_remains() {
    let mut scene = Scene::new(&["l=sliding-log:10/1s"]);
    let first = scene.enter(2);
    assert!(scene.ask(&first));
    // Eight remain.
    let (third, fifth, rest) = (scene.enter(3), scene.enter(5), scene.enter(1));
    let asked = scene.now;
    scene.asks(&third);
    scene.asks(&fifth);
    assert_eq!(scene.waits(&rest), None);
    // Of three on their way, one is decided: five remain, and five are on their way.
    let answer = scene.decide(3);
    scene.answer(&third, asked, Some(&answer));
    assert_eq!(scene.waits(&rest), None);
    // Nothing remains, and the next one waits until the first units are free.
    let answer = scene.decide(5);
    scene.answer(&fifth, asked, Some(&answer));
    assert_eq!(scene.waits(&rest), Some(SECOND));
}

#[test]
fn what_was_answered_is_no_longer_on_its_way() {
    let mut scene = Scene::new(&["l=sliding-log:10/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    for _ in 0..2 {
        let (one, other) = (scene.enter(3), scene.enter(1));
        let asked = scene.now;
        scene.asks(&one);
        scene.asks(&other);
        for caller in [one, other] {
            let answer = scene.decide(caller.position.cost);
            scene.answer(&caller, asked, Some(&answer));
        }
    }
    // One remains.
    let (last, beyond) = (scene.enter(1), scene.enter(1));
    scene.asks(&last);
    assert_eq!(scene.waits(&beyond), None);
}

#[test]
fn a_cost_above_the_capacity_is_refused_before_anything_is_known() {
    let mut scene = Scene::new(&["a=sliding-log:3/1s", "b=fixed-window:2/1s"]);
    for cost in [3, u64::MAX] {
        let refused = scene.try_enter(cost, Duration::MAX).err().unwrap();
        assert!(refused.wait().is_never());
        let limit = if cost == 3 { "b" } else { "a" };
        assert_eq!(refused.limit().name(), limit);
    }
    assert!(scene.is_idle());
}

#[test]
fn a_lost_call_is_no_longer_on_its_way() {
    let mut scene = Scene::new(&["l=sliding-log:10/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    // Nine remain, and nine are on their way.
    let (lost, other, next) = (scene.enter(5), scene.enter(4), scene.enter(1));
    let asked = scene.now;
    scene.asks(&lost);
    scene.asks(&other);
    assert_eq!(scene.waits(&next), None);
    scene.answer(&lost, asked, None);
    scene.asks(&next);
}

#[test]
fn at_most_sixty_four_calls_are_on_their_way() {
    let mut scene = Scene::new(&["l=sliding-log:1000/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let callers: Vec<_> = (0..66).map(|_| scene.enter(1)).collect();
    for caller in &callers[..64] {
        scene.asks(caller);
    }
    assert_eq!(scene.waits(&callers[64]), None);
    let answer = scene.decide(1);
    scene.answer(&callers[7], scene.now, Some(&answer));
    scene.asks(&callers[64]);
    assert_eq!(scene.waits(&callers[65]), None);
}

#[test]
fn a_call_asks_once_at_its_deadline_whatever_is_on_its_way() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let first = scene.enter(1);
    scene.asks(&first);
    let second = scene.try_enter(1, 300 * MS).unwrap();
    assert_eq!(scene.waits(&second), Some(300 * MS));
    scene.now += 299 * MS;
    assert_eq!(scene.waits(&second), Some(MS));
    scene.now += MS;
    scene.asks(&second);
}

#[test]
fn a_call_behind_the_first_one_asks_at_its_deadline_if_nothing_is_known() {
    let mut scene = Scene::new(&["a=fixed-window:9/1s", "b=sliding-log:1/1s"]);
    let _ = scene.decide(1);
    let (_, second) = (scene.enter(1), scene.try_enter(1, 300 * MS).unwrap());
    scene.now += 299 * MS + 999 * US;
    assert_eq!(scene.waits(&second), Some(US));
    scene.now += US;
    assert!(!scene.ask(&second));
    let refused = scene.is_too_long(&second);
    assert_eq!(refused.wait().duration(), Some(SECOND));
    assert_eq!(refused.limit().name(), "b");
    scene.now += SECOND;
    let refused = scene.is_too_long(&second);
    assert_eq!(refused.wait().duration(), Some(1300 * MS));
}

#[test]
fn a_refused_call_names_the_limit_and_the_time_that_the_line_waits_for() {
    let mut scene = Scene::new(&["a=sliding-log:9/1s", "b=sliding-log:1/1s"]);
    let _ = scene.decide(1);
    let (first, second) = (
        scene.try_enter(1, 500 * MS).unwrap(),
        scene.try_enter(1, 700 * MS).unwrap(),
    );
    scene.now += 100 * MS;
    assert!(!scene.ask(&first));
    // 900 ms from now, which is later than it may wait, counted from when it entered.
    let refused = scene.is_too_long(&first);
    assert_eq!(refused.wait().duration(), Some(SECOND));
    assert_eq!(refused.limit().name(), "b");
    assert_eq!(scene.waits(&second), Some(600 * MS));
    scene.now += 600 * MS;
    let refused = scene.is_too_long(&second);
    assert_eq!(refused.wait().duration(), Some(SECOND));
}

#[test]
fn a_call_that_is_ready_exactly_at_its_deadline_asks_then() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let _ = scene.decide(1);
    let first = scene.try_enter(1, SECOND).unwrap();
    assert!(!scene.ask(&first));
    assert_eq!(scene.waits(&first), Some(SECOND));
    scene.now += SECOND;
    assert!(scene.ask(&first));
}

/// Returns a line that lets others go first for 8 ms, as a new one does after its fourth wait, and
/// the calls that wait in it: one whose deadline is after 3 ms of these, and one without.
fn letting_others_go_first() -> (Scene, Caller, Caller) {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let callers = [(); 4].map(|()| scene.enter(1));
    let hurried = scene.try_enter(1, 4 * SECOND + 3 * MS).unwrap();
    let patient = scene.enter(1);
    for caller in &callers {
        scene.now = scene.line.ready;
        assert!(scene.ask(caller));
    }
    assert_eq!(scene.line.ready.duration_since(scene.started), 4 * SECOND);
    assert_eq!(scene.line.jitter, 8 * MS);
    (scene, hurried, patient)
}

#[test]
fn a_call_asks_at_its_deadline_even_if_others_have_not_gone_first_yet() {
    let (mut scene, hurried, patient) = letting_others_go_first();
    assert_eq!(scene.waits(&hurried), Some(SECOND + 3 * MS));
    scene.now += SECOND + 2 * MS;
    assert_eq!(scene.waits(&hurried), Some(MS));
    scene.now += MS;
    assert!(scene.ask(&hurried));
    // So they go first before the next call, for as long.
    assert_eq!(scene.waits(&patient), Some(SECOND + 8 * MS));
}

#[test]
fn a_line_that_loses_at_a_deadline_asks_earlier_the_next_time() {
    let (mut scene, hurried, patient) = letting_others_go_first();
    scene.now += SECOND + MS;
    assert!(scene.decide(1).is_allowed(), "others take it");
    scene.now += 2 * MS;
    assert!(!scene.ask(&hurried));
    let _ = scene.is_too_long(&hurried);
    scene.leave(&hurried);
    // It is owed the whole limit, and lets nobody go first but for a part of a step.
    let ready = SECOND - 2 * MS;
    let waits = scene.waits(&patient).unwrap();
    assert!(waits >= ready && waits < ready + MS, "{waits:?}");
}

#[test]
fn a_call_in_line_is_admitted_after_all_before_it() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    assert_eq!(scene.wait_of(1), SECOND);
    let _second = scene.enter(1);
    assert_eq!(scene.wait_of(1), 2 * SECOND);
    let third = scene.enter(1);
    assert_eq!(scene.wait_of(1), 3 * SECOND);
    scene.now += 400 * MS;
    assert_eq!(scene.wait_of(1), 2600 * MS);
    // What is known from an answer of more than a second ago refuses nobody.
    scene.leave(&third);
    scene.now += 600 * MS;
    assert_eq!(scene.wait_of(1), SECOND);
    scene.now += US;
    assert_eq!(scene.wait_of(1), Duration::ZERO);
}

#[test]
fn whoever_leaves_is_no_longer_waited_for() {
    let mut scene = Scene::new(&["l=sliding-log:2/1s"]);
    let first = scene.enter(2);
    assert!(scene.ask(&first));
    let (second, third) = (scene.enter(2), scene.enter(1));
    assert_eq!(scene.wait_of(2), 3 * SECOND);
    scene.leave(&third);
    assert!(second.was_woken());
    assert_eq!(scene.wait_of(2), 2 * SECOND);
    scene.leave(&second);
    assert_eq!(scene.wait_of(2), SECOND);
    assert!(scene.is_idle());
    // Leaving twice changes nothing.
    scene.leave(&second);
}

#[test]
fn who_comes_and_goes_costs_a_long_line_no_more_than_a_short_one() {
    for limit in [
        "l=sliding-log:3/1s",
        "l=sliding-counter:3/1s",
        "l=sliding-buckets:3/1s,buckets=3",
    ] {
        let decided = |length: usize| {
            let mut scene = Scene::new(&[limit]);
            let first = scene.enter(1);
            assert!(scene.ask(&first));
            let callers: Vec<_> = (0..length).map(|_| scene.enter(1)).collect();
            let before = DECIDED.get();
            for caller in callers.iter().step_by(length / 10) {
                scene.leave(caller);
                let _ = scene.enter(1);
                let _ = scene.wait_of(1);
            }
            DECIDED.get() - before
        };
        let short = decided(10);
        assert!(short > 0 && short <= 100, "{limit}: {short}");
        assert_eq!(decided(10_000), short, "{limit}");
    }
}

#[test]
fn a_cheaper_call_behind_one_that_leaves_is_admitted_earlier() {
    for (next, ready) in [(1, 400 * MS), (2, SECOND), (3, SECOND)] {
        let mut scene = Scene::new(&["l=sliding-log:3/1s"]);
        // One unit is free after 1 s, the others 600 ms later.
        let first = scene.enter(1);
        assert!(scene.ask(&first));
        scene.now += 600 * MS;
        let second = scene.enter(2);
        assert!(scene.ask(&second));
        let dear = scene.enter(2);
        let behind = scene.enter(next);
        assert!(!scene.ask(&dear), "asked at once");
        assert_eq!(scene.waits(&dear), Some(SECOND));
        scene.leave(&dear);
        assert!(behind.was_woken());
        assert_eq!(scene.waits(&behind), Some(ready), "{next}");
    }
}

#[test]
fn whoever_leaves_behind_the_first_changes_nothing_for_it() {
    let mut scene = Scene::new(&["l=sliding-log:3/1s"]);
    let first = scene.enter(3);
    let (second, cheap, dear) = (scene.enter(2), scene.enter(1), scene.enter(3));
    assert!(scene.ask(&first));
    scene.now += 100 * MS;
    let before = scene.waits(&second);
    assert_eq!(before, Some(900 * MS));
    scene.leave(&dear);
    assert_eq!(scene.waits(&second), before);
    scene.leave(&cheap);
    assert_eq!(scene.waits(&second), before);
}

#[test]
fn whoever_leaves_does_not_shorten_a_wait_for_what_others_took() {
    for (next, first_leaves) in [(2, false), (2, true), (3, true)] {
        let mut scene = Scene::new(&["l=sliding-log:3/1s"]);
        assert!(scene.decide(3).is_allowed(), "others take everything");
        let first = scene.enter(2);
        let second = scene.enter(next);
        let dear = scene.enter(3);
        assert!(!scene.ask(&first));
        assert_eq!(scene.waits(&first), Some(SECOND));
        let waits = if first_leaves {
            scene.leave(&first);
            scene.waits(&second)
        } else {
            scene.leave(&dear);
            scene.waits(&first)
        };
        assert_eq!(waits, Some(SECOND), "{next}");
    }
}

#[test]
fn what_is_given_back_lets_the_first_call_ask_at_once() {
    let mut scene = Scene::new(&["l=sliding-log:2/1s"]);
    let first = scene.enter(2);
    assert!(scene.ask(&first));
    let (second, third) = (scene.enter(1), scene.enter(1));
    assert!(!scene.ask(&second));
    assert_eq!(scene.waits(&second), Some(SECOND));
    assert_eq!(scene.wait_of(1), SECOND * 2);
    scene.now += 300 * MS;
    assert!(second.was_woken() && third.was_woken());
    scene.line.look_again(scene.now);
    assert!(second.was_woken() && !third.was_woken());
    // What this process knew is void: a call may be admitted at once.
    assert_eq!(scene.wait_of(2), Duration::ZERO);
    scene.asks(&second);
}

#[test]
fn the_next_call_that_costs_as_much_gets_what_an_abandoned_one_has_asked_for() {
    let mut scene = Scene::new(&["l=sliding-log:2/1s"]);
    let (first, dear, second) = (scene.enter(1), scene.enter(2), scene.enter(1));
    let asked = scene.now;
    scene.asks(&first);
    scene.leave(&first);
    // It is still on its way.
    assert_eq!(scene.waits(&second), None);
    let answer = scene.decide(1);
    assert!(answer.is_allowed());
    assert!(scene.answer(&first, asked, Some(&answer)).is_none());
    assert!(second.was_woken());
    let start = scene.is_admitted(&second);
    assert_eq!(start.asked, asked);
    assert!(start.verdicts.into_receipt().is_some());
    assert_eq!(scene.waits(&dear), Some(SECOND));
    assert_eq!(scene.line.calls.len(), 1);
}

/// Returns a line of three calls that have reserved starts, 10 ms apart.
fn with_starts() -> (Scene, [Caller; 3]) {
    let mut scene = Scene::new(&["l=gcra:100/1s,burst=1"]);
    scene.line = Line::new(true, scene.now);
    let operation = Operation::Reserve { max_delay: SECOND };
    let mut reserve = || {
        let caller = scene.enter(1);
        scene.asks(&caller);
        let answer = scene.decide_by(operation, 1);
        let start = scene.answer_to(&caller, (scene.now, operation), Some(answer));
        (caller, start)
    };
    assert!(reserve().1.is_some());
    let callers = [10, 20, 30].map(|wait| {
        let (caller, start) = reserve();
        assert!(start.is_none());
        (caller, Duration::from_millis(wait))
    });
    let callers = callers.map(|(caller, wait)| {
        caller.was_woken();
        assert_eq!(scene.waits(&caller), Some(wait));
        caller
    });
    (scene, callers)
}

#[test]
fn all_calls_behind_one_that_leaves_start_earlier() {
    let (mut scene, [first, second, third]) = with_starts();
    scene.leave(&first);
    assert!(second.was_woken());
    assert_eq!(scene.waits(&second), Some(Duration::from_millis(10)));
    // Whether the second one takes its start or not.
    assert!(third.was_woken());
    assert_eq!(scene.waits(&third), Some(Duration::from_millis(20)));
}

#[test]
fn a_start_that_was_due_too_long_ago_is_handed_to_nobody() {
    for (late, is_handed_on) in [(50, true), (51, false)] {
        let mut scene = Scene::new(&["l=gcra:100/1s,burst=2"]);
        let started = scene.now;
        let mut starts = super::Starts::default();
        for (number, at) in [(0, 10), (1, 100)] {
            starts.assign(number, 1);
            let start = Start {
                at: started + Duration::from_millis(at),
                asked: started,
                verdicts: scene.decide(1),
            };
            starts.add(1, start);
        }
        let left = started + Duration::from_millis(10 + late);
        assert_eq!(starts.leave(0, 1, left), None);
        let due = if is_handed_on { 10 } else { 100 };
        assert_eq!(starts.due(1, 1), Some(started + Duration::from_millis(due)));
        assert!(starts.has_spare(1));
    }
}

#[test]
fn a_call_does_not_ask_before_what_its_line_gives_back() {
    let (mut scene, callers) = with_starts();
    for caller in &callers {
        scene.leave(caller);
    }
    scene.now += SECOND;
    assert!(
        matches!(scene.line.keep(scene.now), super::Kept::GiveBack(starts) if starts.len() == 3)
    );
    let caller = scene.enter(1);
    assert_eq!(scene.waits(&caller), None);
    scene.line.gave_back();
    assert!(caller.was_woken());
    scene.asks(&caller);
}

#[test]
fn a_call_is_refused_by_the_answer_that_it_asked_for_at_its_deadline_however_old() {
    let mut scene = Scene::new(&["l=sliding-log:1/1h"]);
    let _ = scene.decide(1);
    let caller = scene.try_enter(1, Duration::from_millis(100)).unwrap();
    let mut questions = 0;
    while let Turn::Ask(_) = scene.turn(&caller) {
        questions += 1;
        let asked = scene.now;
        let denied = scene.decide(1);
        scene.now += Duration::from_millis(1_200);
        scene.answer(&caller, asked, Some(&denied));
    }
    assert_eq!(questions, 2);
    scene.is_too_long(&caller);
}

#[test]
fn a_call_that_lost_before_asks_when_its_start_may_be_reserved() {
    let mut scene = Scene::new(&["l=gcra:10/1s,burst=1"]);
    scene.line = Line::new(true, scene.now);
    scene.line.jitter = Duration::from_millis(5);
    let (first, second) = (scene.enter(1), scene.enter(1));
    assert!(scene.ask(&first));
    scene.line.jitter = Duration::from_millis(5);
    scene.now += Duration::from_millis(100);
    scene.asks(&second);
}

#[test]
fn a_call_asks_at_its_deadline_if_what_it_was_to_get_has_not_come() {
    let mut scene = Scene::new(&["l=sliding-log:2/1s"]);
    let first = scene.enter(1);
    scene.asks(&first);
    scene.leave(&first);
    let second = scene.try_enter(1, Duration::from_millis(100)).unwrap();
    assert_eq!(scene.waits(&second), Some(Duration::from_millis(100)));
    scene.now += Duration::from_millis(100);
    scene.asks(&second);
}

#[test]
fn a_call_is_not_refused_where_a_start_is_left_over_for_it() {
    let (mut scene, callers) = with_starts();
    for caller in callers.iter().rev() {
        scene.leave(caller);
    }
    let millis = Duration::from_millis;
    // The store would admit a new call after 40 ms.
    for wait in [10, 20, 30] {
        assert!(scene.try_enter(1, millis(wait - 1)).is_err(), "{wait}");
        let caller = scene.try_enter(1, millis(wait)).unwrap();
        assert_eq!(scene.waits(&caller), Some(millis(wait)));
    }
    assert!(scene.try_enter(1, millis(30)).is_err());
}

#[test]
fn whoever_has_gone_does_not_count_among_those_who_wait() {
    let mut scene = Scene::new(&["l=sliding-log:2/1s"]);
    let first = scene.enter(1);
    scene.asks(&first);
    let place = (
        1,
        Patience {
            since: scene.now,
            longest: SECOND,
            most: 1,
        },
    );
    let enter = |scene: &mut Scene| {
        let asker = asker(&scene.limits);
        scene.line.enter(asker, place, scene.now, Arc::default())
    };
    assert!(enter(&mut scene).is_err());
    scene.leave(&first);
    assert!(enter(&mut scene).is_ok());
}

#[test]
fn a_line_reserves_at_least_as_far_ahead_as_the_way_takes() {
    for (way, ahead) in [(0, 10), (60, 60), (2_000, 1_000)] {
        let (mut scene, callers) = with_starts();
        scene.line.way = way * MS;
        for caller in &callers {
            scene.leave(caller);
        }
        scene.now += SECOND;
        let _ = scene.line.keep(scene.now);
        assert_eq!(scene.line.ahead, ahead * MS, "{way}");
    }
}

#[test]
fn a_cheaper_call_behind_one_that_leaves_waits_for_a_limit_of_its_own() {
    let mut scene = Scene::new(&["a=sliding-log:5/2s", "b=fixed-window:3/1s"]);
    let first = scene.enter(3);
    assert!(scene.ask(&first));
    let (dear, cheap) = (scene.enter(3), scene.enter(1));
    assert!(!scene.ask(&dear));
    assert_eq!(scene.line.binding, 0);
    scene.leave(&dear);
    assert_eq!(scene.line.binding, 1);
    assert!(scene.waits(&cheap) <= Some(SECOND));
}

#[test]
fn a_call_whose_start_comes_is_woken_although_another_has_an_earlier_one() {
    let (mut scene, [first, ..]) = with_starts();
    let dropped = scene.enter(1);
    scene.asks(&dropped);
    scene.leave(&dropped);
    let heir = scene.enter(1);
    assert_eq!(scene.waits(&heir), None);
    let operation = Operation::Reserve { max_delay: SECOND };
    let answer = scene.decide_by(operation, 1);
    let start = scene.answer_to(&dropped, (scene.now, operation), Some(answer));
    assert!(start.is_none());
    assert!(heir.was_woken());
    assert_eq!(scene.waits(&heir), Some(Duration::from_millis(40)));
    drop(first);
}

#[test]
fn the_denial_of_an_abandoned_call_holds_for_a_call_that_costs_as_much() {
    for (cost, waits) in [(1, None), (2, Some(SECOND)), (3, Some(SECOND))] {
        let mut scene = Scene::new(&["l=sliding-log:3/1s"]);
        let _ = scene.decide(2);
        let (first, second) = (scene.enter(2), scene.enter(cost));
        let asked = scene.now;
        scene.asks(&first);
        scene.leave(&first);
        let answer = scene.decide(2);
        assert!(answer.is_denied());
        scene.answer(&first, asked, Some(&answer));
        assert_eq!(scene.line.calls.len(), 1);
        match waits {
            Some(wait) => assert_eq!(scene.waits(&second), Some(wait), "{cost}"),
            None => scene.asks(&second),
        }
    }
}

#[test]
fn a_lost_answer_is_no_answer() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let (second, third) = (scene.enter(1), scene.enter(1));
    assert_eq!(scene.wait_of(1), 3 * SECOND);
    scene.now += SECOND;
    let asked = scene.now;
    scene.asks(&second);
    scene.answer(&second, asked, None);
    // It may not be counted, and nobody waits for it.
    assert_eq!(scene.wait_of(1), SECOND);
    assert!(third.was_woken());
    scene.asks(&third);
    // An answer that comes twice changes nothing.
    scene.answer(&second, asked, None);
}

#[test]
fn an_older_answer_does_not_say_what_remains() {
    let mut scene = Scene::new(&["l=fixed-window:5/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let (second, third) = (scene.enter(1), scene.enter(1));
    let asked = scene.now;
    scene.asks(&second);
    scene.asks(&third);
    let older = scene.decide(1);
    scene.now += MS;
    let newer = scene.decide(1);
    scene.answer(&third, asked, Some(&newer));
    assert_eq!(scene.line.remaining, 2);
    scene.answer(&second, asked, Some(&older));
    assert_eq!(scene.line.remaining, 2);
    // Of two that were decided at the same time, the one that leaves less is the later one.
    let (fourth, fifth) = (scene.enter(1), scene.enter(1));
    scene.now += MS;
    let asked = scene.now;
    scene.asks(&fourth);
    scene.asks(&fifth);
    let earlier = scene.decide(1);
    let later = scene.decide(1);
    scene.answer(&fifth, asked, Some(&later));
    assert_eq!(scene.line.remaining, 0);
    scene.answer(&fourth, asked, Some(&earlier));
    assert_eq!(scene.line.remaining, 0);
}

#[test]
fn answers_that_arrive_in_any_order_leave_what_the_latest_decision_left() {
    let mut scene = Scene::new(&["l=fixed-window:5/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let callers = [(); 3].map(|()| scene.enter(1));
    let asked = scene.now;
    let answers = callers.each_ref().map(|caller| {
        scene.asks(caller);
        scene.now += MS;
        scene.decide(1)
    });
    for at in [2, 0, 1] {
        scene.answer(&callers[at], asked, Some(&answers[at]));
        assert_eq!(scene.line.remaining, 1, "{at}");
    }
}

#[test]
fn the_latest_of_several_limits_says_when_it_was_decided() {
    let mut scene = Scene::new(&["a=sliding-log:5/1s", "b=gcra:5/1s"]);
    // The state of one limit is ahead of the store's clock, as after a clock was set back.
    let ahead = Timestamp::from_micros(STORE_START + 250_000).unwrap();
    let asker = asker(&scene.limits[..1]);
    let answer = asker
        .request(Operation::Consume, 1)
        .decide_on(&mut scene.store[..1], ahead);
    assert!(answer.is_allowed());
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    assert_eq!(scene.line.decided, ahead);
}

#[test]
fn a_denied_call_behind_the_first_one_says_nothing_about_it() {
    let mut scene = Scene::new(&["l=fixed-window:4/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let (cheap, dear) = (scene.enter(1), scene.enter(2));
    let asked = scene.now;
    scene.asks(&cheap);
    scene.asks(&dear);
    // Others take two.
    let _ = scene.decide(2);
    let denied = scene.decide(2);
    assert!(denied.is_denied());
    scene.answer(&dear, asked, Some(&denied));
    // Both are denied, and the first one of them decides when to ask.
    let allowed = scene.decide(1);
    assert!(allowed.is_allowed());
    let refused = scene.decide(1);
    scene.now += MS;
    scene.answer(&cheap, asked, Some(&refused));
    let until = scene.waits(&cheap).unwrap();
    assert_eq!(scene.waits(&dear), None);
    assert!(until > SECOND / 2, "{until:?}");
    let ready = scene.line.ready;
    // An answer to the one behind does not change that.
    scene
        .line
        .calls
        .get_mut(&dear.position.number)
        .unwrap()
        .state = super::State::Asking;
    scene.line.asking += 1;
    scene.line.asking_cost += 2;
    scene.now += 10 * MS;
    let denied = scene.decide(2);
    scene.answer(&dear, scene.now, Some(&denied));
    assert_eq!(scene.line.ready, ready);
}

#[test]
fn a_store_that_denies_without_a_wait_is_asked_again_after_a_tick() {
    for (wait, waits) in [(Wait::ZERO, TICK), (Wait::from_micros(1), US)] {
        let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
        let (fingerprint, _) = scene.decide(1).into_one().unwrap();
        let denied = Verdicts::new(fingerprint, [Verdict::deny(1, 0, wait)]);
        let first = scene.enter(1);
        scene.asks(&first);
        scene.answer(&first, scene.now, Some(&denied));
        assert_eq!(scene.waits(&first), Some(waits));
    }
}

#[test]
fn a_call_that_costs_what_remains_asks_at_once_and_one_that_costs_more_does_not() {
    for (cost, waits) in [(3, false), (4, true)] {
        let mut scene = Scene::new(&["l=sliding-log:5/1s"]);
        let (first, next) = (scene.enter(2), scene.enter(cost));
        assert!(scene.ask(&first));
        if waits {
            assert_eq!(scene.waits(&next), Some(SECOND));
        } else {
            scene.asks(&next);
        }
    }
}

#[test]
fn what_others_gave_back_is_taken_at_once() {
    let mut scene = Scene::new(&["l=sliding-log:5/1s"]);
    let (first, cheap, dear) = (scene.enter(3), scene.enter(1), scene.enter(4));
    assert!(scene.ask(&first));
    scene.now += MS;
    scene.store = vec![State::default()];
    // Four remain, although the line has consumed as many.
    assert!(scene.ask(&cheap));
    scene.asks(&dear);
}

#[test]
fn a_call_that_was_admitted_behind_the_first_one_tells_it_what_was_given_back() {
    let mut scene = Scene::new(&["l=sliding-log:6/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let (dear, cheap) = (scene.enter(3), scene.enter(1));
    let asked = scene.now;
    scene.asks(&dear);
    scene.asks(&cheap);
    assert!(scene.decide(4).is_allowed(), "others take four");
    let denied = scene.decide(3);
    scene.answer(&dear, asked, Some(&denied));
    assert!(scene.waits(&dear) >= Some(SECOND));
    // They give them back.
    scene.now += 10 * MS;
    scene.store = vec![State::default()];
    let allowed = scene.decide(1);
    assert!(allowed.is_allowed());
    scene.answer(&cheap, asked, Some(&allowed));
    scene.asks(&dear);
}

#[test]
fn a_line_that_is_denied_at_the_very_instant_that_it_expected_has_lost() {
    let mut scene = Scene::new(&["l=sliding-log:80/1s"]);
    let (first, second) = (scene.enter(80), scene.enter(80));
    assert!(scene.ask(&first));
    assert_eq!(scene.waits(&second), Some(SECOND));
    scene.now += SECOND;
    assert!(scene.decide(80).is_allowed(), "others take everything");
    assert!(!scene.ask(&second));
    // It is owed an eighth, and lets others go first for seven steps of nine.
    let waits = scene.waits(&second).unwrap();
    assert!(waits >= SECOND + 6 * MS, "{waits:?}");
}

/// Plays a line that is denied although it could expect to be admitted, `losses` times.
fn losing(scene: &mut Scene, caller: &Caller, losses: usize) -> ControlFlow<(), Duration> {
    let mut delay = Duration::ZERO;
    for _ in 0..losses {
        scene.now = scene.line.ready + scene.line.jitter;
        // Others took everything.
        let capacity = scene.limits[0].algorithm().capacity();
        let _ = scene.decide(capacity);
        if scene.ask(caller) {
            return ControlFlow::Break(());
        }
        delay = scene.line.jitter;
    }
    ControlFlow::Continue(delay)
}

#[test]
fn a_line_that_loses_asks_earlier_each_time_and_later_after_it_won() {
    let mut scene = Scene::new(&["l=fixed-window:80/72ms"]);
    let first = scene.enter(1);
    // At first it does not know that it could have been admitted.
    let unknown = losing(&mut scene, &first, 1);
    assert_eq!(unknown, ControlFlow::Continue(Duration::ZERO));
    let mut last = Duration::MAX;
    for _ in 0..8 {
        let ControlFlow::Continue(delay) = losing(&mut scene, &first, 1) else {
            panic!("admitted");
        };
        // A step is up to 889 us, and its random part is less than that.
        assert!(delay < last, "{delay:?} after {last:?}");
        last = delay;
    }
    assert!(last < MS, "{last:?}");
    // It takes half of the limit, and lets others go before it again.
    let (half, next) = (scene.enter(40), scene.enter(41));
    scene.now = scene.line.ready + scene.line.jitter;
    assert!(scene.ask(&first));
    assert!(scene.ask(&half));
    let waits = scene.waits(&next).unwrap();
    let ready = scene.line.ready.duration_since(scene.now);
    let delay = scene.line.jitter;
    assert_eq!(waits, ready + delay);
    assert!(delay > 4 * MS && delay < 6 * MS, "{delay:?}");
}
