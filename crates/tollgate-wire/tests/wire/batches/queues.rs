//! Which calls wait, which go together, and how many scripts are on their way.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime};

use tollgate_core::store::{Check, Fingerprint, Operation, Request, Verdict, Verdicts};
use tollgate_core::{ErrorKind, Key, Limit, Timestamp};
use tollgate_wire::{Options, TimeSource};

use super::gate::{ALONE, Gated, HOUR, Scene, Sent, are_allowed};
use super::tasks::{
    drop_tasks, pass, poll, poll_tasks, run_tasks, started, switch_to, tasks, watch,
};
use crate::engine::limit;

#[test]
fn few_calls_are_sent_singly_and_later_ones_in_a_batch() {
    let scene = Scene::rush();
    a_rush(&scene);
    // Afterwards all is as before.
    a_rush(&scene);
}

/// Makes calls that wait for each other, and answers all of them.
fn a_rush(scene: &Scene) {
    started();
    let mut first = scene.calls(ALONE);
    let alone = scene.sent();
    assert_eq!(alone.len(), ALONE);
    assert!(alone.iter().all(|sent| !sent.is_batch));
    // Those that wait depart as soon as a task can take them along.
    let mut second = scene.calls(3);
    assert_eq!((scene.sent().len(), tasks()), (0, 1));
    run_tasks();
    let batch = scene.sent();
    assert_eq!(batch.len(), 1);
    assert!(batch[0].is_batch);
    assert_eq!(batch[0].calls(), [3]);
    // While a batch is on its way, the next one departs beside it, and then nobody.
    let mut third = scene.together(2);
    assert_eq!(scene.sent()[0].calls(), [2]);
    let mut fourth = scene.together(5);
    assert!(scene.sent().is_empty());
    assert_eq!((tasks(), started()), (2, 2));
    // A reply lets the next ones go.
    scene.answered(3);
    are_allowed(&mut second);
    assert_eq!(scene.sent()[0].calls(), [5]);
    scene.answer(5);
    scene.answered(2);
    assert_eq!((tasks(), started()), (0, 0));
    are_allowed(&mut third);
    are_allowed(&mut fourth);
    // The first ones are still on their way, so the next one finds a task.
    let mut later = scene.calls(1);
    assert_eq!((tasks(), started()), (1, 1));
    scene.answer_each(&mut first);
    // As long as there is a task, the next ones wait for it, although no call goes by itself any
    // more.
    later.push(scene.call());
    assert!(scene.sent().is_empty());
    run_tasks();
    assert_eq!(scene.sent()[0].calls(), [2]);
    scene.answer(2);
    poll_tasks();
    // So few calls go by themselves if they are made again.
    assert_eq!((tasks(), started()), (0, 0));
    are_allowed(&mut later);
    // When nothing is on its way, nothing waits.
    scene.sent();
    drop(scene.call());
    assert_eq!((scene.sent().len(), tasks()), (1, 0));
    drop(scene.call());
    assert!(!scene.sent()[0].is_batch);
}

/// The calls in flight are those of the batch, those that wait, those of another batch, and those that
/// went by themselves.
#[test]
fn a_task_waits_for_its_callers_unless_few_calls_are_in_flight() {
    for in_flight in [8, 9] {
        for alone in [0, 1] {
            let scene = Scene::rush();
            let mut first = scene.calls(ALONE);
            let calls = in_flight - alone;
            let mut others = scene.calls(calls);
            scene.answer_each(&mut first[alone..]);
            run_tasks();
            scene.answer(calls);
            poll_tasks();
            assert!(others.iter_mut().all(|call| poll(call).is_some()));
            let found = tasks();
            assert_eq!(found, in_flight - 8, "{in_flight} in flight, {alone} alone");
            drop(first);
            run_tasks();
        }
    }
}

/// Otherwise the callers of each batch would wait for a task, because another batch is on its way.
#[test]
fn small_groups_of_callers_that_take_turns_go_by_themselves_again() {
    for (one, other) in [(1, 1), (4, 4), (1, 7)] {
        let scene = Scene::rush();
        let mut alone = scene.together(ALONE);
        let mut groups = [one, other].map(|count| scene.together(count));
        scene.answer_each(&mut alone);
        scene.sent();
        for group in &mut groups {
            let count = group.len();
            scene.answer(count);
            poll_tasks();
            assert!(group.iter_mut().all(|call| poll(call).is_some()));
            *group = scene.together(count);
            let sent = scene.sent();
            assert_eq!(sent.len(), count, "{one} {other}");
            assert!(sent.iter().all(|sent| !sent.is_batch));
        }
        assert_eq!(tasks(), 0);
    }
}

