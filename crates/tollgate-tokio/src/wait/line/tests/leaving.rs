//! What those who leave hand on, and to whom.

use super::*;

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
        let (mut starts, cost) = (Starts::default(), LimitCosts::from(1));
        for (number, at) in [(0, 10), (1, 100)] {
            let ticket = taken(&mut starts, number);
            starts.assign(&ticket, &cost);
            let start = Start {
                at: started + Duration::from_millis(at),
                asked: started,
                verdicts: scene.decide(1),
            };
            starts.add(&cost, start);
        }
        let left = started + Duration::from_millis(10 + late);
        assert_eq!(starts.leave(0, &cost, left), None);
        let due = if is_handed_on { 10 } else { 100 };
        let found = starts.due(1, &cost);
        assert_eq!(found, Some(started + Duration::from_millis(due)));
        assert!(starts.has_spare(&cost));
    }
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
    let patience = Patience {
        since: scene.now,
        longest: SECOND,
        most: 1,
    };
    let enter = |scene: &mut Scene| scene.enter_with(&Class::default(), 1, patience);
    assert!(enter(&mut scene).is_err());
    scene.leave(&first);
    assert!(enter(&mut scene).is_ok());
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
