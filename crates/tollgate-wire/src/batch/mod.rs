//! Batches: calls that are made while others are on their way wait for them, and then one script
//! decides them together.
//!
//! A few calls are sent by themselves. When there are more, a task, the sender, sends those that wait
//! as a batch, as soon as it can; while it waits for the reply, later calls gather in a queue. Nothing
//! waits for a timer.

mod call;
mod calls;
mod queue;
mod reply;

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

pub(super) use self::call::{BatchedCall, Packed};
use self::calls::Batch;
pub(super) use self::calls::{Ended, Member, Undecided};
pub(super) use self::queue::Queues;
use self::queue::{Queue, Sender};
use super::engine::{Engine, Runtime, ScriptCall};
use super::runner::Runner;
use super::script::Script;

/// A call's use of a queue.
pub(super) struct InQueue {
    queue: Arc<Queue>,
    runtime: Runtime,
    is_alone: bool,
    now: Instant,
}

impl InQueue {
    /// Puts a call that `runtime` polls into the queue of `partition`; without one, all its calls have
    /// the same queue.
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

    /// Returns whether the call is sent by itself.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Sends the call with others.
    pub(super) fn add<E: Engine>(
        &self,
        runner: &Arc<Runner<E>>,
        mut call: BatchedCall<'_>,
    ) -> Member {
        let (member, needs_sender) = self.queue.add(&mut call, self.now);
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

/// Waits for the end of a call that `runtime` polls and that was made in the same poll, with the same
/// waker.
pub(super) async fn ended(member: &Member, engine: &impl Engine, runtime: &Runtime) -> Ended {
    // The batch has the waker of this poll.
    next_poll().await;
    match ended_on(member, engine, runtime.id).await {
        Ok(ended) => ended,
        // In a box, so that calls which stay where they are have small futures.
        Err(other) => Box::pin(ended_elsewhere(member, engine, other)).await,
    }
}

/// Waits for the end of a call that a program has moved to another runtime.
async fn ended_elsewhere(member: &Member, engine: &impl Engine, mut runtime: Runtime) -> Ended {
    loop {
        // The sender ends calls at their deadlines, but the first runtime, which it is on, may stand
        // still.
        let left = member.deadline().saturating_duration_since((runtime.now)());
        let stays = ended_on(member, engine, runtime.id);
        match engine.within(left, stays).await {
            Some(Ok(ended)) => return ended,
            Some(Err(other)) => runtime = other,
            None => return member.late(),
        }
    }
}

/// Waits for the end of a call while the runtime with this `id` polls it. If another one does, fails
/// with that one.
fn ended_on(
    member: &Member,
    engine: &impl Engine,
    id: u64,
) -> impl Future<Output = Result<Ended, Runtime>> {
    poll_fn(move |context| {
        if let Some(ended) = member.poll(context.waker()) {
            return Poll::Ready(Ok(ended));
        }
        match engine.runtime() {
            Some(other) if other.id != id => Poll::Ready(Err(other)),
            _ => Poll::Pending,
        }
    })
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if self.is_alone {
            self.queue.leave();
        }
    }
}

/// What a sender needs.
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

/// Starts the task of a sender. If it never runs, the sender ends when the task is dropped.
fn start<E: Engine>(sending: Sending<E>, sender: Sender) {
    let spawn = sending.runtime.spawn;
    spawn(Box::pin(send_batches(sending, sender)));
}

/// Sends batches, one after the other, as long as there are any.
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

/// Sends the calls of a batch and tells their callers how they ended.
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
    let mut work = pin!(runner.run(&call, batch.out()));
    let outcome = loop {
        let left = deadline.saturating_duration_since((runtime.now)());
        if let Some(outcome) = runner.engine().within(left, work.as_mut()).await {
            break Some(outcome);
        }
        // By now, more deadlines may have passed than the one that was waited for.
        match batch.expire(deadline.max((runtime.now)())) {
            Some(next) => deadline = next,
            None => break None,
        }
    };
    batch.end(outcome);
    // A client often reads the replies to two batches at once. If the callers of both were woken now,
    // their next calls would leave at once, too, and the server would wait for all of them.
    if sender.is_another_idle() {
        yield_once().await;
    }
    sender.replied();
    // A runtime polls tasks in the order in which they were woken. So a task that starts halfway sends
    // what half of the callers call next, and the server has work while the other half calls, which is
    // woken at the end.
    batch.wake_half();
    if let Some(sender) = sender.hand_over() {
        start(sending.clone(), sender);
    }
}

/// A batch that finishes in any case, even if its task is dropped with the runtime, or panics.
struct Unfinished<'d>(&'d Batch);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// Returns the waker of the task.
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

/// Returns at its second poll, and does not cause it.
async fn next_poll() {
    let mut is_first = true;
    poll_fn(|_| match mem::take(&mut is_first) {
        true => Poll::Pending,
        false => Poll::Ready(()),
    })
    .await;
}