#[test]
fn sixteen_calls_are_in_flight_before_others_wait_whether_in_batches_or_by_themselves() {
    let scene = Scene::rush();
    let alone = scene.together(ALONE);
    let _batches = [1, 7].map(|count| scene.together(count));
    drop(alone);
    scene.answer(1);
    poll_tasks();
    scene.sent();
    let _next = scene.together(ALONE);
    let sent = scene.sent();
    assert_eq!(sent.iter().filter(|sent| !sent.is_batch).count(), ALONE - 7);
    assert_eq!(sent.last().unwrap().calls(), [7]);
}

/// If no call goes by itself, the next calls need the task again, however few they are.
#[test]
fn a_task_waits_for_few_callers_if_all_calls_are_sent_in_batches() {
    let scene = Scene::new(Options::new().with_batches_only());
    let mut call = scene.send_one();
    scene.answer(1);
    poll_tasks();
    assert!(poll(&mut call).is_some());
    assert_eq!(tasks(), 1);
}

/// A task that ends would leave those to the other one, which may have to wait for long.
#[test]
fn calls_of_another_batch_and_calls_that_wait_are_in_flight() {
    for (other, waiting, stays) in [(4, 1, 0), (5, 1, 1), (4, 2, 1)] {
        let scene = Scene::rush();
        let first = scene.calls(ALONE);
        let _one = scene.together(3);
        let _two = scene.together(other);
        drop(first);
        let _three = scene.calls(waiting);
        scene.answer(3);
        poll_tasks();
        // It takes what waits along at once, or after its callers have called.
        let left = scene.sent().len();
        assert_eq!(left, 3 + ALONE - stays, "{other} {waiting}");
    }
}

#[test]
fn a_batch_that_has_just_left_is_waited_for_as_a_call_is() {
    let gap = Duration::from_millis(1);
    let scene = Scene::new(Options::new().with_batch_gap(gap));
    let mut calls = scene.together(ALONE + 1);
    assert_eq!(scene.sent().len(), ALONE + 1);
    pass(2 * gap);
    for leaves in [1, 0] {
        calls.push(scene.call());
        run_tasks();
        assert_eq!(scene.sent().len(), leaves);
    }
}

#[test]
fn batches_that_left_beside_others_because_they_were_full_leave_no_more_beside_them() {
    let options = Options::new().with_batch_gap(HOUR);
    let (scene, limit) = (Scene::new(options), limit("gcra:100/1s"));
    let requests = of_keys(&limit, ALONE + 3 * 64 + 1);
    let _calls: Vec<_> = requests.iter().map(|of| scene.begin(of)).collect();
    assert_eq!(scene.sent().len(), ALONE);
    // Full batches do not wait for each other, but the last call does.
    run_tasks();
    let full: Vec<_> = scene.sent().iter().map(|sent| sent.keys.len()).collect();
    assert_eq!((full, tasks()), (vec![64; 3], 3));
    // Two are still on their way.
    scene.failed("lost");
    assert_eq!((scene.sent().len(), tasks()), (0, 2));
    scene.failed("lost");
    let last = scene.sent();
    assert_eq!((last.len(), last[0].keys.len(), tasks()), (1, 1, 2));
}

#[test]
fn batches_that_end_with_their_runtime_make_room_for_others() {
    let scene = Scene::rush();
    let mut calls = scene.calls(ALONE);
    scene.sent();
    let two_at_once = |calls: &mut Vec<_>| {
        for at_once in [1, 1, 0] {
            calls.push(scene.call());
            run_tasks();
            assert_eq!(scene.sent().len(), at_once);
        }
    };
    two_at_once(&mut calls);
    drop_tasks();
    assert!(poll(calls.last_mut().unwrap()).unwrap().is_err());
    two_at_once(&mut calls);
}

