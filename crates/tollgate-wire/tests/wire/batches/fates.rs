//! Each call of a batch keeps its own fate: its deadline, its caller, its error.

use std::slice;
use std::time::Duration;

use tollgate_core::store::{Check, Request, Verdicts};
use tollgate_core::{CallId, ErrorKind, StoreError, Timestamp};
use tollgate_wire::Options;

use super::gate::{Scene, answer, are_allowed, fresh_state, refusal};
use super::tasks::{Deciding, drop_tasks, pass, poll, run_tasks, switch_to, tasks, time, watch};
use crate::engine::{limit, shown};

fn scene() -> Scene {
    scene_of("gcra:100/1s", 1)
}

fn scene_of(limit: &str, cost: u64) -> Scene {
    Scene::of(limit, cost, Options::new().with_batches_only())
}

/// Returns what the call ended with.
fn ended(call: &mut Deciding<'_>) -> Result<Verdicts, StoreError> {
    poll(call).expect("it has ended")
}

/// Returns what is left after each call.
fn left_of(calls: &mut [Deciding<'_>]) -> Vec<u64> {
    let left = calls.iter_mut();
    let left = left.map(|call| ended(call).unwrap().remaining());
    left.collect()
}

#[track_caller]
fn fails(call: &mut Deciding<'_>, kind: ErrorKind) -> String {
    let error = ended(call).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    shown(&error)
}

#[test]
fn a_call_whose_caller_has_gone_is_not_sent_unless_it_was_already() {
    let scene = scene();
    let other = Request::consume(Check::new(scene.limit, "bob", 1));
    let mut calls = scene.calls(4);
    let gone = scene.begin(&other);
    drop(calls.remove(1));
    drop(gone);
    run_tasks();
    let sent = scene.sent();
    assert_eq!((sent[0].calls(), sent[0].keys.len()), (vec![3], 1));
    // Too late: it is counted.
    drop(calls.remove(0));
    scene.answered(3);
    assert_eq!(left_of(&mut calls), [98, 97]);
    // If all have gone, nothing is sent, and nobody waits for it.
    drop(scene.call());
    run_tasks();
    assert!(scene.sent().is_empty());
    let last = scene.send_one();
    drop(last);
    scene.timed_out();
    assert_eq!(tasks(), 0);
}

#[test]
fn each_call_is_late_at_its_own_deadline() {
    let scene = scene();
    let consume = Request::consume(Check::new(scene.limit, "alice", 1));
    let peek = Request::peek(Check::new(scene.limit, "bob", 1));
    let mut calls = Vec::new();
    for request in [&consume, &peek, &consume] {
        calls.push(scene.begin(request));
        pass(Duration::from_millis(1));
    }
    let woken = [0, 1].map(|at| watch(slice::from_mut(&mut calls[at])));
    let are_woken = || woken.each_ref().map(|woken| woken.is_woken());
    run_tasks();
    let still_wait = |calls: &mut [Deciding<'_>]| calls.iter_mut().all(|call| poll(call).is_none());
    scene.timed_out();
    assert_eq!(are_woken(), [true, false]);
    let shown = fails(&mut calls[0], ErrorKind::Unknown);
    assert!(shown.contains("no reply within 500ms"), "{shown}");
    assert!(still_wait(&mut calls[2..]));
    scene.timed_out();
    assert_eq!(are_woken(), [true, true]);
    fails(&mut calls[1], ErrorKind::Unavailable);
    assert!(still_wait(&mut calls[2..]));
    scene.replied([answer(2, &fresh_state()), answer(1, &fresh_state())].concat());
    assert_eq!(ended(&mut calls[2]).unwrap().remaining(), 98);
    assert_eq!(tasks(), 0);
}

/// All threads of the program are busy, or it is stopped: the reply may be there, and nobody has read it.
#[test]
fn a_program_that_is_late_waits_longer_for_a_reply() {
    for is_batch in [true, false] {
        for (late, is_answered) in [(450, true), (700, true), (700, false), (60_000, true)] {
            let scene = if is_batch { scene() } else { Scene::rush() };
            let mut call = scene.send_one();
            let late = Duration::from_millis(late);
            pass(late);
            run_tasks();
            assert!(poll(&mut call).is_none(), "{late:?}");
            // It looks at the connection again, which takes as long once more.
            pass(late.min(Duration::from_secs(1)));
            if is_answered {
                scene.reply(if is_batch {
                    answer(1, &fresh_state())
                } else {
                    fresh_state()
                });
                run_tasks();
                assert!(ended(&mut call).unwrap().is_allowed());
            } else {
                let mut outcome = None;
                let begun = time();
                while outcome.is_none() {
                    pass(Duration::from_millis(1));
                    run_tasks();
                    outcome = poll(&mut call);
                }
                assert_eq!(outcome.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
                let took = time() - begun;
                assert!(took > 4 * late && took < 8 * late, "{took:?}");
            }
        }
    }
}

/// A call joins others at any time, so deadlines may be nanoseconds apart.
#[test]
fn all_calls_whose_deadlines_have_passed_are_late_at_once() {
    let scene = scene();
    let mut calls = Vec::new();
    for millis in [1, 100, 0] {
        calls.push(scene.call());
        pass(Duration::from_millis(millis));
    }
    run_tasks();
    // The task runs a millisecond after the first deadline.
    let later = || pass(Duration::from_millis(1));
    scene.time_out_while(later);
    run_tasks();
    for call in &mut calls[..2] {
        fails(call, ErrorKind::Unknown);
    }
    assert!(poll(&mut calls[2]).is_none());
}

#[test]
fn a_call_that_is_late_while_its_script_is_loaded_may_be_counted_later() {
    let scene = scene();
    scene.hold_loads();
    let [mut early, mut other] = [(); 2].map(|()| scene.call());
    pass(Duration::from_millis(1));
    let mut late = scene.send_one();
    scene.failed("NOSCRIPT No matching script.");
    scene.timed_out();
    assert!(poll(&mut late).is_none());
    fails(&mut early, ErrorKind::Unknown);
    // When the last deadline has passed, it is known that the script never ran.
    scene.timed_out();
    fails(&mut other, ErrorKind::Unavailable);
    fails(&mut late, ErrorKind::Unavailable);
}

/// Begins two calls that wait together, and passes the deadline of the first one.
fn one_late_of_two(scene: &Scene) -> [Deciding<'_>; 2] {
    let early = scene.call();
    pass(Duration::from_millis(400));
    let late = scene.call();
    pass(Duration::from_millis(100));
    [early, late]
}

/// It may be sent again, because it was not counted, even if a reply came before it was polled.
#[test]
fn a_call_that_was_late_before_its_batch_left_is_not_counted_whatever_happens_to_the_others() {
    for is_answered in [false, true] {
        let scene = scene();
        let [mut early, mut late] = one_late_of_two(&scene);
        let woken = watch(slice::from_mut(&mut early));
        run_tasks();
        assert_eq!(scene.sent()[0].calls(), [1]);
        assert!(woken.is_woken());
        match is_answered {
            true => scene.answered(1),
            false => scene.timed_out(),
        }
        fails(&mut early, ErrorKind::Unavailable);
        match is_answered {
            true => assert!(ended(&mut late).unwrap().is_allowed()),
            false => drop(fails(&mut late, ErrorKind::Unknown)),
        }
    }
}

#[test]
fn a_reply_that_comes_between_two_deadlines_is_for_those_that_still_wait() {
    let scene = scene();
    let mut early = scene.call();
    pass(Duration::from_millis(1));
    let mut late = scene.send_one();
    scene.timed_out();
    scene.answered(2);
    // The first caller had not looked before the reply was there, so it has its answer, too.
    assert_eq!(ended(&mut early).unwrap().remaining(), 99);
    assert_eq!(ended(&mut late).unwrap().remaining(), 98);
}

#[test]
fn call_that_moves_to_another_runtime_gets_its_answer() {
    let scene = scene();
    let mut call = scene.call();
    switch_to(1);
    assert!(poll(&mut call).is_none());
    switch_to(0);
    scene.answered(1);
    switch_to(1);
    assert!(ended(&mut call).unwrap().is_allowed());
}

#[test]
fn a_call_that_stays_on_its_runtime_needs_no_timer_of_its_own() {
    let scene = scene();
    let mut call = scene.call();
    scene.time_out();
    // Whatever wakes it, its task looks after its deadline.
    for _ in 0..3 {
        assert!(poll(&mut call).is_none());
    }
    run_tasks();
    fails(&mut call, ErrorKind::Unknown);
}

#[test]
fn a_call_that_is_late_is_not_sent_again_whatever_the_server_said() {
    let scene = scene();
    let mut call = scene.send_one();
    pass(Duration::from_millis(500));
    scene.failed("TRYAGAIN Multiple keys during rehashing");
    scene.sent();
    fails(&mut call, ErrorKind::Unavailable);
    assert!(scene.sent().is_empty());
}

#[test]
fn a_reply_about_another_instant_is_refused() {
    let scene = scene();
    let [told, other] = [0, 1].map(|micros| {
        let instant = Timestamp::from_micros(1_780_000_000_000_000 + micros).unwrap();
        Request::consume(Check::new(scene.limit, "alice", 1)).at(instant)
    });
    for (request, is_right) in [(told, true), (other, false)] {
        let mut calls = scene.send([&request; 2]);
        scene.answered(2);
        for call in &mut calls {
            if is_right {
                assert!(ended(call).unwrap().is_allowed());
            } else {
                fails(call, ErrorKind::Protocol);
            }
        }
    }
}

#[test]
fn a_reply_that_admits_more_than_fits_is_refused() {
    for (cost, calls, fit) in [
        (40, 6, 2),
        // All calls before the last one cost 2^64, which is zero without its carry.
        (1 << 52, 4_097, 1),
    ] {
        let scene = scene_of(&format!("fixed-window:{}/1h", fit * cost), cost);
        let mut calls = scene.together(calls);
        scene.answered(calls.len());
        for (before, call) in (0..).zip(&mut calls) {
            if before < fit {
                assert!(ended(call).unwrap().is_allowed());
            } else {
                fails(call, ErrorKind::Protocol);
            }
        }
    }
}

#[test]
fn equal_calls_are_decided_in_the_order_in_which_they_were_made_whoever_asks_first() {
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 5, 0, 4, 3, 1]] {
        let scene = scene_of("gcra:4/1s", 1);
        let mut calls = scene.together(6);
        scene.answered(4);
        for index in order {
            let verdicts = ended(&mut calls[index]).unwrap();
            let before = u64::try_from(index).unwrap();
            assert_eq!(verdicts.is_allowed(), before < 4, "{index} in {order:?}");
            let remaining = 3_u64.saturating_sub(before);
            assert_eq!(verdicts.remaining(), remaining, "{index} in {order:?}");
        }
    }
}

#[test]
fn no_deadline_is_too_long() {
    let options = Options::new().with_batches_only();
    let scene = Scene::new(options.with_deadline(Duration::MAX));
    let mut call = scene.send_one();
    scene.answered(1);
    assert!(ended(&mut call).unwrap().is_allowed());
    let options = Options::new().with_batches_only();
    let scene = Scene::new(options.with_deadline(Duration::ZERO));
    let request = Request::peek(Check::new(scene.limit, "alice", 1));
    let mut call: Deciding<'_> = Box::pin(scene.store.execute(&request));
    fails(&mut call, ErrorKind::Misconfigured);
}

#[test]
fn a_batch_that_is_lost_may_have_counted_those_that_consume() {
    let limit = limit("gcra:100/1s");
    let consume = Request::consume(Check::new(&limit, "alice", 1));
    let peek = Request::peek(Check::new(&limit, "alice", 1));
    for (why, kinds) in [
        ("lost", [ErrorKind::Unknown, ErrorKind::Unavailable]),
        ("not sent", [ErrorKind::Unavailable; 2]),
        ("LOADING Redis is loading", [ErrorKind::Unavailable; 2]),
        ("OOM command not allowed", [ErrorKind::Full; 2]),
        (
            "ERR no tollgate:l:gcra:v1:{alice}:",
            [ErrorKind::Protocol; 2],
        ),
    ] {
        let scene = scene();
        let mut calls = scene.send([&consume, &peek, &consume]);
        scene.failed(why);
        for (call, kind) in calls.iter_mut().zip([kinds[0], kinds[1], kinds[0]]) {
            let shown = fails(call, kind);
            assert!(!shown.contains("alice"), "{shown}");
        }
    }
}

#[test]
fn calls_end_with_their_runtime() {
    let scene = scene();
    let mut call = scene.send_one();
    // The next one has not been sent.
    let other = Request::consume(Check::new(scene.limit, "bob", 1));
    let mut next = [scene.call(), scene.begin(&other), scene.call()];
    assert_eq!(tasks(), 2);
    drop_tasks();
    let shown = fails(&mut call, ErrorKind::Unknown);
    assert!(shown.contains("has ended"), "{shown}");
    for call in &mut next {
        let shown = fails(call, ErrorKind::Unavailable);
        assert!(shown.contains("has ended"), "{shown}");
    }
    // Later calls start another task.
    let mut last = scene.send_one();
    scene.answered(1);
    assert!(ended(&mut last).unwrap().is_allowed());
}

#[test]
fn nothing_is_counted_by_a_runtime_that_ends_while_a_script_is_loaded() {
    let scene = scene();
    scene.hold_loads();
    let mut calls = scene.together(3);
    scene.failed("NOSCRIPT No matching script.");
    assert_eq!(scene.loaded(), 1);
    drop_tasks();
    for call in &mut calls {
        fails(call, ErrorKind::Unavailable);
    }
}

#[test]
fn calls_whose_keys_a_server_does_not_take_together_are_sent_alone() {
    let limit = limit("gcra:100/1s");
    let [alice, bob] = ["alice", "bob"].map(|key| Request::consume(Check::new(&limit, key, 1)));
    let misplaced = ErrorKind::Misconfigured;
    for (line, kind) in [
        ("NOPERM No permissions to access a key", misplaced),
        ("CROSSSLOT Keys don't hash to the same slot", misplaced),
        ("TRYAGAIN Multiple keys", ErrorKind::Unavailable),
    ] {
        let scene = scene();
        let mut calls = scene.send([&alice, &bob]);
        scene.sent();
        scene.failed(line);
        // The server has run nothing, so each is sent again, by itself.
        assert!(calls.iter_mut().all(|call| poll(call).is_none()), "{line}");
        let sent = scene.sent();
        assert!(sent.len() == 2 && sent.iter().all(|sent| !sent.is_batch));
        scene.fail(line);
        scene.reply(fresh_state());
        fails(&mut calls[0], kind);
        assert!(ended(&mut calls[1]).unwrap().is_allowed());
    }
}

#[test]
fn a_call_that_is_sent_by_itself_later_has_what_is_left_of_its_deadline() {
    let scene = scene();
    let mut call = scene.send_one();
    pass(Duration::from_millis(100));
    scene.failed("CROSSSLOT Keys don't hash to the same slot");
    assert!(poll(&mut call).is_none());
    let before = time();
    scene.time_out();
    fails(&mut call, ErrorKind::Unknown);
    assert_eq!(time() - before, Duration::from_millis(400));
}

#[test]
fn blocks_are_decided_one_after_the_other_whatever_they_cost() {
    let scene = scene_of("block:1s", (1 << 52) + 1);
    let mut calls = scene.together(3);
    assert_eq!(scene.sent()[0].calls(), [1, 1, 1]);
    scene.replied(vec![answer(1, &fresh_state()); 3].concat());
    are_allowed(&mut calls);
}

#[test]
fn a_call_that_may_be_repeated_is_sent_again_by_itself_if_its_batch_is_lost() {
    let scene = scene();
    let check = Check::new(scene.limit, "alice", 1);
    let id = |id| CallId::new(id).kept(Duration::from_secs(60));
    let repeated = Request::consume(check).id(id("one").repeated());
    let once = Request::consume(check).id(id("two"));
    let mut calls = scene.send([&repeated, &once]);
    scene.sent();
    scene.failed("lost");
    fails(&mut calls[1], ErrorKind::Unknown);
    assert!(poll(&mut calls[0]).is_none());
    let sent = scene.sent();
    assert!(sent.len() == 1 && !sent[0].is_batch);
    // That was the second time.
    scene.fail("lost");
    fails(&mut calls[0], ErrorKind::Unknown);
    assert!(scene.sent().is_empty());
}

#[test]
fn a_call_that_may_be_repeated_is_so_after_it_left_its_batch_too() {
    let scene = scene();
    let id = CallId::new("one").kept(Duration::from_secs(60)).repeated();
    let request = Request::consume(Check::new(scene.limit, "alice", 1)).id(id);
    let mut call = scene.send([&request]).remove(0);
    scene.failed("TRYAGAIN Multiple keys during rehashing");
    scene.fail("lost");
    assert!(poll(&mut call).is_none());
    // In the batch, by itself, and once more.
    assert_eq!(scene.sent().len(), 3);
    scene.fail("lost");
    fails(&mut call, ErrorKind::Unknown);
}

#[test]
fn what_the_server_refuses_to_one_call_concerns_nobody_else() {
    let scene = scene();
    let [alice, bob] =
        ["alice", "bob"].map(|key| Request::consume(Check::new(scene.limit, key, 1)));
    let mut calls = scene.send([&alice, &bob, &alice]);
    let line = "WRONGTYPE Operation against tollgate:l:gcra:v1:{alice}: a key";
    scene.replied([refusal(line), answer(1, &fresh_state())].concat());
    for at in [0, 2] {
        let shown = fails(&mut calls[at], ErrorKind::Misconfigured);
        let holds = shown.contains("WRONGTYPE") && !shown.contains("alice");
        assert!(holds, "{shown}");
    }
    assert!(ended(&mut calls[1]).unwrap().is_allowed());
}

/// Where the server's clock is in another period than the caller expected, the call is sent by itself,
/// with the boundaries around the server's time.
#[test]
fn call_outside_of_its_periods_is_sent_again() {
    let scene = scene();
    let day = limit("fixed-window:10/day@UTC");
    let request = Request::consume(Check::new(&day, "alice", 1));
    let mut calls = scene.send([&request]);
    assert!(scene.sent()[0].is_batch);
    let uncovered = [&[2][..], &1_700_000_000_000_000_f64.to_le_bytes()].concat();
    scene.replied(answer(0, &uncovered));
    assert!(poll(&mut calls[0]).is_none());
    let sent = scene.sent();
    assert!(sent.len() == 1 && !sent[0].is_batch);
    let midnight = 1_699_920_000_000_000_f64.to_le_bytes();
    assert!(sent[0].argument.windows(8).any(|bytes| bytes == midnight));
}

#[test]
fn replies_that_the_script_does_not_give_are_errors() {
    let limit = limit("gcra:3/1s");
    let [alice, bob] = ["alice", "bob"].map(|key| Request::consume(Check::new(&limit, key, 1)));
    let good = || answer(2, &fresh_state());
    for reply in [
        Vec::new(),
        good(),
        [good(), good()].concat(),
        [good(), answer(1, &fresh_state()), vec![0]].concat(),
        [good(), answer(1, &fresh_state())[..19].to_vec()].concat(),
        [answer(3, &fresh_state()), answer(1, &fresh_state())].concat(),
        [vec![2; 9], good()].concat(),
        [answer(2, &[]), answer(1, &[])].concat(),
        [answer(2, &[1; 9]), answer(1, &[1; 9])].concat(),
    ] {
        let scene = scene();
        let mut calls = scene.send([&alice, &alice, &bob]);
        scene.replied(reply.clone());
        for call in &mut calls {
            let outcome = ended(call);
            let kind = outcome.map(|_| ()).map_err(|error| error.kind());
            assert_eq!(kind, Err(ErrorKind::Protocol), "{reply:?}");
        }
    }
}

#[test]
fn a_call_that_the_machine_decides_otherwise_is_an_error() {
    let limit = limit("gcra:3/1s");
    let [alice, bob] = ["alice", "bob"].map(|key| Request::consume(Check::new(&limit, key, 1)));
    let scene = scene();
    let mut calls = scene.send([&alice, &alice, &bob]);
    let mut denied = fresh_state();
    denied[0] = 0;
    scene.replied([answer(1, &denied), answer(1, &denied)].concat());
    // The server has admitted one, and the machine would admit all.
    assert!(ended(&mut calls[0]).unwrap().is_allowed());
    fails(&mut calls[1], ErrorKind::Protocol);
    fails(&mut calls[2], ErrorKind::Protocol);
}
