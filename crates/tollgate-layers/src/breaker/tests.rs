//! What a circuit lets through, after what happened.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Timestamp;

use super::circuit::{Circuit, End, Sent};

const SLOW: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(200);
const MICRO: Duration = Duration::from_micros(1);

/// A circuit, and the time.
struct Scene {
    circuit: Circuit,
    now: Timestamp,
}

impl Scene {
    fn new() -> Self {
        Self {
            circuit: Circuit::new(SLOW, RETRY),
            now: Timestamp::from_micros(1_000_000).unwrap(),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// Lets time pass while these calls wait and a timer looks at them.
    fn wait<const N: usize>(&mut self, time: Duration, mut sent: [&mut Sent; N]) {
        let end = self.now.saturating_add(time);
        loop {
            for sent in &mut sent {
                self.circuit.still_waits(sent, self.now);
            }
            if self.now == end {
                return;
            }
            let interval = sent.iter().map(|sent| self.circuit.interval(sent)).min();
            self.now = self.now.saturating_add(interval.unwrap()).min(end);
        }
    }

    fn send(&mut self) -> Option<Sent> {
        self.circuit.send(self.now)
    }

    /// Makes a call that ends at once; returns whether it reached the store.
    fn call(&mut self, end: End) -> bool {
        let sent = self.send();
        if let Some(sent) = sent {
            self.circuit.end(sent, end, self.now);
        }
        sent.is_some()
    }

    fn open() -> Self {
        let mut scene = Self::new();
        for _ in 0..3 {
            assert!(scene.call(End::Failed));
        }
        assert!(scene.circuit.is_open());
        scene
    }
}

#[test]
fn three_failures_in_a_row_open_it() {
    let mut scene = Scene::new();
    for end in [
        End::Failed,
        End::Failed,
        End::Answered,
        End::Failed,
        End::Failed,
    ] {
        assert!(scene.call(end));
    }
    assert!(!scene.circuit.is_open());
    assert!(scene.call(End::Failed));
    assert!(!scene.call(End::Answered));
}

#[test]
fn a_store_that_answers_every_third_call_opens_it() {
    let mut scene = Scene::new();
    let calls = [End::Failed, End::Failed, End::Answered];
    let calls = calls.into_iter().cycle();
    let reached = calls.take_while(|end| scene.call(*end)).count();
    assert_eq!(reached, 11);
}

#[test]
fn slow_answers_are_failures() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        let sent = scene.send().unwrap();
        scene.pass(SLOW + MICRO);
        scene.circuit.end(sent, End::Answered, scene.now);
    }
    assert!(scene.circuit.is_open());
}

#[test]
fn callers_who_give_up_on_a_slow_store_are_failures() {
    let mut scene = Scene::new();
    for wait in [SLOW, SLOW * 2, SLOW * 2, SLOW * 2] {
        assert!(!scene.circuit.is_open());
        let sent = scene.send().unwrap();
        scene.pass(wait);
        scene.circuit.end(sent, End::Dropped, scene.now);
    }
    assert!(scene.circuit.is_open());
}

#[test]
fn nobody_waits_for_a_store_that_answers_nobody() {
    let mut scene = Scene::new();
    // None of these has ended.
    let mut first = scene.send().unwrap();
    scene.wait(SLOW, [&mut first]);
    let mut second = scene.send().unwrap();
    scene.wait(MICRO, [&mut first, &mut second]);
    assert!(scene.send().is_none());
}

/// However many callers connect, send and go away.
#[test]
fn callers_who_go_away_from_a_slower_store_do_not_make_it_a_silent_one() {
    let mut scene = Scene::new();
    let mut stays = scene.send().unwrap();
    for _ in 0..9 {
        let mut leaves = scene.send().unwrap();
        scene.wait(SLOW / 9, [&mut stays, &mut leaves]);
        scene.circuit.end(leaves, End::Dropped, scene.now);
    }
    scene.circuit.end(stays, End::Answered, scene.now);
    for _ in 0..99 {
        let mut leaves = scene.send().unwrap();
        scene.wait(SLOW / 2, [&mut leaves]);
        let mut next = scene.send().unwrap();
        scene.wait(SLOW / 2, [&mut leaves, &mut next]);
        scene.circuit.end(leaves, End::Dropped, scene.now);
        scene.circuit.end(next, End::Dropped, scene.now);
    }
    assert!(scene.call(End::Answered));
    assert!(!scene.circuit.is_open());
}