#[test]
fn stalled_runtime_delays_no_other() {
    let scene = Scene::rush();
    let _still = scene.calls(ALONE + 1);
    // Its task does not run.
    assert_eq!((scene.sent().len(), tasks()), (ALONE, 1));
    switch_to(1);
    let _busy = scene.together(ALONE + 3);
    let sent_there = scene.sent();
    assert_eq!((sent_there.len(), tasks()), (ALONE + 1, 2));
    assert_eq!(sent_there[ALONE].calls(), [3]);
    switch_to(0);
    run_tasks();
    assert_eq!(scene.sent()[0].calls(), [1]);
}

#[test]
fn calls_to_a_distant_idle_server_are_sent_singly() {
    let scene = Scene::new(Options::new().with_batch_gap(Duration::ZERO));
    // No time has passed since the one before, so each goes by itself, but not any number.
    let _first = scene.calls(64);
    let alone = scene.sent();
    assert_eq!(alone.len(), 64);
    assert!(alone.iter().all(|sent| !sent.is_batch));
    // Nor does a batch wait for the one before.
    let mut more = Vec::new();
    for batches in 1..=64 {
        more.push(scene.call());
        run_tasks();
        assert_eq!((scene.sent().len(), tasks()), (1, batches));
    }
    more.push(scene.call());
    run_tasks();
    assert_eq!((scene.sent().len(), tasks()), (0, 64));
}

/// Returns a request about each of `keys` keys.
fn of_keys(limit: &Limit, keys: usize) -> Vec<Request<'_>> {
    let keys = 0..u64::try_from(keys).unwrap();
    keys.map(|key| Request::consume(Check::new(limit, key, 1)))
        .collect()
}

