//! Wakers that panic, or that use the store: wakers are foreign code.

use std::cell::RefCell;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tollgate_core::ErrorKind;
use tollgate_core::store::{Check, Request};
use tollgate_wire::Options;

use super::gate::{ALONE, HOUR, Scene, gated};
use super::tasks::{
    Deciding, Woken, begin, begin_with, drop_tasks, pass, poll, poll_tasks, run_tasks, watch,
};
use crate::engine::limit;

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// Otherwise the others would wait for ever.
#[test]
fn a_waker_that_panics_keeps_nobody_from_going_on() {
    for ends in ["answered", "late to leave", "late"] {
        let scene = leaked(Options::new().with_batches_only());
        let woken = [(); 3].map(|()| Woken::new());
        let [first, second, third] = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
        let [one, other] = [(); 2].map(|()| Waker::from(Arc::new(Panics)));
        let mut calls = Vec::new();
        for waker in [one, first, second, other, third] {
            calls.push(scene.call_with(&waker));
        }
        // The deadline of one more call is later.
        pass(Duration::from_millis(1));
        calls.push(scene.call());
        match ends {
            "answered" => scene.answer(6),
            "late to leave" => {
                pass(Duration::from_micros(499_500));
                scene.answer(1);
            }
            _ => {
                run_tasks();
                scene.time_out();
                scene.answer(6);
            }
        }
        run_tasks();
        assert!(woken.iter().all(|woken| woken.is_woken()), "{ends}");
        for call in &mut calls {
            assert!(poll(call).is_some(), "{ends}: it waits for ever");
        }
        // The task goes on, and sends what is called next.
        let mut next = scene.call();
        scene.answered(1);
        assert!(poll(&mut next).unwrap().unwrap().is_allowed(), "{ends}");
    }
}

/// Otherwise the calls of the second batch would wait for ever.
#[test]
fn a_waker_that_panics_when_the_runtime_ends_leaves_no_batch_waiting() {
    let store = gated(Options::new().with_batches_only().with_batch_limits(1));
    let limit = limit("gcra:100/1s");
    let [first, second] = ["alice", "bob"].map(|key| Request::consume(Check::new(&limit, key, 1)));
    let mut calls = [
        begin_with(&store, &first, &Waker::from(Arc::new(Panics))),
        begin(&store, &second),
    ];
    let woken = watch(&mut calls[1..]);
    drop_tasks();
    assert!(woken.is_woken());
    for call in &mut calls {
        let error = poll(call).expect("it has ended").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}

thread_local! {
    /// Calls that a waker drops, or has begun.
    static CALLS: RefCell<Vec<Deciding<'static>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a scene that wakers can use.
fn leaked(options: Options) -> &'static Scene {
    Box::leak(Box::new(Scene::new(options)))
}

/// Drops calls when it is woken, or dropped.
struct Drops;

impl Wake for Drops {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Drops {
    fn drop(&mut self) {
        drop(CALLS.take());
    }
}

#[test]
fn a_waker_that_is_replaced_may_drop_a_call_of_the_same_batch() {
    let scene = leaked(Options::new().with_batches_only());
    let waker = Waker::from(Arc::new(Drops));
    let mut call = scene.call_with(&waker);
    drop(waker);
    CALLS.set(vec![scene.call()]);
    let woken = watch(slice::from_mut(&mut call));
    assert!(CALLS.take().is_empty(), "the waker was not dropped");
    run_tasks();
    assert_eq!(scene.sent()[0].calls(), [1]);
    scene.answered(1);
    assert!(woken.is_woken());
}

#[test]
fn a_waker_may_drop_a_call_of_the_same_queue_when_the_runtime_ends() {
    let scene = leaked(Options::new().with_batch_gap(HOUR));
    CALLS.set(scene.calls(ALONE));
    let waker = Waker::from(Arc::new(Drops));
    let mut call = scene.call_with(&waker);
    drop(waker);
    drop_tasks();
    assert!(CALLS.take().is_empty(), "the waker was not woken");
    let found = poll(&mut call).unwrap().unwrap_err().kind();
    assert_eq!(found, ErrorKind::Unavailable);
}

/// Makes another call when it is woken.
struct Calls(&'static Scene);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        CALLS.with_borrow_mut(|calls| calls.push(self.0.call()));
    }
}

/// Its task ends halfway, because another one takes its place.
#[test]
fn what_is_called_while_half_of_the_callers_are_woken_is_sent() {
    let scene = leaked(Options::new().with_batches_only());
    let mut calls = scene.calls(33);
    run_tasks();
    scene.sent();
    let waker = Waker::from(Arc::new(Calls(scene)));
    let polled = calls[0].as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    scene.answer(33);
    poll_tasks();
    let mut next = CALLS.take().pop().expect("it was woken");
    assert!(poll(&mut next).is_none());
    run_tasks();
    assert_eq!(scene.sent()[0].calls(), [1]);
    scene.answered(1);
    assert!(poll(&mut next).unwrap().unwrap().is_allowed());
}

/// On a runtime of several threads, callers may call again before the task of their batch goes on.
#[test]
fn what_few_callers_call_when_they_are_woken_goes_by_itself() {
    let scene = leaked(Options::new().with_batch_gap(HOUR));
    let mut alone = scene.calls(ALONE);
    let waker = Waker::from(Arc::new(Calls(scene)));
    let _call = scene.call_with(&waker);
    run_tasks();
    scene.answer_each(&mut alone);
    scene.sent();
    scene.answered(1);
    assert!(!scene.sent()[0].is_batch);
    drop(CALLS.take());
}