/// The last caller who knew that the store is silent goes away, too.
#[test]
fn a_store_is_silent_while_somebody_waits_for_it() {
    let mut scene = Scene::new();
    let (mut first, mut second) = (scene.send().unwrap(), scene.send().unwrap());
    scene.wait(SLOW + MICRO, [&mut first, &mut second]);
    scene.circuit.end(first, End::Dropped, scene.now);
    scene.circuit.end(second, End::Dropped, scene.now);
    let third = scene.send().unwrap();
    scene.circuit.end(third, End::Answered, scene.now);
    assert!(!scene.circuit.is_open());
}

/// The program stalled, or nobody polled the call.
#[test]
fn time_in_which_nobody_looked_is_not_the_fault_of_the_store() {
    let mut scene = Scene::new();
    let mut left = scene.send().unwrap();
    scene.circuit.still_waits(&mut left, scene.now);
    for _ in 0..20 {
        let mut sent = scene.send().unwrap();
        scene.circuit.still_waits(&mut sent, scene.now);
        scene.pass(SLOW * 9);
        scene.circuit.still_waits(&mut sent, scene.now);
        scene.pass(SLOW * 9);
        scene.circuit.end(sent, End::Answered, scene.now);
        assert!(scene.call(End::Answered));
    }
    scene.circuit.end(left, End::Answered, scene.now);
    assert!(!scene.circuit.is_open());
}

#[test]
fn a_stall_counts_no_more_than_two_intervals() {
    let mut scene = Scene::new();
    let mut sent = scene.send().unwrap();
    scene.circuit.still_waits(&mut sent, scene.now);
    for _ in 0..4 {
        scene.pass(SLOW);
        scene.circuit.still_waits(&mut sent, scene.now);
        assert!(scene.call(End::Unasked));
    }
    // A hundred milliseconds were counted, in four stalls.
    scene.pass(MICRO);
    scene.circuit.still_waits(&mut sent, scene.now);
    assert!(scene.send().is_none());
}

#[test]
fn what_never_reached_the_store_is_no_answer_of_it() {
    let mut scene = Scene::new();
    let mut waits = scene.send().unwrap();
    for _ in 0..11 {
        assert!(scene.call(End::Unasked));
        scene.wait(SLOW / 10, [&mut waits]);
    }
    assert!(scene.send().is_none());
}

#[test]
fn a_silent_store_is_left_alone_also_by_those_who_come_later() {
    let mut scene = Scene::new();
    let mut pending = scene.send().unwrap();
    scene.wait(SLOW + MICRO, [&mut pending]);
    assert!(scene.send().is_none());
    assert!(scene.circuit.is_open());
    // What it answers now says nothing.
    scene.circuit.end(pending, End::Answered, scene.now);
    assert!(scene.circuit.is_open());
    scene.pass(RETRY);
    assert!(scene.send().is_some());
}

#[test]
fn an_answer_to_anybody_shows_that_the_store_is_there() {
    let mut scene = Scene::new();
    let mut stays = scene.send().unwrap();
    let answered = scene.send().unwrap();
    scene.wait(SLOW + MICRO, [&mut stays]);
    scene.circuit.end(answered, End::Answered, scene.now);
    scene.wait(SLOW, [&mut stays]);
    assert!(scene.send().is_some());
    // One that went away shows nothing.
    let gone = scene.send().unwrap();
    scene.circuit.end(gone, End::Dropped, scene.now);
    scene.wait(scene.circuit.interval(&stays) + MICRO, [&mut stays]);
    assert!(scene.send().is_none());
}