/// Returns what is sent for the batch of these calls.
fn batch_of(requests: &[Request<'_>]) -> Sent {
    let scene = Scene::new(Options::new().with_batches_only());
    let _calls = requests.iter().map(|request| scene.begin(request));
    let _calls: Vec<_> = _calls.collect();
    run_tasks();
    scene.sent().remove(0)
}

#[test]
fn equal_calls_are_one_request_unless_another_call_of_their_key_is_between_them() {
    let (gcra, log) = (limit("gcra:100/1s"), limit("sliding-log:100/1s"));
    let denied = limit("sliding-log:100/1s,count-denied");
    let smaller = limit("gcra:99/1s");
    let other: Limit = "other=gcra:100/1s".parse().unwrap();
    let check = |limit, key, cost| Request::consume(Check::new(limit, key, cost));
    let both = |first, second| {
        let checks = [first, second].map(|limit| Check::new(limit, "alice", 1));
        Request::new(Operation::Consume, checks)
    };
    let peek = Request::peek(Check::new(&gcra, "alice", 1));
    let take = Request::take_up_to(Check::new(&gcra, "alice", 1));
    let [few, attempt] = [&smaller, &denied].map(|limit| check(limit, "alice", 1));
    let reversed = both(&other, &gcra);
    let a = || check(&gcra, "alice", 1);
    let b = || check(&gcra, "bob", 1);
    for (requests, calls, keys) in [
        (vec![a(), a(), a()], vec![3], 1),
        // Calls of other keys do not matter, wherever they are.
        (vec![a(), b(), a(), b(), a()], vec![3, 2], 2),
        (vec![a(), check(&log, "alice", 1), a()], vec![2, 1], 2),
        // Another cost, operation, or limit beside it.
        (vec![a(), check(&gcra, "alice", 2), a()], vec![1, 1, 1], 3),
        (vec![a(), peek.clone(), a()], vec![1, 1, 1], 3),
        (vec![a(), both(&gcra, &other), a()], vec![1, 1, 1], 4),
        (vec![both(&gcra, &other), both(&gcra, &other)], vec![2], 2),
        (vec![both(&gcra, &other), reversed], vec![1, 1], 4),
        (vec![peek.clone(), peek.clone(), peek], vec![3], 1),
        // A limit of the same name with another amount counts in the same state.
        (vec![a(), few, a()], vec![1, 1, 1], 3),
        // What is decided otherwise if it comes again.
        (vec![take.clone(), take], vec![1, 1], 2),
        (vec![a().id("one"), a().id("one")], vec![1, 1], 4),
        (vec![a(), a().id("one"), a()], vec![1, 1, 1], 4),
        (vec![a().id("one"), b().id("two")], vec![1, 1], 4),
        (vec![attempt.clone(), attempt], vec![1, 1], 2),
    ] {
        let shown = format!("{requests:?}");
        let sent = batch_of(&requests);
        assert_eq!((sent.calls(), sent.keys.len()), (calls, keys), "{shown}");
        // A script looks for states that it has read already only if there can be any.
        let different: HashSet<_> = sent.keys.iter().collect();
        assert_eq!(sent.shares(), different.len() < sent.keys.len(), "{shown}");
    }
}

#[test]
fn calls_that_differ_only_in_keys_share_one_argument() {
    let (gcra, log) = (limit("gcra:100/1s"), limit("sliding-log:100/1s"));
    let keys: Vec<_> = (0..9).map(|key| format!("user-{key}")).collect();
    let check = |limit, key: &'static str, cost| Request::consume(Check::new(limit, key, cost));
    let requests = keys.iter();
    let requests = requests.map(|key| Request::consume(Check::new(&gcra, key, 1)));
    let same: Vec<_> = requests.collect();
    assert_eq!(batch_of(&same).kinds(), 1);
    let other = [
        check(&gcra, "a", 1),
        check(&log, "a", 1),
        check(&gcra, "b", 2),
        check(&log, "b", 1),
        check(&gcra, "c", 1).id("one"),
        check(&gcra, "d", 1),
    ];
    let sent = batch_of(&other);
    assert_eq!((sent.kinds(), sent.calls()), (4, vec![1; 6]));
}

#[test]
fn a_script_decides_at_most_64_limits_and_any_number_of_equal_calls() {
    let scene = Scene::new(Options::new().with_batches_only());
    let limits = [limit("gcra:100/1s"), "other=gcra:9/1h".parse().unwrap()];
    let keys: Vec<_> = (0..40).map(|key| format!("user-{key}")).collect();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| limits.each_ref().map(|limit| Check::new(limit, key, 1)))
        .map(|checks| Request::new(Operation::Consume, checks))
        .collect();
    let twice = requests[..32]
        .iter()
        .chain(&requests[31..])
        .chain(&requests[..1]);
    let _calls = scene.send(twice);
    // A full one waits for nobody, and takes equal calls that come later along.
    let sent = scene.sent();
    let keys: Vec<_> = sent.iter().map(|sent| sent.keys.len()).collect();
    assert_eq!(keys, [64, 16]);
    assert_eq!(sent[0].calls(), [vec![2], vec![1; 30], vec![2]].concat());
}

#[test]
fn a_call_joins_equal_ones_in_an_earlier_batch_unless_another_call_of_its_key_came_after_them() {
    let scene = Scene::new(Options::new().with_batches_only());
    let (gcra, log) = (limit("gcra:100/1s"), limit("sliding-log:100/1s"));
    let keys: Vec<_> = (0..3 * 64).map(|key| format!("user-{key}")).collect();
    let of = |limit, key: usize| Request::consume(Check::new(limit, &*keys[key], 1));
    let both = |key: usize| {
        let checks = [&gcra, &log].map(|limit| Check::new(limit, &*keys[key], 1));
        Request::new(Operation::Consume, checks)
    };
    let mut requests: Vec<_> = (0..3 * 64 - 4).map(|key| of(&gcra, key)).collect();
    requests.extend([
        // The first batch takes these along.
        of(&gcra, 0),
        of(&gcra, 1),
        // The third one is the last with room.
        both(1),
        // Not past the call that came in between.
        of(&gcra, 1),
        // The other limit has not been in the way of anything yet.
        of(&log, 0),
        of(&gcra, 0),
    ]);
    let _calls = scene.send(&requests);
    let sent = scene.sent();
    let counted: Vec<_> = sent.iter().map(Sent::calls).collect();
    let first = [vec![3, 2], vec![1; 62]].concat();
    assert_eq!(counted, [first, vec![1; 64], vec![1; 63]]);
    let shares: Vec<_> = sent.iter().map(Sent::shares).collect();
    assert_eq!(shares, [false, false, true]);
    // What has left is joined by nobody.
    let _late = scene.begin(&requests[0]);
    run_tasks();
}

