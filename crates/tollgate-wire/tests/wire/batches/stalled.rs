//! Senders that do not run: calls end at their deadlines all the same. And how large futures are, which are
//! allocated and copied for every call.

use std::future::pending;
use std::hint::black_box;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::ErrorKind;
use tollgate_core::store::{Check, Request};
use tollgate_wire::{Engine, Failure, Options, Runtime, ScriptCall, WireStore};

use super::tasks::begin;
use crate::engine::limit;

const DEADLINE: Duration = Duration::from_millis(50);
/// The size of the futures of some client crates.
const LARGE: usize = 4_096;

/// An engine whose server never answers, on a runtime without timers, which polls each task once or
/// never. Its futures are large.
#[derive(Debug)]
struct Stalled {
    polls_once: bool,
}

async fn unanswered<T>() -> T {
    let held = [0_u8; LARGE];
    let answer = pending().await;
    black_box(held);
    answer
}

impl Engine for Stalled {
    async fn run(&self, _: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        unanswered().await
    }

    async fn load(&self, _: &ScriptCall<'_>) -> Result<(), Failure> {
        unanswered().await
    }

    async fn forget(&self, _: &[Vec<u8>]) -> Result<(), Failure> {
        unanswered().await
    }

    async fn within<F>(&self, _: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        Some(work.await)
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn is_clustered(&self) -> bool {
        false
    }

    fn runtime(&self) -> Option<Runtime> {
        Some(match self.polls_once {
            false => Runtime::new(0, mem::forget, Instant::now),
            true => {
                let spawn = |mut task: Pin<Box<dyn Future<Output = ()> + Send>>| {
                    let _ = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    mem::forget(task);
                };
                Runtime::new(1, spawn, Instant::now)
            }
        })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn store(polls_once: bool) -> WireStore<Stalled> {
    let options = Options::new().with_batches_only().with_deadline(DEADLINE);
    WireStore::new(Stalled { polls_once }, options)
}

/// Makes equal calls at once, on this thread only, and returns the kinds of their errors.
fn errors(store: &WireStore<Stalled>, calls: usize) -> Vec<ErrorKind> {
    let limit = limit("gcra:1000/1s");
    let request = Request::consume(Check::new(&limit, "alice", 1));
    let begun = Instant::now();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let calls: Vec<_> = (0..calls).map(|_| begin(store, &request)).collect();
    let errors = calls.into_iter().map(|mut call| {
        loop {
            if let Poll::Ready(outcome) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
                assert!(begun.elapsed() >= DEADLINE);
                return outcome.unwrap_err().kind();
            }
            let left = (600 * DEADLINE).saturating_sub(begun.elapsed());
            assert!(!left.is_zero(), "the call waits beyond its deadline");
            thread::park_timeout(left);
        }
    });
    errors.collect()
}

#[test]
fn calls_whose_sender_never_runs_end_uncounted_at_their_deadline() {
    let store = store(false);
    for _ in 0..3 {
        assert_eq!(errors(&store, 5), [ErrorKind::Unavailable; 5]);
        // Those of before are gone.
        let shown = format!("{store:?}");
        assert!(shown.contains("batches: 1,"), "{shown}");
    }
}

#[test]
fn call_whose_sender_hangs_may_have_been_counted() {
    let store = store(true);
    for _ in 0..2 {
        assert_eq!(errors(&store, 1), [ErrorKind::Unknown]);
    }
}

/// Perhaps its sender is as late, and the reply is there.
#[test]
fn call_whose_caller_is_late_waits_longer() {
    for polls_once in [false, true] {
        let store = store(polls_once);
        let limit = limit("gcra:1000/1s");
        let request = Request::consume(Check::new(&limit, "alice", 1));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut call = begin(&store, &request);
        assert!(call.as_mut().poll(&mut context).is_pending());
        thread::sleep(4 * DEADLINE);
        let looked = Instant::now();
        while call.as_mut().poll(&mut context).is_pending() {
            thread::park_timeout(Duration::from_secs(30));
        }
        assert!(looked.elapsed() >= 8 * DEADLINE, "{:?}", looked.elapsed());
    }
}

#[test]
fn a_reset_holds_the_engines_future_once_and_a_call_in_a_batch_never() {
    let store = store(false);
    let limit = limit("gcra:10/1m");
    let request = Request::consume(Check::new(&limit, "k", 1));
    let decision = size_of_val(&store.execute(&request));
    assert!(decision < LARGE, "{decision} bytes");
    let reset = size_of_val(&store.reset(request.checks()));
    assert!(reset < LARGE + LARGE / 4, "{reset} bytes");
}