#[test]
fn an_answer_that_was_taken_late_is_no_sign_of_life() {
    let mut scene = Scene::new();
    let mut early = scene.send().unwrap();
    let mut waits = scene.send().unwrap();
    // The answer comes at once, but its caller is busy.
    scene.wait(Duration::ZERO, [&mut early, &mut waits]);
    scene.wait(SLOW, [&mut waits]);
    scene.circuit.end(early, End::Answered, scene.now);
    scene.wait(MICRO, [&mut waits]);
    assert!(!scene.call(End::Answered));
    assert!(scene.circuit.is_open());
}

#[test]
fn callers_who_go_away_from_a_fast_store_are_no_failures() {
    let mut scene = Scene::new();
    for _ in 0..20 {
        assert!(scene.call(End::Dropped));
    }
    // Nor do they hide failures.
    for end in [
        End::Failed,
        End::Dropped,
        End::Failed,
        End::Dropped,
        End::Failed,
    ] {
        assert!(scene.call(end));
    }
    assert!(scene.circuit.is_open());
}

#[test]
fn failures_from_before_it_was_left_alone_are_forgotten() {
    let mut scene = Scene::open();
    scene.pass(RETRY);
    for _ in 0..3 {
        assert!(scene.call(End::Answered));
    }
    for _ in 0..2 {
        assert!(scene.call(End::Failed));
    }
    assert!(!scene.circuit.is_open());
    assert!(scene.call(End::Failed));
    assert!(scene.circuit.is_open());
}

#[test]
fn a_single_call_may_take_no_longer_for_those_before_it_that_have_ended() {
    let mut scene = Scene::new();
    for _ in 0..5_000 {
        assert!(scene.call(End::Answered));
    }
    for _ in 0..3 {
        let sent = scene.send().unwrap();
        scene.pass(SLOW + MICRO);
        scene.circuit.end(sent, End::Answered, scene.now);
    }
    assert!(scene.circuit.is_open());
}

#[test]
fn an_idle_store_is_not_a_silent_one() {
    let mut scene = Scene::new();
    let sent = scene.send().unwrap();
    scene.circuit.end(sent, End::Dropped, scene.now);
    scene.pass(SLOW * 100);
    assert!(scene.send().is_some());
    assert!(scene.send().is_some());
}

#[test]
fn one_caller_at_a_time_asks_a_store_that_failed() {
    let mut scene = Scene::open();
    scene.pass(RETRY - MICRO);
    assert!(scene.send().is_none());
    scene.pass(MICRO);
    let first = scene.send().unwrap();
    assert!(scene.send().is_none());
    scene.circuit.end(first, End::Answered, scene.now);
    let second = scene.send().unwrap();
    assert!(scene.send().is_none());
    // Who goes away leaves the turn to the next.
    scene.circuit.end(second, End::Dropped, scene.now);
    for _ in 0..2 {
        assert!(scene.circuit.is_open());
        assert!(scene.call(End::Answered));
    }
    assert!(!scene.circuit.is_open());
}

#[test]
fn callers_who_go_away_from_their_turns_leave_some_to_others() {
    let mut scene = Scene::open();
    scene.pass(RETRY);
    let mut waiting = vec![scene.send().unwrap()];
    for doublings in 1..12 {
        assert!(scene.send().is_none());
        scene.pass(SLOW / 20);
        scene
            .circuit
            .end(waiting.pop().unwrap(), End::Dropped, scene.now);
        while let Some(sent) = scene.send() {
            waiting.push(sent);
        }
        assert_eq!(waiting.len(), 1_024.min(1 << doublings));
    }
    // Those who stay show how the store is.
    for sent in waiting.drain(..3) {
        assert!(scene.circuit.is_open());
        scene.circuit.end(sent, End::Answered, scene.now);
    }
    assert!(!scene.circuit.is_open());
}

#[test]
fn a_try_that_is_slow_has_failed_before_it_ends() {
    let mut scene = Scene::open();
    scene.pass(RETRY);
    let mut slow = scene.send().unwrap();
    scene.wait(SLOW + MICRO, [&mut slow]);
    scene.pass(RETRY - MICRO);
    assert!(scene.send().is_none());
    scene.pass(MICRO);
    assert!(scene.send().is_some());
}

