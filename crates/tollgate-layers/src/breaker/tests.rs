//! What a circuit lets through, after what happened.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::Timestamp;

use super::circuit::{Circuit, End, Next, Sent};

const SLOW: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(200);
const MILLI: Duration = Duration::from_millis(1);
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

    fn open() -> Self {
        let mut scene = Self::new();
        for _ in 0..3 {
            assert!(scene.call(End::Failed));
        }
        assert!(scene.circuit.is_open());
        scene
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// Lets time pass while these calls wait and timers look at them, each of which is `late`.
    fn wait_late<const N: usize>(&mut self, time: Duration, late: Duration, sent: [&mut Sent; N]) {
        let end = self.now.saturating_add(time);
        let mut timers = sent.map(|sent| (Some(self.now), sent));
        while self.now < end {
            for (due, sent) in &mut timers {
                if due.is_some_and(|due| due <= self.now) {
                    let left = self.circuit.still_waits(sent, self.now);
                    *due = left.map(|left| self.now.saturating_add(left + late));
                }
            }
            let next = timers.iter().filter_map(|(due, _)| *due).min();
            self.now = next.unwrap_or(end).min(end);
        }
    }

    fn wait<const N: usize>(&mut self, time: Duration, sent: [&mut Sent; N]) {
        self.wait_late(time, Duration::ZERO, sent);
    }

    fn send(&mut self) -> Option<Sent> {
        self.circuit.send(self.now)
    }

    fn end(&mut self, sent: Sent, end: End) {
        self.circuit.end(sent, end, self.now);
    }

    /// Makes a call that ends at once; returns whether it reached the store.
    fn call(&mut self, end: End) -> bool {
        let sent = self.send();
        if let Some(sent) = sent {
            self.end(sent, end);
        }
        sent.is_some()
    }

    /// Starts a task if one should try the store, and returns its number.
    fn task(&mut self) -> Option<u64> {
        self.circuit.needs_task(self.now)
    }

    /// Lets a task try once, which takes `took`; returns whether it did.
    fn tries(&mut self, task: u64, took: Duration, end: End) -> bool {
        loop {
            match self.circuit.next_try(task, self.now) {
                Next::Wait(time) => self.pass(time),
                Next::Nothing => return false,
                Next::Try(mut sent) => {
                    self.wait(took, [&mut sent]);
                    self.end(sent, end);
                    return true;
                }
            }
        }
    }

    /// Returns whether a task tries the store and finds that it does not answer.
    fn is_found_silent(&mut self) -> bool {
        let task = self.task();
        task.is_some_and(|task| self.tries(task, SLOW + MILLI, End::Failed))
            && self.circuit.is_open()
    }
}

#[test]
fn three_failures_in_a_row_or_half_of_the_last_calls_open_it() {
    use End::{Answered, Dropped, Failed, Unasked};
    for (ends, reached) in [
        (&[Failed][..], 3),
        (&[Failed, Failed, Answered], 11),
        (&[Failed, Answered], 15),
        (&[Failed, Answered, Answered], usize::MAX),
        // Callers who go away and what is refused neither fail nor hide failures.
        (&[Dropped, Unasked], usize::MAX),
        (&[Failed, Dropped, Unasked], 7),
    ] {
        let mut scene = Scene::new();
        let calls = ends.iter().cycle().take(100);
        let found = calls.take_while(|end| scene.call(**end)).count();
        assert_eq!(found, reached.min(100), "{ends:?}");
    }
}

#[test]
fn slow_calls_make_it_try_by_itself() {
    // How long they took, how they ended, and whether there is a reason to try.
    for (took, end, expected) in [
        (SLOW, End::Answered, false),
        (SLOW + MICRO, End::Answered, true),
        (SLOW, End::Dropped, false),
        (SLOW + MICRO, End::Dropped, true),
        (SLOW + MICRO, End::Unasked, false),
    ] {
        let mut scene = Scene::new();
        for _ in 0..8 {
            let sent = scene.send().unwrap();
            // Others are answered.
            assert!(scene.call(End::Answered));
            scene.pass(took);
            scene.end(sent, end);
        }
        assert!(!scene.circuit.is_open());
        assert_eq!(scene.task().is_some(), expected, "{took:?} {end:?}");
    }
}

