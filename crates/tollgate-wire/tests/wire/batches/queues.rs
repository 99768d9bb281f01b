//! Which calls wait, which go together, and how many scripts are on their way.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime};

use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Key, Limit, Timestamp};
use tollgate_wire::{Options, TimeSource};

use super::gate::{ALONE, Gated, HOUR, Sent, answer, fresh_state, gated, gated_cluster};
use super::tasks::{
    Deciding, begin, drop_tasks, pass, poll, poll_tasks, run_tasks, started, switch_to, tasks,
    watch,
};
use crate::engine::limit;

fn sent(store: &Gated) -> Vec<Sent> {
    store.engine().0.sent()
}

/// Answers the scripts on their way, in the order in which they are polled.
fn reply(store: &Gated, answers: &[&[Vec<u8>]]) {
    for parts in answers {
        store.engine().0.reply(parts.concat());
    }
    run_tasks();
}

/// Begins so many calls, which leave together if they may.
fn begin_together<'a>(
    store: &'a Gated,
    request: &'a Request<'a>,
    count: usize,
) -> Vec<Deciding<'a>> {
    let calls = (0..count).map(|_| begin(store, request)).collect();
    run_tasks();
    calls
}

#[test]
fn few_calls_are_sent_singly_and_later_ones_in_a_batch() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    a_rush(&store, &limit);
    // Afterwards all is as before.
    a_rush(&store, &limit);
}

