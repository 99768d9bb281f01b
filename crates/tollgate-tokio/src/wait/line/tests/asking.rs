//! Who asks the store, and when.

use super::*;

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
            let answer = scene.decide(caller.position.cost.of(0));
            scene.answer(&caller, asked, Some(&answer));
        }
    }
    // One remains.
    let (last, beyond) = (scene.enter(1), scene.enter(1));
    scene.asks(&last);
    assert_eq!(scene.waits(&beyond), None);
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
fn calls_ask_when_their_line_has_given_back_or_its_runtime_has_ended() {
    for ends in [Line::gave_back, |line: &mut Line| {
        line.lost_keeper(Instant::now())
    }] {
        let (mut scene, callers) = with_starts();
        for caller in &callers {
            scene.leave(caller);
        }
        scene.now += SECOND;
        let given_back = scene.line.keep(scene.now);
        assert!(matches!(given_back, Kept::GiveBack(starts) if starts.len() == 3));
        let (first, hurried) = (scene.enter(1), scene.try_enter(1, MS).unwrap());
        assert_eq!(scene.waits(&first), None);
        scene.now += MS;
        // Its deadline has come, and it is not the first.
        assert_eq!(scene.waits(&hurried), None);
        assert!(!first.was_woken() && !hurried.was_woken());
        ends(&mut scene.line);
        assert!(first.was_woken() && hurried.was_woken());
        scene.asks(&first);
        scene.asks(&hurried);
    }
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
