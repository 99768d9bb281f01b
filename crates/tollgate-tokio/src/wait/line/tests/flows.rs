//! Calls of several flows and urgencies in one line.

use super::*;

fn class(urgency: u8, flow: Option<&str>) -> Class {
    let mut class = Class::default();
    class.set_urgency(urgency);
    if let Some(flow) = flow {
        class.set_flow(Key::from(flow));
    }
    class
}

impl Scene {
    fn enter_as(&mut self, class: &Class, cost: u64) -> Caller {
        self.try_enter_as(class, cost, Duration::MAX).unwrap()
    }
}

#[test]
fn urgent_call_does_not_wait_for_as_long_as_the_costly_one_before_it() {
    let mut scene = Scene::new(&["l=sliding-log:10/1s"]);
    let first = scene.enter(2);
    assert!(scene.ask(&first));
    scene.now += 500 * MS;
    let second = scene.enter(8);
    assert!(scene.ask(&second));
    let costly = scene.enter(10);
    assert!(!scene.ask(&costly));
    assert_eq!(scene.waits(&costly), Some(SECOND));
    let (most_urgent, soon) = (class(0, None), 500 * MS);
    assert!(scene.try_enter_as(&most_urgent, 1, soon - US).is_err());
    let urgent = scene.try_enter_as(&most_urgent, 1, soon).unwrap();
    assert_eq!(scene.waits(&costly), None);
    assert_eq!(scene.waits(&urgent), Some(500 * MS));
    scene.now += 500 * MS;
    assert!(scene.ask(&urgent));
    assert!(costly.was_woken());
    assert_eq!(scene.waits(&costly), Some(SECOND));
}

#[test]
fn call_is_refused_at_once_for_the_wait_of_its_own_flow_only() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let first = scene.enter(1);
    assert!(scene.ask(&first));
    let _others = [(); 5].map(|()| scene.enter(1));
    let flow = class(3, Some("a"));
    for (wait, is_refused) in [(999, true), (1_000, false), (1_999, true), (2_000, false)] {
        let entered = scene.try_enter_as(&flow, 1, wait * MS);
        assert_eq!(entered.is_err(), is_refused, "{wait}");
    }
    assert!(scene.try_enter(1, 5 * SECOND).is_err());
}

/// What one level is owed is no longer enough for its next call once another level shares it.
#[test]
fn call_that_becomes_the_first_again_is_woken() {
    let mut scene = Scene::new(&["l=sliding-log:1/1s"]);
    let urgent = [(); 9].map(|()| scene.enter_as(&class(0, None), 1));
    let less = scene.enter_as(&class(4, None), 1);
    for caller in &urgent[..7] {
        assert!(scene.ask(caller));
        scene.now += SECOND + 10 * MS;
    }
    assert_eq!(scene.waits(&urgent[7]), None);
    let _ = urgent[7].was_woken();
    let _least = scene.enter_as(&class(7, None), 1);
    assert!(urgent[7].was_woken());
    scene.asks(&urgent[7]);
    assert_eq!(scene.waits(&less), None);
}

#[test]
fn start_belongs_to_the_flow_that_reserved_it() {
    let mut scene = Scene::new(&["l=gcra:100/1s,burst=1"]);
    scene.line = Line::new(true, scene.now);
    let operation = Operation::Reserve { max_delay: SECOND };
    let flows = [Some("a"), Some("a"), Some("a"), Some("b")];
    let callers = flows.map(|flow| scene.enter_as(&class(3, flow), 1));
    for at in [0, 3, 1, 2] {
        scene.asks(&callers[at]);
        let answer = scene.decide_by(operation, 1);
        scene.answer_to(&callers[at], (scene.now, operation), Some(answer));
    }
    for (at, wait) in [(3, 10), (1, 20), (2, 30)] {
        assert_eq!(scene.waits(&callers[at]), Some(wait * MS));
    }
}

#[test]
fn call_counts_as_the_largest_part_of_a_limit_that_it_takes() {
    let scene = Scene::new(&[
        "a=sliding-log:10/1s",
        "b=sliding-log:1000/1s",
        "c=gcra:1/1s,shadow",
    ]);
    let units =
        |costs: [u64; 3]| asker(&scene.limits).units(&LimitCosts::of_each(costs.into_iter()));
    assert_eq!(units([5, 5, 9]), 1 << 56);
    assert_eq!(units([1, 500, 0]), 1 << 56);
    assert!(units([1, 1, 1]) < units([1, 101, 1]));
}