/// Makes calls that wait for each other, and answers all of them.
fn a_rush(store: &Gated, limit: &Limit) {
    started();
    let request = Request::consume(Check::new(limit, "alice", 1));
    let mut first: Vec<_> = (0..ALONE).map(|_| begin(store, &request)).collect();
    let alone = sent(store);
    assert_eq!(alone.len(), ALONE);
    assert!(alone.iter().all(|sent| !sent.is_batch));
    // Those that wait depart as soon as a task can take them along.
    let mut second: Vec<_> = (0..3).map(|_| begin(store, &request)).collect();
    assert_eq!((sent(store).len(), tasks()), (0, 1));
    run_tasks();
    let batch = sent(store);
    assert_eq!(batch.len(), 1);
    assert!(batch[0].is_batch);
    assert_eq!(batch[0].calls(), [3]);
    // While a batch is on its way, the next one departs beside it, and then nobody.
    let mut third: Vec<_> = (0..2).map(|_| begin(store, &request)).collect();
    run_tasks();
    assert_eq!(sent(store)[0].calls(), [2]);
    let mut fourth: Vec<_> = (0..5).map(|_| begin(store, &request)).collect();
    run_tasks();
    assert!(sent(store).is_empty());
    assert_eq!((tasks(), started()), (2, 2));
    // A reply lets the next ones go.
    reply(store, &[&[answer(3, &fresh_state())]]);
    for call in &mut second {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    assert_eq!(sent(store)[0].calls(), [5]);
    reply(
        store,
        &[&[answer(5, &fresh_state())], &[answer(2, &fresh_state())]],
    );
    assert_eq!((tasks(), started()), (0, 0));
    for call in third.iter_mut().chain(&mut fourth) {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    // The first ones are still on their way, so the next one finds a task.
    let mut fifth = begin(store, &request);
    assert_eq!((tasks(), started()), (1, 1));
    for call in &mut first {
        store.engine().0.reply(fresh_state());
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    // As long as there is a task, the next ones wait for it, although no call goes by itself any
    // more.
    let mut sixth = begin(store, &request);
    assert!(sent(store).is_empty());
    run_tasks();
    assert_eq!(sent(store)[0].calls(), [2]);
    store.engine().0.reply(answer(2, &fresh_state()));
    poll_tasks();
    // So few calls go by themselves if they are made again.
    assert_eq!((tasks(), started()), (0, 0));
    for call in [&mut fifth, &mut sixth] {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    // When nothing is on its way, nothing waits.
    sent(store);
    drop(begin(store, &request));
    assert_eq!((sent(store).len(), tasks()), (1, 0));
    drop(begin(store, &request));
    assert!(!sent(store)[0].is_batch);
}

/// The calls in flight are those of the batch, those that wait, those of another batch, and those that
/// went by themselves.
#[test]
fn a_task_waits_for_its_callers_unless_few_calls_are_in_flight() {
    for in_flight in [8, 9] {
        for alone in [0, 1] {
            let store = gated(Options::new().with_batch_gap(HOUR));
            let limit = limit("gcra:100/1s");
            let request = Request::consume(Check::new(&limit, "alice", 1));
            let mut first: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
            let calls = in_flight - alone;
            let mut others: Vec<_> = (0..calls).map(|_| begin(&store, &request)).collect();
            for call in &mut first[alone..] {
                store.engine().0.reply(fresh_state());
                assert!(poll(call).unwrap().unwrap().is_allowed());
            }
            run_tasks();
            store
                .engine()
                .0
                .reply(answer(u32::try_from(calls).unwrap(), &fresh_state()));
            poll_tasks();
            assert!(others.iter_mut().all(|call| poll(call).is_some()));
            assert_eq!(
                tasks(),
                in_flight - 8,
                "{in_flight} in flight, {alone} alone"
            );
            drop(first);
            run_tasks();
        }
    }
}

/// Otherwise the callers of each batch would wait for a task, because another batch is on its way.
#[test]
fn small_groups_of_callers_that_take_turns_go_by_themselves_again() {
    for (one, other) in [(1, 1), (4, 4), (1, 7)] {
        let store = gated(Options::new().with_batch_gap(HOUR));
        let limit = limit("gcra:100/1s");
        let request = Request::consume(Check::new(&limit, "alice", 1));
        let mut alone = begin_together(&store, &request, ALONE);
        let mut groups = [one, other].map(|count| begin_together(&store, &request, count));
        for call in &mut alone {
            store.engine().0.reply(fresh_state());
            assert!(poll(call).unwrap().unwrap().is_allowed());
        }
        sent(&store);
        for group in &mut groups {
            let count = group.len();
            let calls = u32::try_from(count).unwrap();
            store.engine().0.reply(answer(calls, &fresh_state()));
            poll_tasks();
            assert!(group.iter_mut().all(|call| poll(call).is_some()));
            *group = begin_together(&store, &request, count);
            let sent = sent(&store);
            assert_eq!(sent.len(), count, "{one} {other}");
            assert!(sent.iter().all(|sent| !sent.is_batch));
        }
        assert_eq!(tasks(), 0);
    }
}

#[test]
fn sixteen_calls_are_in_flight_before_others_wait_whether_in_batches_or_by_themselves() {
    let store = gated(Options::new().with_batch_gap(HOUR));
    let limit = limit("gcra:100/1s");
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let alone = begin_together(&store, &request, ALONE);
    let [one, other] = [1, 7].map(|count| begin_together(&store, &request, count));
    drop(alone);
    store.engine().0.reply(answer(1, &fresh_state()));
    poll_tasks();
    sent(&store);
    let next = begin_together(&store, &request, ALONE);
    let sent = sent(&store);
    assert_eq!(sent.iter().filter(|sent| !sent.is_batch).count(), ALONE - 7);
    assert_eq!(sent.last().unwrap().calls(), [7]);
    drop((one, other, next));
    drop_tasks();
}

/// If no call goes by itself, the next calls need the task again, however few they are.
#[test]
fn a_task_waits_for_few_callers_if_all_calls_are_sent_in_batches() {
    let store = gated(Options::new().with_batches_only());
    let limit = limit("gcra:100/1s");
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut call = begin(&store, &request);
    run_tasks();
    store.engine().0.reply(answer(1, &fresh_state()));
    poll_tasks();
    assert!(poll(&mut call).is_some());
    assert_eq!(tasks(), 1);
}

/// A task that ends would leave those to the other one, which may have to wait for long.
#[test]
fn calls_of_another_batch_and_calls_that_wait_are_in_flight() {
    let store = gated(Options::new().with_batch_gap(HOUR));
    let limit = limit("gcra:100/1s");
    let request = Request::consume(Check::new(&limit, "alice", 1));
    for (other, waiting, stays) in [(4, 1, 0), (5, 1, 1), (4, 2, 1)] {
        let first: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
        let one: Vec<_> = (0..3).map(|_| begin(&store, &request)).collect();
        run_tasks();
        let two: Vec<_> = (0..other).map(|_| begin(&store, &request)).collect();
        run_tasks();
        drop(first);
        let three: Vec<_> = (0..waiting).map(|_| begin(&store, &request)).collect();
        store.engine().0.reply(answer(3, &fresh_state()));
        poll_tasks();
        // It takes what waits along at once, or after its callers have called.
        let left = sent(&store).len();
        assert_eq!(left, 3 + ALONE - stays, "{other} {waiting}");
        drop((one, two, three));
        drop_tasks();
    }
}

#[test]
fn a_batch_that_has_just_left_is_waited_for_as_a_call_is() {
    let gap = Duration::from_millis(1);
    let (store, limit) = (
        gated(Options::new().with_batch_gap(gap)),
        limit("gcra:100/1s"),
    );
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut calls: Vec<_> = (0..=ALONE).map(|_| begin(&store, &request)).collect();
    run_tasks();
    assert_eq!(sent(&store).len(), ALONE + 1);
    pass(2 * gap);
    for leaves in [1, 0] {
        calls.push(begin(&store, &request));
        run_tasks();
        assert_eq!(sent(&store).len(), leaves);
    }
    drop(calls);
    drop_tasks();
}

#[test]
fn a_call_that_is_over_makes_room_for_another() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    // The first one takes longer than all others.
    let first = begin(&store, &request);
    for _ in 0..3 {
        let calls: Vec<_> = (1..ALONE).map(|_| begin(&store, &request)).collect();
        assert_eq!(tasks(), 0);
        drop(calls);
    }
    assert!(sent(&store).iter().all(|sent| !sent.is_batch));
    drop(first);
}

#[test]
fn batches_that_left_beside_others_because_they_were_full_leave_no_more_beside_them() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let keys: Vec<_> = (0..ALONE + 3 * 64 + 1).map(|key| key.to_string()).collect();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| Request::consume(Check::new(&limit, key, 1)))
        .collect();
    let calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    assert_eq!(sent(&store).len(), ALONE);
    // Full batches do not wait for each other, but the last call does.
    run_tasks();
    let full: Vec<_> = sent(&store).iter().map(|sent| sent.keys.len()).collect();
    assert_eq!((full, tasks()), (vec![64; 3], 3));
    // Two are still on their way.
    store.engine().0.fail("lost");
    run_tasks();
    assert_eq!((sent(&store).len(), tasks()), (0, 2));
    store.engine().0.fail("lost");
    run_tasks();
    let last = sent(&store);
    assert_eq!((last.len(), last[0].keys.len(), tasks()), (1, 1, 2));
    drop(calls);
    drop_tasks();
}

#[test]
fn batches_that_end_with_their_runtime_make_room_for_others() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut calls: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    sent(&store);
    let two_at_once = |calls: &mut Vec<_>| {
        for at_once in [1, 1, 0] {
            calls.push(begin(&store, &request));
            run_tasks();
            assert_eq!(sent(&store).len(), at_once);
        }
    };
    two_at_once(&mut calls);
    drop_tasks();
    assert!(poll(calls.last_mut().unwrap()).unwrap().is_err());
    two_at_once(&mut calls);
    drop(calls);
    drop_tasks();
}