#[test]
fn a_try_decides_whether_a_suspect_store_is_left_alone() {
    for (took, end, opens) in [
        (MILLI, End::Answered, false),
        (SLOW + MILLI, End::Answered, true),
        (MILLI, End::Failed, true),
    ] {
        let mut scene = Scene::new();
        let mut waits = scene.send().unwrap();
        scene.wait(SLOW + MILLI, [&mut waits]);
        let task = scene.task().unwrap();
        // Nobody waits for it, and no second one begins.
        assert!(scene.call(End::Dropped) && scene.task().is_none());
        assert!(scene.tries(task, took, end));
        assert_eq!(scene.circuit.is_open(), opens, "{took:?} {end:?}");
        assert_eq!(scene.call(End::Answered), !opens);
    }
}

#[test]
fn callers_who_all_go_away_early_do_not_hide_a_silent_store() {
    let mut scene = Scene::new();
    for gone in 0..4 {
        let mut leaves = scene.send().unwrap();
        assert!(scene.task().is_none(), "{gone}");
        scene.wait(SLOW / 4, [&mut leaves]);
        scene.end(leaves, End::Dropped);
    }
    assert!(scene.call(End::Dropped));
    scene.pass(MICRO);
    assert!(scene.is_found_silent());
}

#[test]
fn an_answer_to_anybody_shows_that_the_store_is_there() {
    let mut scene = Scene::new();
    let mut stays = scene.send().unwrap();
    scene.wait(SLOW / 2, [&mut stays]);
    assert!(scene.call(End::Answered));
    scene.wait(SLOW, [&mut stays]);
    assert!(scene.task().is_none());
    // One that went away or was refused shows nothing.
    assert!(scene.call(End::Dropped) && scene.call(End::Unasked));
    scene.wait(MILLI, [&mut stays]);
    assert!(scene.task().is_some());
}

#[test]
fn an_answer_that_was_taken_late_is_no_sign_of_life() {
    let mut scene = Scene::new();
    let early = scene.send().unwrap();
    let mut waits = scene.send().unwrap();
    // The answer comes at once, but its caller is busy.
    scene.wait(SLOW, [&mut waits]);
    scene.end(early, End::Answered);
    scene.wait(MILLI, [&mut waits]);
    assert!(scene.is_found_silent());
}

#[test]
fn an_idle_store_is_not_a_silent_one() {
    let mut scene = Scene::new();
    assert!(scene.call(End::Answered));
    scene.pass(SLOW * 100);
    assert!(scene.task().is_none() && scene.call(End::Answered));
}

/// A program whose timers are late, by as much as a turn of its run queue takes, at each of four turns that
/// an answer needs; and one that stops while one of several calls waits.
#[test]
fn a_late_program_is_not_a_silent_store() {
    for late in [20, 90, 400, 2_000, 25_000] {
        let late = Duration::from_millis(late);
        let turns = if late > RETRY * 50 { 1 } else { 4 };
        let mut scene = Scene::new();
        for _ in 0..20 {
            let (mut sent, mut other) = (scene.send().unwrap(), scene.send().unwrap());
            scene.wait_late(late * turns, late, [&mut sent, &mut other]);
            scene.end(sent, End::Answered);
            scene.end(other, End::Answered);
            assert!(scene.task().is_none(), "{late:?}");
        }
    }
}

#[test]
fn delays_that_only_others_see_count() {
    let mut scene = Scene::new();
    let late = SLOW * 3;
    let (mut waits, mut other) = (scene.send().unwrap(), scene.send().unwrap());
    let _ = scene.circuit.still_waits(&mut other, scene.now);
    scene.wait(SLOW / 2, [&mut waits]);
    scene.pass(late);
    let _ = scene.circuit.still_waits(&mut other, scene.now);
    // Its own timers are in time.
    scene.end(waits, End::Answered);
    let mut next = scene.send().unwrap();
    scene.pass(MICRO);
    let _ = scene.circuit.still_waits(&mut other, scene.now);
    scene.wait(SLOW * 2, [&mut next]);
    assert!(
        scene.task().is_some(),
        "what was before it says nothing about it"
    );
}

#[test]
fn a_store_that_hangs_in_a_late_program_is_found_silent_after_a_few_turns() {
    for late in [30, 200, 400, 1_000] {
        let late = Duration::from_millis(late);
        let mut scene = Scene::new();
        let mut waits = scene.send().unwrap();
        let mut timers = 0;
        while let Some(left) = scene.circuit.still_waits(&mut waits, scene.now) {
            scene.pass(left + late);
            timers += 1;
        }
        assert!(scene.task().is_some() && timers <= 12, "{late:?}: {timers}");
    }
}

