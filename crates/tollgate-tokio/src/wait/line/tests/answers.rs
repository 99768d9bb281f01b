//! What a line learns from answers, in any order.

use super::*;

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
    let callers = [(); 4].map(|()| scene.enter(1));
    let asked = scene.now;
    let mut ways = [MS, MS, MS, Duration::ZERO].into_iter();
    let answers = callers.each_ref().map(|caller| {
        scene.asks(caller);
        scene.now += ways.next().unwrap();
        scene.decide(1)
    });
    // Of two that were decided at the same time, the one that leaves less is the later one.
    for at in [3, 2, 0, 1] {
        scene.answer(&callers[at], asked, Some(&answers[at]));
        assert_eq!(scene.line.remaining, [0], "{at}");
    }
}

#[test]
fn the_latest_of_several_limits_says_when_it_was_decided() {
    let mut scene = Scene::new(&["a=sliding-log:5/1s", "b=gcra:5/1s"]);
    // The state of one limit is ahead of the store's clock, as after a clock was set back.
    let ahead = Timestamp::from_micros(STORE_START + 250_000).unwrap();
    let asker = asker(&scene.limits[..1]);
    let answer = asker.request(Operation::Consume, &1.into(), alice);
    let answer = answer.decide_on(&mut scene.store[..1], ahead);
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
        .state = super::super::State::Asking;
    scene.line.asking += 1;
    scene.line.asking_cost += &2.into();
    scene.now += 10 * MS;
    let denied = scene.decide(2);
    scene.answer(&dear, scene.now, Some(&denied));
    assert_eq!(scene.line.ready, ready);
}

#[test]
fn starts_are_used_in_the_order_of_their_times() {
    let mut scene = Scene::new(&["l=gcra:100/1s"]);
    let mut starts = Starts::default();
    let cost = LimitCosts::from(1);
    for number in [0, 1] {
        let ticket = taken(&mut starts, number);
        starts.assign(&ticket, &cost);
    }
    for wait in [20, 10] {
        let start = Start {
            at: scene.now + wait * MS,
            asked: scene.now,
            verdicts: scene.decide(1),
        };
        starts.add(&cost, start);
    }
    let due = [0, 1].map(|number| starts.due(number, &cost));
    assert_eq!(due, [10, 20].map(|wait| Some(scene.now + wait * MS)));
}