#[test]
fn every_call_that_waits_is_woken_when_its_runtime_ends() {
    let store = gated(Options::new().with_batches_only());
    let limit = limit("gcra:100/1s");
    let keys: Vec<_> = (0..=64).map(|key| key.to_string()).collect();
    let requests: Vec<_> = keys
        .iter()
        .map(|key| Request::consume(Check::new(&limit, key, 1)))
        .collect();
    let mut calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    // The last call waits in a batch of its own, behind a full one.
    let woken = watch(&mut calls[64..]);
    drop_tasks();
    assert!(woken.is_woken());
    for call in &mut calls {
        assert!(poll(call).unwrap().is_err());
    }
}

#[test]
fn stalled_runtime_delays_no_other() {
    let store = gated(Options::new().with_batch_gap(HOUR));
    let limit = limit("gcra:100/1s");
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let begin_all = |count| -> Vec<_> { (0..count).map(|_| begin(&store, &request)).collect() };
    let still = begin_all(ALONE + 1);
    // Its task does not run.
    assert_eq!((sent(&store).len(), tasks()), (ALONE, 1));
    switch_to(1);
    let busy = begin_all(ALONE + 3);
    run_tasks();
    let sent_there = sent(&store);
    assert_eq!((sent_there.len(), tasks()), (ALONE + 1, 2));
    assert_eq!(sent_there[ALONE].calls(), [3]);
    switch_to(0);
    run_tasks();
    assert_eq!(sent(&store)[0].calls(), [1]);
    drop((still, busy));
    drop_tasks();
}