/// Otherwise a call would wait for a batch that leaves long before its deadline, if at all.
#[test]
fn no_call_joins_an_earlier_batch_while_as_many_as_may_be_on_their_way_hang() {
    let scene = Scene::new(Options::new().with_batches_only().with_batch_limits(1));
    let of = |key| Request::consume(Check::new(scene.limit, key, 1));
    let requests = of_keys(scene.limit, 64);
    let [alice, bob] = ["alice", "bob"].map(of);
    let mut calls: Vec<_> = requests.iter().map(|of| scene.begin(of)).collect();
    // Each sender starts the next one.
    for _ in 0..64 {
        poll_tasks();
    }
    assert_eq!(scene.sent().len(), 64);
    // The second call is for the last batch that waits, the fourth is not.
    for request in [&alice, &alice, &bob, &alice] {
        calls.push(scene.begin(request));
    }
    run_tasks();
    assert_eq!((scene.sent().len(), tasks()), (0, 64));
    let counted: Vec<_> = (0..3)
        .map(|_| {
            scene.failed("lost");
            scene.sent()[0].calls()
        })
        .collect();
    assert_eq!(counted, [[2], [1], [1]]);
}

/// Otherwise one script would rewrite 2,000 entries for each of 64 calls, and hold the server for long.
#[test]
fn refunds_of_long_logs_do_not_depart_together() {
    for (amount, sent) in [(63, 1), (640, 4), (100_000, 16)] {
        let scene = Scene::new(Options::new().with_batches_only());
        let log = limit(&format!("sliding-log:{amount}/1h"));
        let keys: Vec<_> = (0..16).map(|number| number.to_string()).collect();
        let checks = keys.iter().map(|key| Check::new(&log, &**key, 1));
        let now = Timestamp::from_micros(1_000_000).unwrap();
        let receipts: Vec<_> = checks
            .clone()
            .map(|check| {
                let verdict = Verdict::allow(5, 3).with_consumed(1, now);
                let request = Request::consume(check).at(now);
                let verdicts = Verdicts::new(Fingerprint::of(&request), [verdict]);
                verdicts.into_receipt().unwrap()
            })
            .collect();
        let refunds = receipts.iter().zip(checks);
        let refunds: Vec<_> = refunds
            .map(|(receipt, check)| Request::refund(receipt, check).at(now))
            .collect();
        let _calls = scene.send(&refunds);
        for _ in 0..16 {
            poll_tasks();
        }
        assert_eq!(scene.sent().len(), sent, "{amount}");
    }
}

/// Otherwise a store would remember every key that it was ever called for.
#[test]
fn nothing_is_kept_of_the_keys_of_a_batch_that_has_left() {
    let scene = Scene::new(Options::new().with_batches_only().with_batch_limits(1));
    let of = |key| Request::consume(Check::new(scene.limit, key, 1));
    let requests = ["alice", "bob", "carol"].map(of);
    let _calls = requests.each_ref().map(|request| scene.begin(request));
    let remembers = |keys| format!("{:?}", scene.store).contains(&format!("keys: {keys}"));
    assert!(remembers(3));
    // Neither as text nor as a list of bytes.
    for alice in ["alice", "97, 108"] {
        assert!(!format!("{:?}", scene.store).contains(alice));
    }
    // The first one leaves. The task that sends the second one has only been started.
    poll_tasks();
    assert_eq!(scene.sent().len(), 1);
    assert!(remembers(2));
    run_tasks();
    assert_eq!(scene.sent().len(), 2);
    assert!(remembers(0));
}

/// Calls in a batch are not counted among those that are sent by themselves.
#[test]
fn calls_that_waited_take_no_room_of_those_that_go_by_themselves() {
    let scene = Scene::rush();
    let mut first = scene.calls(ALONE);
    // This one waits, but is given up before it is sent.
    drop(scene.call());
    run_tasks();
    assert_eq!((scene.sent().len(), tasks()), (ALONE, 0));
    // One call goes on, and so nothing is forgotten.
    first.truncate(1);
    let _again = scene.calls(ALONE + 1);
    assert_eq!(scene.sent().len(), ALONE - 1);
}

