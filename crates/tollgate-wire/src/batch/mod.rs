//! Batches: one script decides many calls that are made at about the same time.
//!
//! While few calls are in flight, each is sent singly. Beyond that, new calls gather in a queue, and a
//! task, the sender, sends all that wait as one batch; while it waits for the reply, the next batch
//! gathers. No call waits for a timer. If a sender does not run, a thread of its own wakes the callers at
//! their deadlines.

mod call;
mod calls;
mod overdue;
mod queue;
mod reply;

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

use tollgate_core::store::Lateness;

pub(super) use self::call::{BatchedCall, Packed};
use self::calls::Batch;
pub(super) use self::calls::{Ended, Member, Undecided};
pub(super) use self::queue::Queues;
use self::queue::{Queue, Sender};
use super::engine::{Engine, Runtime, ScriptCall};
use super::runner::Runner;
use super::script::Script;

/// A call that has entered a queue: it is sent singly, or added to a batch.
pub(super) struct InQueue {
    queue: Arc<Queue>,
    runtime: Runtime,
    is_alone: bool,
    now: Instant,
}

impl InQueue {
    /// Enters the queue of `runtime`, which polls the call, and of `partition`, if there is one.
    pub(super) fn enter(queues: &Queues, runtime: Runtime, partition: Option<&[u8]>) -> Self {
        let now = (runtime.now)();
        let queue = queues.get(runtime.id, partition.unwrap_or_default());
        Self {
            is_alone: queue.enter(now),
            queue,
            runtime,
            now,
        }
    }

    /// Returns the runtime that polls the call.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns when the call was made.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns whether the call is sent singly.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Adds the call to a batch, and starts a sender if one is needed.
    pub(super) fn add<E: Engine>(
        &self,
        runner: &Arc<Runner<E>>,
        mut call: BatchedCall<'_>,
    ) -> Member {
        let (member, needs_sender) = self.queue.add(&mut call, &self.runtime, self.now);
        if needs_sender {
            let sending = Sending {
                runner: Arc::clone(runner),
                runtime: self.runtime,
            };
            start(sending, Sender::of(Arc::clone(&self.queue)));
        }
        member
    }
}

/// Waits for the end of a call. The call was added to its batch in this same poll, with the waker of this
/// poll. `now` is the time of its runtime.
pub(super) async fn ended(member: &Member, now: fn() -> Instant) -> Ended {
    // The batch has this poll's waker already.
    next_poll().await;
    poll_fn(|context| match member.poll(context.waker(), now) {
        Some(ended) => Poll::Ready(ended),
        None => Poll::Pending,
    })
    .await
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if self.is_alone {
            self.queue.leave();
        }
    }
}

/// What a sender's task needs.
struct Sending<E> {
    runner: Arc<Runner<E>>,
    runtime: Runtime,
}

impl<E> Clone for Sending<E> {
    fn clone(&self) -> Self {
        Self {
            runner: Arc::clone(&self.runner),
            runtime: self.runtime,
        }
    }
}

/// Spawns the task of a sender. If it never runs, the sender ends when the task is dropped.
fn start<E: Engine>(sending: Sending<E>, sender: Sender) {
    let spawn = sending.runtime.spawn;
    spawn(Box::pin(send_batches(sending, sender)));
}

/// Sends the batches of a queue, one after the other, while there are any.
async fn send_batches<E: Engine>(sending: Sending<E>, mut sender: Sender) {
    let now = sending.runtime.now;
    while let Some((batch, needs_sender)) = sender.next(now()) {
        if needs_sender {
            start(sending.clone(), sender.another());
        }
        send_batch(&sending, &mut sender, &batch).await;
        let most = sending.runner.options().batch_limits;
        if sender.rest(&batch, most, now()) {
            yield_once().await;
        }
    }
}

/// Sends a batch, and ends its calls with the outcome.
async fn send_batch<E: Engine>(sending: &Sending<E>, sender: &mut Sender, batch: &Batch) {
    let Sending {
        runner, runtime, ..
    } = sending;
    let Some((load, mut deadline)) = batch.close((runtime.now)()) else {
        return;
    };
    let _unfinished = Unfinished(batch);
    let call = ScriptCall {
        script: Script::of_batch(load.set),
        keys: &load.keys,
        argument: &load.argument,
        ids: &[],
    };
    let between = Lateness::between(runner.options().deadline);
    let mut work = pin!(runner.run(&call, batch.out()));
    let outcome = loop {
        let now = (runtime.now)();
        let timer = deadline.saturating_duration_since(now).min(between);
        if let Some(outcome) = runner.engine().within(timer, work.as_mut()).await {
            break Some(outcome);
        }
        // More deadlines may have passed than the one that the timer was set to.
        let due = now + timer;
        match batch.expire(due, due.max((runtime.now)())) {
            Some(next) => deadline = next,
            None => break None,
        }
    };
    batch.end(outcome, (runtime.now)());
    // A client often reads the replies to two batches at once. If the callers of both were woken now,
    // the next two batches would leave together, and the server would be idle until then.
    if sender.is_another_idle() {
        yield_once().await;
    }
    sender.replied();
    // A runtime polls tasks in the order in which they were woken. Starting a sender after waking half of
    // the callers gives the server their next calls while the other half is still being woken.
    batch.wake_half();
    if let Some(sender) = sender.hand_over() {
        start(sending.clone(), sender);
    }
}

/// Finishes a batch when dropped, even if its task panics or is dropped with the runtime.
struct Unfinished<'d>(&'d Batch);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Returns the current task's waker.
pub(super) async fn waker() -> Waker {
    poll_fn(|context| Poll::Ready(context.waker().clone())).await
}

/// Lets other tasks run.
async fn yield_once() {
    poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
    next_poll().await;
}

/// Returns at the second poll, without asking for one.
async fn next_poll() {
    let mut is_first = true;
    poll_fn(|_| match mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}