#[test]
fn calls_to_a_distant_idle_server_are_sent_singly() {
    let options = Options::new().with_batch_gap(Duration::ZERO);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    // No time has passed since the one before, so each goes by itself, but not any number.
    let first: Vec<_> = (0..64).map(|_| begin(&store, &request)).collect();
    let alone = sent(&store);
    assert_eq!(alone.len(), 64);
    assert!(alone.iter().all(|sent| !sent.is_batch));
    // Nor does a batch wait for the one before.
    let mut more = Vec::new();
    for batches in 1..=64 {
        more.push(begin(&store, &request));
        run_tasks();
        assert_eq!((sent(&store).len(), tasks()), (1, batches));
    }
    more.push(begin(&store, &request));
    run_tasks();
    assert_eq!((sent(&store).len(), tasks()), (0, 64));
    drop((first, more));
    drop_tasks();
}

/// Returns what is sent for the batch of these calls.
fn batch_of(requests: &[Request<'_>]) -> Sent {
    let store = gated(Options::new().with_batches_only());
    let calls: Vec<_> = requests
        .iter()
        .map(|request| begin(&store, request))
        .collect();
    run_tasks();
    drop(calls);
    drop_tasks();
    sent(&store).remove(0)
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
        (
            vec![both(&gcra, &other), both(&other, &gcra)],
            vec![1, 1],
            4,
        ),
        (vec![peek.clone(), peek.clone(), peek], vec![3], 1),
        // A limit of the same name with another amount counts in the same state.
        (
            vec![a(), check(&smaller, "alice", 1), a()],
            vec![1, 1, 1],
            3,
        ),
        // What is decided otherwise if it comes again.
        (vec![take.clone(), take], vec![1, 1], 2),
        (vec![a().id("one"), a().id("one")], vec![1, 1], 4),
        (vec![a(), a().id("one"), a()], vec![1, 1, 1], 4),
        (vec![a().id("one"), b().id("two")], vec![1, 1], 4),
        (
            vec![check(&denied, "alice", 1), check(&denied, "alice", 1)],
            vec![1, 1],
            2,
        ),
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
    let requests = keys
        .iter()
        .map(|key| Request::consume(Check::new(&gcra, key, 1)));
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
    let store = gated(Options::new().with_batches_only());
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
    let calls: Vec<_> = twice.map(|request| begin(&store, request)).collect();
    run_tasks();
    // A full one waits for nobody, and takes equal calls that come later along.
    let sent = sent(&store);
    let keys: Vec<_> = sent.iter().map(|sent| sent.keys.len()).collect();
    assert_eq!(keys, [64, 16]);
    assert_eq!(sent[0].calls(), [vec![2], vec![1; 30], vec![2]].concat());
    drop(calls);
    drop_tasks();
}

#[test]
fn a_call_joins_equal_ones_in_an_earlier_batch_unless_another_call_of_its_key_came_after_them() {
    let store = gated(Options::new().with_batches_only());
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
    let calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    run_tasks();
    let sent = sent(&store);
    let counted: Vec<_> = sent.iter().map(Sent::calls).collect();
    let first = [vec![3, 2], vec![1; 62]].concat();
    assert_eq!(counted, [first, vec![1; 64], vec![1; 63]]);
    let shares: Vec<_> = sent.iter().map(Sent::shares).collect();
    assert_eq!(shares, [false, false, true]);
    // What has left is joined by nobody.
    let late = begin(&store, &requests[0]);
    run_tasks();
    drop((calls, late));
    drop_tasks();
}

/// Otherwise a call would wait for a batch that leaves long before its deadline, if at all.
#[test]
fn no_call_joins_an_earlier_batch_while_as_many_as_may_be_on_their_way_hang() {
    let store = gated(Options::new().with_batches_only().with_batch_limits(1));
    let gcra = limit("gcra:100/1s");
    let keys: Vec<_> = (0..64).map(|key| format!("user-{key}")).collect();
    let of = |key| Request::consume(Check::new(&gcra, key, 1));
    let requests: Vec<_> = keys.iter().map(|key| of(&**key)).collect();
    let [alice, bob] = ["alice", "bob"].map(of);
    let mut calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    // Each sender starts the next one.
    for _ in 0..64 {
        poll_tasks();
    }
    assert_eq!(sent(&store).len(), 64);
    // The second call is for the last batch that waits, the fourth is not.
    for request in [&alice, &alice, &bob, &alice] {
        calls.push(begin(&store, request));
    }
    run_tasks();
    assert_eq!((sent(&store).len(), tasks()), (0, 64));
    let counted: Vec<_> = (0..3)
        .map(|_| {
            store.engine().0.fail("lost");
            run_tasks();
            sent(&store)[0].calls()
        })
        .collect();
    assert_eq!(counted, [[2], [1], [1]]);
    drop(calls);
    drop_tasks();
}

/// Otherwise a store would remember every key that it was ever called for.
#[test]
fn nothing_is_kept_of_the_keys_of_a_batch_that_has_left() {
    let store = gated(Options::new().with_batches_only());
    let gcra = limit("gcra:100/1s");
    let of = |key| Request::consume(Check::new(&gcra, key, 1));
    let [alice, bob] = ["alice", "bob"].map(of);
    let calls = [&alice, &bob].map(|request| begin(&store, request));
    let remembers_keys = || format!("{store:?}").contains("keys: 2");
    assert!(remembers_keys());
    assert!(!format!("{store:?}").contains("alice"));
    run_tasks();
    assert_eq!(sent(&store).len(), 1);
    assert!(format!("{store:?}").contains("keys: 0"));
    drop(calls);
    drop_tasks();
}

/// Otherwise more and more would be kept, if something always waits.
#[test]
fn nothing_is_kept_of_the_keys_of_a_batch_that_has_left_while_others_wait() {
    let store = gated(Options::new().with_batches_only().with_batch_limits(1));
    let gcra = limit("gcra:100/1s");
    let requests = ["a", "b", "c"].map(|key| Request::consume(Check::new(&gcra, key, 1)));
    let calls = requests.each_ref().map(|request| begin(&store, request));
    assert!(format!("{store:?}").contains("keys: 3"));
    // The first one leaves. The task that sends the second one has only been started.
    poll_tasks();
    assert_eq!(sent(&store).len(), 1);
    assert!(format!("{store:?}").contains("keys: 2"));
    drop(calls);
    drop_tasks();
}

/// Calls in a batch are not counted among those that are sent by themselves.
#[test]
fn calls_that_waited_take_no_room_of_those_that_go_by_themselves() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut first: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    // This one waits, but is given up before it is sent.
    drop(begin(&store, &request));
    run_tasks();
    assert_eq!((sent(&store).len(), tasks()), (ALONE, 0));
    // One call goes on, and so nothing is forgotten.
    first.truncate(1);
    let again: Vec<_> = (0..=ALONE).map(|_| begin(&store, &request)).collect();
    assert_eq!(sent(&store).len(), ALONE - 1);
    drop((first, again));
    drop_tasks();
}