#[test]
fn a_busy_store_is_not_a_slow_one() {
    let mut scene = Scene::new();
    let sent: Vec<_> = (0..5_000).map(|_| scene.send().unwrap()).collect();
    // Ten answers a millisecond.
    for tens in sent.chunks(10) {
        scene.pass(MILLI);
        for sent in tens {
            scene.end(*sent, End::Answered);
        }
    }
    assert!(scene.task().is_none());
}

#[test]
fn a_task_tries_until_three_answers_close_it() {
    let mut scene = Scene::open();
    let opened = scene.now;
    let task = scene.task().unwrap();
    for _ in 0..4 {
        assert!(scene.tries(task, MILLI, End::Failed));
        assert!(!scene.call(End::Answered) && scene.task().is_none());
    }
    assert_eq!(scene.now, opened.saturating_add(4 * (RETRY + MILLI)));
    for _ in 0..3 {
        assert!(scene.circuit.is_open());
        assert!(scene.tries(task, MILLI, End::Answered));
    }
    assert_eq!(scene.now, opened.saturating_add(5 * RETRY + 7 * MILLI));
    assert!(!scene.circuit.is_open() && !scene.tries(task, MILLI, End::Answered));
    // What failed before is forgotten.
    assert!(scene.call(End::Failed) && scene.call(End::Failed) && scene.call(End::Failed));
    assert!(scene.circuit.is_open());
}

#[test]
fn a_task_that_ended_with_its_runtime_is_replaced() {
    let mut scene = Scene::open();
    let gone = scene.task().unwrap();
    scene.pass(RETRY + SLOW + Duration::from_secs(1));
    assert!(scene.task().is_none());
    scene.pass(MICRO);
    let next = scene.task().unwrap();
    assert!(!scene.tries(gone, MILLI, End::Answered));
    for _ in 0..3 {
        assert!(scene.tries(next, MILLI, End::Answered));
    }
    assert!(!scene.circuit.is_open());
}

#[test]
fn what_was_sent_before_says_nothing_after() {
    let mut scene = Scene::new();
    let (mut early, late) = (scene.send().unwrap(), scene.send().unwrap());
    for _ in 0..3 {
        assert!(scene.call(End::Failed));
    }
    scene.end(late, End::Answered);
    let task = scene.task().unwrap();
    for _ in 0..3 {
        assert!(scene.tries(task, MILLI, End::Answered));
    }
    assert!(scene.circuit.still_waits(&mut early, scene.now).is_none());
    scene.end(early, End::Failed);
    assert!(scene.call(End::Failed) && scene.call(End::Failed) && !scene.circuit.is_open());
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Send,
    End(usize, End),
    Pass(u64),
    Try(End),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = || {
        prop_oneof![
            Just(End::Answered),
            Just(End::Failed),
            Just(End::Dropped),
            Just(End::Unasked)
        ]
    };
    let step = prop_oneof![
        3 => Just(Step::Send),
        3 => (any::<usize>(), end()).prop_map(|(index, end)| Step::End(index, end)),
        1 => (0..300_u64).prop_map(Step::Pass),
        1 => end().prop_map(Step::Try),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happened: once the store answers at once, everybody reaches it within the time
    /// between two tries.
    #[test]
    fn it_closes_once_the_store_answers(steps in steps()) {
        let mut scene = Scene::new();
        let mut pending = Vec::new();
        let mut task = None;
        for step in steps {
            task = scene.task().or(task);
            match step {
                Step::Send => pending.extend(scene.send()),
                Step::End(index, end) if !pending.is_empty() => {
                    let sent = pending.swap_remove(index % pending.len());
                    scene.end(sent, end);
                }
                Step::End(..) => {}
                Step::Pass(millis) => scene.pass(Duration::from_millis(millis)),
                Step::Try(end) => {
                    let _ = task.map(|task| scene.tries(task, MILLI, end));
                }
            }
        }
        for sent in pending {
            scene.end(sent, End::Answered);
        }
        let ended = scene.now;
        if let Some(task) = scene.task().or(task) {
            while scene.circuit.is_open() && scene.tries(task, MILLI, End::Answered) {}
        }
        prop_assert!(scene.now <= ended.saturating_add(RETRY + 3 * MILLI));
        prop_assert!(!scene.circuit.is_open());
        prop_assert!(scene.send().is_some() && scene.send().is_some());
    }
}