#[test]
fn what_was_sent_before_says_nothing_after() {
    let mut scene = Scene::new();
    let early = scene.send().unwrap();
    for _ in 0..3 {
        assert!(scene.call(End::Failed));
    }
    scene.circuit.end(early, End::Answered, scene.now);
    assert!(scene.circuit.is_open());
    assert!(scene.send().is_none());
}

#[test]
fn a_busy_store_is_not_a_slow_one() {
    let mut scene = Scene::new();
    let sent: Vec<_> = (0..5_000).map(|_| scene.send().unwrap()).collect();
    // Ten answers a millisecond.
    for tens in sent.chunks(10) {
        scene.pass(Duration::from_millis(1));
        for sent in tens {
            scene.circuit.end(*sent, End::Answered, scene.now);
        }
    }
    assert!(!scene.circuit.is_open());
}

#[test]
fn what_never_reached_the_store_says_nothing_about_it() {
    let mut scene = Scene::new();
    for end in [End::Failed, End::Failed, End::Unasked, End::Failed] {
        assert!(scene.call(end));
    }
    assert!(scene.circuit.is_open());
    scene.pass(RETRY);
    for _ in 0..5 {
        assert!(scene.call(End::Unasked));
        assert!(scene.circuit.is_open());
    }
    assert!(scene.call(End::Failed));
    assert!(scene.send().is_none());
}

#[test]
fn a_caller_that_does_nothing_does_not_keep_the_others_out() {
    let mut scene = Scene::open();
    scene.pass(RETRY);
    let idle = scene.send().unwrap();
    scene.pass(SLOW + RETRY);
    assert!(scene.send().is_none());
    scene.pass(MICRO);
    let next = scene.send().unwrap();
    scene.circuit.end(idle, End::Failed, scene.now);
    scene.circuit.end(next, End::Answered, scene.now);
    assert!(scene.call(End::Answered) && scene.call(End::Answered));
    assert!(!scene.circuit.is_open());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    End(usize, End),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![
        Just(End::Answered),
        Just(End::Failed),
        Just(End::Dropped),
        Just(End::Unasked)
    ];
    let step = prop_oneof![
        3 => Just(Step::Send),
        3 => (any::<usize>(), end).prop_map(|(index, end)| Step::End(index, end)),
        1 => (0..300_u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happened: once the store answers at once, everybody reaches it within the time
    /// between two tries, and while it was left alone, one call at a time reached it, unless
    /// some callers went away.
    #[test]
    fn it_closes_once_the_store_answers(steps in steps()) {
        let mut scene = Scene::new();
        let mut pending = Vec::new();
        let mut tries: Vec<(Sent, Timestamp)> = Vec::new();
        let mut most = 1;
        for step in steps {
            match step {
                Step::Send => {
                    let was_open = scene.circuit.is_open();
                    if let Some(sent) = scene.send() {
                        if was_open {
                            tries.retain(|(_, at)| {
                                scene.now.saturating_duration_since(*at) < RETRY
                            });
                            tries.push((sent, scene.now));
                            prop_assert!(tries.len() <= most, "{}", tries.len());
                        }
                        pending.push(sent);
                    }
                }
                Step::End(index, end) if !pending.is_empty() => {
                    let sent = pending.swap_remove(index % pending.len());
                    scene.circuit.end(sent, end, scene.now);
                    if let Some(index) = tries.iter().position(|(of, _)| *of == sent) {
                        let _ = tries.swap_remove(index);
                        if end == End::Dropped {
                            most *= 2;
                        }
                    }
                }
                Step::End(..) => {}
                Step::Pass(millis) => scene.pass(Duration::from_millis(millis)),
            }
        }
        for sent in pending {
            scene.circuit.end(sent, End::Answered, scene.now);
        }
        scene.pass(RETRY);
        for _ in 0..3 {
            scene.call(End::Answered);
        }
        prop_assert!(!scene.circuit.is_open());
        prop_assert!(scene.send().is_some() && scene.send().is_some());
    }
}