#[test]
fn a_key_that_waits_in_an_earlier_batch_is_shared_with_nobody() {
    let store = gated(Options::new().with_batches_only().with_batch_limits(2));
    let gcra = limit("gcra:100/1s");
    let of = |key, cost| Request::consume(Check::new(&gcra, key, cost));
    let requests = [of("a", 1), of("b", 1), of("a", 2)];
    let calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    run_tasks();
    let shares: Vec<_> = sent(&store).iter().map(Sent::shares).collect();
    assert_eq!(shares, [false, false]);
    drop(calls);
    drop_tasks();
}

/// The clock is the callers', and two of them may see the same instant: one that was chosen, and one
/// that was not. Their receipts are for different clocks.
#[test]
fn a_call_at_a_chosen_instant_joins_none_that_happens_to_have_it() {
    let options = Options::new().with_batches_only();
    let store = gated(options.with_time_source(TimeSource::Caller));
    let gcra = limit("gcra:100/1s");
    let now = Timestamp::from_micros(1_780_000_000_000_000).unwrap();
    let since_epoch = Duration::from_micros(now.as_micros());
    store
        .engine()
        .0
        .stop_clock(SystemTime::UNIX_EPOCH + since_epoch);
    let by_clock = Request::consume(Check::new(&gcra, "alice", 1));
    let chosen = by_clock.clone().at(now);
    let requests = [&by_clock, &chosen, &chosen];
    let calls: Vec<_> = requests.iter().map(|of| begin(&store, of)).collect();
    run_tasks();
    assert_eq!(sent(&store)[0].calls(), [1, 2]);
    drop(calls);
    drop_tasks();
}