#[test]
fn a_key_that_waits_in_an_earlier_batch_is_shared_with_nobody() {
    let scene = Scene::new(Options::new().with_batches_only().with_batch_limits(2));
    let of = |key, cost| Request::consume(Check::new(scene.limit, key, cost));
    let requests = [of("a", 1), of("b", 1), of("a", 2)];
    let _calls = scene.send(&requests);
    let shares: Vec<_> = scene.sent().iter().map(Sent::shares).collect();
    assert_eq!(shares, [false, false]);
}

/// The clock is the callers', and two of them may see the same instant: one that was chosen, and one
/// that was not. Their receipts are for different clocks.
#[test]
fn a_call_at_a_chosen_instant_joins_none_that_happens_to_have_it() {
    let options = Options::new().with_batches_only();
    let scene = Scene::new(options.with_time_source(TimeSource::Caller));
    let now = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
    let since_epoch = Duration::from_micros(now.as_micros());
    scene.stop_clock(SystemTime::UNIX_EPOCH + since_epoch);
    let by_clock = Request::consume(Check::new(scene.limit, "alice", 1));
    let chosen = by_clock.clone().at(now);
    let requests = [&by_clock, &chosen, &chosen];
    let _calls = scene.send(requests);
    assert_eq!(scene.sent()[0].calls(), [1, 2]);
}

#[test]
fn a_batch_that_leaves_does_not_hide_what_waits_for_the_same_key() {
    let options = Options::new().with_batch_gap(HOUR).with_batch_limits(2);
    let (scene, gcra) = (Scene::new(options), limit("gcra:100/1s"));
    let of = |key, cost| Request::consume(Check::new(&gcra, key, cost));
    let (alone, last) = (of("z", 1), of("e", 3));
    let requests = ["a", "b", "c", "d", "e", "f"].map(|key| of(key, 1));
    let second = of("e", 2);
    let mut calls: Vec<_> = (0..ALONE).map(|_| scene.begin(&alone)).collect();
    // Two batches are on their way. The third is full and leaves; the fourth waits.
    for pair in requests.chunks(2) {
        calls.extend(pair.iter().map(|of| scene.begin(of)));
        if pair[1].checks()[0].key() == Key::from("f") {
            calls.push(scene.begin(&second));
        }
        run_tasks();
    }
    let batches: Vec<_> = scene.sent().split_off(ALONE);
    assert!(batches.iter().all(|of| of.calls() == [1, 1]));
    assert_eq!(batches.len(), 3);
    calls.push(scene.begin(&last));
    (0..3).for_each(|_| scene.failed("lost"));
    let batches = scene.sent();
    assert_eq!(batches.len(), 1);
    let found = (batches[0].calls(), batches[0].shares());
    assert_eq!(found, (vec![1, 1], true));
}

