//! What a call does at its deadline, and a line that loses to others.

use super::*;

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

/// It was reserved in time: the way of the answer alone makes it due after the deadline here.
#[test]
fn start_that_was_reserved_in_time_is_used_although_its_answer_took_long() {
    let mut scene = Scene::new(&["l=gcra:100/1s,burst=1"]);
    scene.line = Line::new(true, scene.now);
    assert!(scene.decide(1).is_allowed(), "others take what is left");
    let caller = scene.try_enter(1, 10 * MS).unwrap();
    scene.asks(&caller);
    let asked = scene.now;
    let operation = Operation::Reserve { max_delay: 10 * MS };
    let answer = scene.decide_by(operation, 1);
    assert!(answer.is_allowed());
    scene.now += 5 * MS;
    let start = scene.answer_to(&caller, (asked, operation), Some(answer));
    assert!(start.is_none());
    for left in [10 * MS, 5 * MS] {
        assert_eq!(scene.waits(&caller), Some(left));
        scene.now += 5 * MS;
    }
    scene.is_admitted(&caller);
}

#[test]
fn time_that_was_waited_before_entering_counts() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    scene.now += 200 * MS;
    for (longest, is_refused) in [(SECOND - MS, true), (SECOND, false)] {
        let patience = Patience {
            since: scene.started,
            longest,
            most: usize::MAX,
        };
        let entered = scene.enter_with(&Class::default(), 1, patience);
        assert_eq!(entered.is_err(), is_refused, "{longest:?}");
    }
}