#[test]
fn a_batch_that_leaves_does_not_hide_what_waits_for_the_same_key() {
    let options = Options::new().with_batch_gap(HOUR).with_batch_limits(2);
    let (store, gcra) = (gated(options), limit("gcra:100/1s"));
    let of = |key, cost| Request::consume(Check::new(&gcra, key, cost));
    let (alone, last) = (of("z", 1), of("e", 3));
    let requests = ["a", "b", "c", "d", "e", "f"].map(|key| of(key, 1));
    let second = of("e", 2);
    let mut calls: Vec<_> = (0..ALONE).map(|_| begin(&store, &alone)).collect();
    // Two batches are on their way. The third is full and leaves; the fourth waits.
    for pair in requests.chunks(2) {
        calls.extend(pair.iter().map(|of| begin(&store, of)));
        if pair[1].checks()[0].key() == Key::from("f") {
            calls.push(begin(&store, &second));
        }
        run_tasks();
    }
    let batches: Vec<_> = sent(&store).split_off(ALONE);
    assert!(batches.iter().all(|of| of.calls() == [1, 1]));
    assert_eq!(batches.len(), 3);
    calls.push(begin(&store, &last));
    (0..3).for_each(|_| store.engine().0.fail("lost"));
    run_tasks();
    let batches = sent(&store);
    assert_eq!(batches.len(), 1);
    assert_eq!(
        (batches[0].calls(), batches[0].shares()),
        (vec![1, 1], true)
    );
    drop(calls);
    drop_tasks();
}

#[test]
fn calls_of_other_hash_slots_are_not_held_up() {
    let (store, limit) = (gated_cluster(HOUR), limit("gcra:100/1s"));
    let of = |key| Request::consume(Check::new(&limit, key, 1));
    let (alice, bob) = (of("alice"), of("bob"));
    let mut calls: Vec<_> = (0..ALONE + 2).map(|_| begin(&store, &alice)).collect();
    assert_eq!(sent(&store).len(), ALONE);
    calls.push(begin(&store, &bob));
    assert_eq!(sent(&store).len(), 1);
    calls.extend((0..ALONE).map(|_| begin(&store, &bob)));
    run_tasks();
    let batches = sent(&store);
    let counted: Vec<_> = batches
        .iter()
        .filter(|of| of.is_batch)
        .map(Sent::calls)
        .collect();
    assert_eq!(counted, [[2], [1]]);
    for batch in batches.iter().filter(|of| of.is_batch) {
        let slots: Vec<_> = batch
            .keys
            .iter()
            .map(|key| key.contains("{alice}"))
            .collect();
        assert!(slots.iter().all(|slot| *slot == slots[0]));
    }
    // No queue is kept when nobody uses it.
    let queues = || {
        let shown = format!("{store:?}");
        let (_, count) = shown.split_once("Queues { count: ").unwrap();
        count.split_once(',').unwrap().0.parse::<usize>().unwrap()
    };
    assert_eq!(queues(), 2);
    store.engine().0.fail("lost");
    store.engine().0.fail("lost");
    run_tasks();
    assert_eq!(tasks(), 0);
    drop(calls);
    assert_eq!(queues(), 0);
    let again = begin(&store, &alice);
    assert_eq!(queues(), 1);
    switch_to(1);
    let elsewhere = begin(&store, &alice);
    assert_eq!(queues(), 2);
    drop((again, elsewhere));
    assert_eq!(queues(), 0);
    switch_to(0);
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
        let options = Options::new().with_batch_gap(HOUR);
        let (store, limit) = (gated(options), limit("gcra:1000/1s"));
        let request = Request::consume(Check::new(&limit, "alice", 1));
        let alone: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
        let mut first: Vec<_> = (0..calls).map(|_| begin(&store, &request)).collect();
        run_tasks();
        let mut others: Vec<_> = (0..out).map(|_| begin(&store, &request)).collect();
        run_tasks();
        others.extend((0..waiting).map(|_| begin(&store, &request)));
        let started = Arc::new(Started::default());
        let waker = Waker::from(Arc::clone(&started));
        for call in &mut first {
            let mut context = Context::from_waker(&waker);
            assert!(call.as_mut().poll(&mut context).is_pending());
        }
        let before = tasks();
        store.engine().0.reply(answer(calls, &fresh_state()));
        poll_tasks();
        if out == 0 && waiting > 0 {
            // A sender that has just started sends those that wait first.
            assert!(started.0.lock().unwrap().is_empty());
            poll_tasks();
        }
        let half = usize::try_from(calls).unwrap() / 2;
        let told = std::mem::take(&mut *started.0.lock().unwrap());
        assert!(told[..half].iter().all(|tasks| *tasks == 0), "{what}");
        let tasks_then = usize::from(splits);
        assert!(
            told[half..].iter().all(|tasks| *tasks == tasks_then),
            "{what}"
        );
        assert_eq!(told.len(), 2 * half + usize::try_from(calls).unwrap() % 2);
        // The new sender has the place of the one that ended.
        assert_eq!(tasks(), before, "{what}");
        for call in &mut first {
            assert!(poll(call).unwrap().unwrap().is_allowed());
        }
        drop((alone, others));
        drop_tasks();
    }
}