#[test]
fn calls_of_other_hash_slots_are_not_held_up() {
    let scene = Scene::cluster();
    let of = |key| Request::consume(Check::new(scene.limit, key, 1));
    let (alice, bob) = (of("alice"), of("bob"));
    let both = of("alice").and(Check::new(scene.limit, "bob", 1));
    let error = scene.store.supports(&both).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let route = of("alice").and(Check::new(scene.limit, ("alice", "/a"), 1));
    scene.store.supports(&route).unwrap();
    let mut calls: Vec<_> = (0..ALONE + 2).map(|_| scene.begin(&alice)).collect();
    assert_eq!(scene.sent().len(), ALONE);
    calls.push(scene.begin(&bob));
    assert_eq!(scene.sent().len(), 1);
    calls.extend((0..ALONE).map(|_| scene.begin(&bob)));
    run_tasks();
    let batches = scene.sent();
    let counted = batches.iter().filter(|of| of.is_batch);
    let counted: Vec<_> = counted.map(Sent::calls).collect();
    assert_eq!(counted, [[2], [1]]);
    for batch in batches.iter().filter(|of| of.is_batch) {
        let slots = batch.keys.iter();
        let slots: Vec<_> = slots.map(|key| key.contains("{alice}")).collect();
        assert!(slots.iter().all(|slot| *slot == slots[0]));
    }
    // No queue is kept when nobody uses it.
    let queues = || {
        let shown = format!("{:?}", scene.store);
        let (_, count) = shown.split_once("Queues { count: ").unwrap();
        count.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    assert_eq!(queues(), 2);
    scene.fail("lost");
    scene.failed("lost");
    assert_eq!(tasks(), 0);
    drop(calls);
    assert_eq!(queues(), 0);
    let again = scene.begin(&alice);
    assert_eq!(queues(), 1);
    switch_to(1);
    let elsewhere = scene.begin(&alice);
    assert_eq!(queues(), 2);
    drop((again, elsewhere));
    assert_eq!(queues(), 0);
}

/// Remembers how many tasks had been started whenever a call was woken.
#[derive(Default)]
struct Started(Mutex<Vec<usize>>);

impl Wake for Started {
    fn wake(self: Arc<Self>) {
        // While tasks are polled, only new ones are counted.
        self.0.lock().unwrap().push(tasks());
    }
}

/// Otherwise a thousand callers of one runtime would all wait for the same batch, one after the
/// other, and then the server for all of them.
#[test]
fn a_sender_starts_between_many_callers_if_few_others_have_called() {
    for (calls, out, waiting, splits) in [
        (32, 0, 0, false),
        (33, 0, 0, true),
        (100, 49, 0, true),
        (100, 50, 0, false),
        (100, 0, 49, true),
        (100, 0, 50, false),
        (100, 25, 24, true),
        (100, 25, 25, false),
    ] {
        let what = format!("{calls} calls, {out} out and {waiting} waiting");
        let scene = Scene::rush();
        let _alone = scene.calls(ALONE);
        let mut first = scene.together(calls);
        let mut others = scene.together(out);
        others.extend(scene.calls(waiting));
        let started = Arc::new(Started::default());
        let waker = Waker::from(Arc::clone(&started));
        for call in &mut first {
            let mut context = Context::from_waker(&waker);
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        let before = tasks();
        scene.answer(calls);
        poll_tasks();
        if out == 0 && waiting > 0 {
            // A sender that has just started sends those that wait first.
            assert!(started.0.lock().unwrap().is_empty());
            poll_tasks();
        }
        let half = calls / 2;
        let told = std::mem::take(&mut *started.0.lock().unwrap());
        assert!(told[..half].iter().all(|tasks| *tasks == 0), "{what}");
        let tasks_then = usize::from(splits);
        let holds = told[half..].iter().all(|tasks| *tasks == tasks_then);
        assert!(holds, "{what}");
        assert_eq!(told.len(), calls);
        // The new sender has the place of the one that ended.
        assert_eq!(tasks(), before, "{what}");
        are_allowed(&mut first);
    }
}

/// A client often reads two replies at once. If the callers of both called before the next batch left,
/// the server would wait for all of them.
#[test]
fn second_reply_wakes_callers_after_first_batch_departs() {
    let scene = Scene::rush();
    let _alone = scene.calls(ALONE);
    let [mut first, mut second] = [3, 5].map(|calls| scene.together(calls));
    scene.sent();
    let [of_first, of_second] = [&mut first, &mut second].map(|calls| watch(calls));
    scene.answer(3);
    scene.answer(5);
    poll_tasks();
    assert!(of_first.is_woken() && !of_second.is_woken());
    are_allowed(&mut first);
    let _next: Vec<_> = first.iter().map(|_| scene.call()).collect();
    poll_tasks();
    assert_eq!(scene.sent()[0].calls(), [3]);
    assert!(of_second.is_woken());
    are_allowed(&mut second);
    // And then theirs are.
    let _last: Vec<_> = second.iter().map(|_| scene.call()).collect();
    run_tasks();
    assert_eq!(scene.sent()[0].calls(), [5]);
}

#[test]
fn an_answer_that_was_read_is_given_even_if_the_runtime_ends_before_its_callers_are_woken() {
    let scene = Scene::rush();
    let _alone = scene.calls(ALONE);
    let [_first, mut second] = [3, 5].map(|calls| scene.together(calls));
    let woken = watch(&mut second);
    for calls in [3, 5] {
        scene.answer(calls);
    }
    poll_tasks();
    assert!(!woken.is_woken());
    drop_tasks();
    assert!(woken.is_woken());
    are_allowed(&mut second);
}

/// Otherwise there would be three groups of callers, and one would wait until the batches of both others
/// have been answered.
#[test]
fn waiting_calls_are_sent_with_the_next_calls_of_answered_callers() {
    // Both are about one limit, and so there is just room for them.
    let scene = Scene::new(Options::new().with_batch_gap(HOUR).with_batch_limits(2));
    let mut calls = scene.calls(ALONE);
    for together in [3, 2, 5] {
        calls.extend(scene.together(together));
    }
    let batches: Vec<_> = scene.sent().iter().skip(ALONE).map(Sent::calls).collect();
    assert_eq!(batches, [[3], [2]]);
    scene.answer(3);
    poll_tasks();
    assert!(scene.sent().is_empty());
    calls.extend(scene.calls(3));
    poll_tasks();
    assert_eq!(scene.sent()[0].calls(), [8]);
}

#[test]
fn waiting_calls_are_sent_at_once_if_the_next_calls_would_not_fit() {
    let options = Options::new().with_batch_gap(HOUR).with_batch_limits(1);
    let (scene, limit) = (Scene::new(options), limit("gcra:100/1s"));
    let of = |key| Request::consume(Check::new(&limit, key, 1));
    let (alone, first) = (of("z"), of("a"));
    let later = ["b", "c", "d", "e"].map(of);
    let mut calls: Vec<_> = (0..ALONE).map(|_| scene.begin(&alone)).collect();
    calls.push(scene.begin(&first));
    run_tasks();
    scene.sent();
    calls.extend(later.iter().map(|request| scene.begin(request)));
    scene.answer(1);
    // The sender that starts sends one of them, and starts the next sender.
    poll_tasks();
    assert_eq!(scene.sent().len(), 1);
    // That one sends one, and so does the first sender after its caller is woken.
    poll_tasks();
    assert_eq!(scene.sent().len(), 2);
}

#[test]
fn surplus_sender_ends_before_waking_callers() {
    let gap = Duration::from_millis(1);
    let scene = Scene::new(Options::new().with_batch_gap(gap));
    let mut calls = scene.calls(ALONE);
    calls.extend(scene.calls(2));
    run_tasks();
    // The third one leaves because none has left for a while.
    for _ in 0..2 {
        pass(gap);
        calls.push(scene.call());
        run_tasks();
    }
    assert_eq!(tasks(), 3);
    drop(calls.drain(..6));
    scene.sent();
    scene.answer(2);
    poll_tasks();
    assert_eq!(tasks(), 2);
    // The others are on their way, so what is called next waits for one of them.
    calls.push(scene.call());
    assert!(scene.sent().is_empty());
}

#[test]
fn a_sender_that_starts_between_callers_sends_what_they_call_next() {
    let scene = Scene::rush();
    let _alone = scene.calls(ALONE);
    let mut calls = scene.together(100);
    scene.sent();
    started();
    for _ in 0..3 {
        scene.answer(100);
        poll_tasks();
        assert_eq!((tasks(), started()), (1, 1));
        are_allowed(&mut calls);
        calls = scene.calls(100);
        // No other sender is needed.
        assert_eq!(started(), 0);
        run_tasks();
        assert_eq!(scene.sent()[0].calls(), [100]);
    }
    // If nobody calls, it ends.
    scene.answered(100);
    assert_eq!(tasks(), 0);
}

/// Shows a store again whenever a part of it is written.
struct Again<'a>(&'a Gated, String);

impl Write for Again<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.1.push_str(&format!("{:?}", self.0));
        self.1.push_str(part);
        Ok(())
    }
}

#[test]
fn whoever_shows_a_store_may_use_it_meanwhile() {
    let scene = Scene::rush();
    let _calls = scene.calls(ALONE + 1);
    scene.sent();
    let mut shown = Again(&scene.store, String::new());
    write!(shown, "{:?}", scene.store).unwrap();
    assert!(shown.1.contains("alone: 16"));
}

#[test]
fn no_queue_is_kept_for_a_runtime_that_has_ended() {
    let scene = Scene::cluster();
    for runs in [false, true] {
        // More than few, so that the task waits for its callers.
        let calls = scene.calls(ALONE + 9);
        drop(calls);
        if runs {
            poll_tasks();
        }
        assert_eq!(tasks(), 1);
        drop_tasks();
        assert!(!format!("{:?}", scene.store).contains("alone: "));
    }
}