/// A client often reads two replies at once. If the callers of both called before the next batch left,
/// the server would wait for all of them.
#[test]
fn second_reply_wakes_callers_after_first_batch_departs() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:1000/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let alone: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    let [mut first, mut second] = [3, 5].map(|calls| begin_together(&store, &request, calls));
    sent(&store);
    let [of_first, of_second] = [&mut first, &mut second].map(|calls| watch(calls));
    store.engine().0.reply(answer(3, &fresh_state()));
    store.engine().0.reply(answer(5, &fresh_state()));
    poll_tasks();
    assert!(of_first.is_woken() && !of_second.is_woken());
    for call in &mut first {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    let next: Vec<_> = first.iter().map(|_| begin(&store, &request)).collect();
    poll_tasks();
    assert_eq!(sent(&store)[0].calls(), [3]);
    assert!(of_second.is_woken());
    for call in &mut second {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    // And then theirs are.
    let last: Vec<_> = second.iter().map(|_| begin(&store, &request)).collect();
    run_tasks();
    assert_eq!(sent(&store)[0].calls(), [5]);
    drop((alone, next, last));
    drop_tasks();
}

#[test]
fn an_answer_that_was_read_is_given_even_if_the_runtime_ends_before_its_callers_are_woken() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:1000/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let alone: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    let [_first, mut second] = [3, 5].map(|calls| begin_together(&store, &request, calls));
    let woken = watch(&mut second);
    for calls in [3, 5] {
        store.engine().0.reply(answer(calls, &fresh_state()));
    }
    poll_tasks();
    assert!(!woken.is_woken());
    drop_tasks();
    assert!(woken.is_woken());
    for call in &mut second {
        assert!(poll(call).unwrap().unwrap().is_allowed());
    }
    drop(alone);
}

/// Otherwise there would be three groups of callers, and one would wait until the batches of both others
/// have been answered.
#[test]
fn waiting_calls_are_sent_with_the_next_calls_of_answered_callers() {
    // Both are about one limit, and so there is just room for them.
    let options = Options::new().with_batch_gap(HOUR).with_batch_limits(2);
    let (store, limit) = (gated(options), limit("gcra:1000/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut calls: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    for together in [3, 2, 5] {
        calls.extend(begin_together(&store, &request, together));
    }
    let batches: Vec<_> = sent(&store).iter().skip(ALONE).map(Sent::calls).collect();
    assert_eq!(batches, [[3], [2]]);
    store.engine().0.reply(answer(3, &fresh_state()));
    poll_tasks();
    assert!(sent(&store).is_empty());
    calls.extend((0..3).map(|_| begin(&store, &request)));
    poll_tasks();
    assert_eq!(sent(&store)[0].calls(), [8]);
    drop(calls);
    drop_tasks();
}

#[test]
fn waiting_calls_are_sent_at_once_if_the_next_calls_would_not_fit() {
    let options = Options::new().with_batch_gap(HOUR).with_batch_limits(1);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let of = |key| Request::consume(Check::new(&limit, key, 1));
    let (alone, first) = (of("z"), of("a"));
    let later = ["b", "c", "d", "e"].map(of);
    let mut calls: Vec<_> = (0..ALONE).map(|_| begin(&store, &alone)).collect();
    calls.push(begin(&store, &first));
    run_tasks();
    sent(&store);
    calls.extend(later.iter().map(|request| begin(&store, request)));
    store.engine().0.reply(answer(1, &fresh_state()));
    // The sender that starts sends one of them, and starts the next sender.
    poll_tasks();
    assert_eq!(sent(&store).len(), 1);
    // That one sends one, and so does the first sender after its caller is woken.
    poll_tasks();
    assert_eq!(sent(&store).len(), 2);
    drop(calls);
    drop_tasks();
}

#[test]
fn surplus_sender_ends_before_waking_callers() {
    let gap = Duration::from_millis(1);
    let (store, limit) = (
        gated(Options::new().with_batch_gap(gap)),
        limit("gcra:100/1s"),
    );
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let mut calls: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    calls.extend((0..2).map(|_| begin(&store, &request)));
    run_tasks();
    // The third one leaves because none has left for a while.
    for _ in 0..2 {
        pass(gap);
        calls.push(begin(&store, &request));
        run_tasks();
    }
    assert_eq!(tasks(), 3);
    drop(calls.drain(..6));
    sent(&store);
    store.engine().0.reply(answer(2, &fresh_state()));
    poll_tasks();
    assert_eq!(tasks(), 2);
    // The others are on their way, so what is called next waits for one of them.
    calls.push(begin(&store, &request));
    assert!(sent(&store).is_empty());
    drop(calls);
    drop_tasks();
}

#[test]
fn without_batches_each_call_leaves_by_itself() {
    let (store, limit) = (gated(Options::new()), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let calls: Vec<_> = (0..ALONE + 2).map(|_| begin(&store, &request)).collect();
    let sent = sent(&store);
    assert_eq!(sent.len(), ALONE + 2);
    assert!(sent.iter().all(|sent| !sent.is_batch));
    assert_eq!(tasks(), 0);
    drop(calls);
}

#[test]
fn a_sender_that_starts_between_callers_sends_what_they_call_next() {
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:1000/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let alone: Vec<_> = (0..ALONE).map(|_| begin(&store, &request)).collect();
    let mut calls: Vec<_> = (0..100).map(|_| begin(&store, &request)).collect();
    run_tasks();
    sent(&store);
    started();
    for _ in 0..3 {
        store.engine().0.reply(answer(100, &fresh_state()));
        poll_tasks();
        assert_eq!((tasks(), started()), (1, 1));
        for call in &mut calls {
            assert!(poll(call).unwrap().unwrap().is_allowed());
        }
        calls = (0..100).map(|_| begin(&store, &request)).collect();
        // No other sender is needed.
        assert_eq!(started(), 0);
        run_tasks();
        assert_eq!(sent(&store)[0].calls(), [100]);
    }
    // If nobody calls, it ends.
    store.engine().0.reply(answer(100, &fresh_state()));
    run_tasks();
    assert_eq!(tasks(), 0);
    drop((alone, calls));
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
    let options = Options::new().with_batch_gap(HOUR);
    let (store, limit) = (gated(options), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let calls: Vec<_> = (0..=ALONE).map(|_| begin(&store, &request)).collect();
    sent(&store);
    let mut shown = Again(&store, String::new());
    write!(shown, "{store:?}").unwrap();
    assert!(shown.1.contains("alone: 16"));
    drop(calls);
    drop_tasks();
}

#[test]
fn no_queue_is_kept_for_a_runtime_that_has_ended() {
    let (store, limit) = (gated_cluster(HOUR), limit("gcra:100/1s"));
    let request = Request::consume(Check::new(&limit, "alice", 1));
    for runs in [false, true] {
        // More than few, so that the task waits for its callers.
        let calls: Vec<_> = (0..ALONE + 9).map(|_| begin(&store, &request)).collect();
        drop(calls);
        if runs {
            poll_tasks();
        }
        assert_eq!(tasks(), 1);
        drop_tasks();
        assert!(!format!("{store:?}").contains("alone: "));
    }
}
