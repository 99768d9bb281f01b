//! Calls that are made while others are on their way wait for them, and then go together: one script
//! decides them all.
//!
//! Up to a few calls go by themselves. When there are more, a driver takes those that wait along,
//! as soon as it can; while it waits for the reply, later calls gather. Nothing waits for a timer.

mod departure;
mod lane;
mod passenger;
mod reply;

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

pub(super) use self::departure::Ended;
use self::departure::{Departure, Seat};
pub(super) use self::lane::Lanes;
use self::lane::{Driver, Lane};
pub(super) use self::passenger::{Packed, Passenger};
use super::engine::{Call, Engine, Runtime};
use super::script::Script;
use super::store::Core;

/// Which lane a call uses.
pub(super) struct InLane {
    lane: Arc<Lane>,
    runtime: Runtime,
    is_alone: bool,
    gap: Duration,
    now: Instant,
}

impl InLane {
    /// Puts a call that `runtime` polls into the lane of `partition`; without one, all its calls have
    /// the same lane. With a `gap`, it waits if others are on their way, unless the last of them left
    /// that long ago; without one, it always waits.
    pub(super) fn enter(
        lanes: &Lanes,
        runtime: Runtime,
        partition: Option<&[u8]>,
        gap: Option<Duration>,
    ) -> Self {
        let now = (runtime.now)();
        let lane = lanes.get(runtime.id, partition.unwrap_or_default());
        Self {
            is_alone: gap.is_some_and(|gap| lane.enter(now, gap)),
            lane,
            runtime,
            gap: gap.unwrap_or_default(),
            now,
        }
    }

    /// Returns the runtime that polls the call.
    pub(super) fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// Returns when the call was made.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns whether the call goes by itself.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Sends the call with others.
    pub(super) fn board<E: Engine>(
        &self,
        core: &Arc<Core<E>>,
        mut passenger: Passenger<'_>,
    ) -> Seat {
        let (seat, needs_driver) = self.lane.board(&mut passenger, self.now, self.gap);
        if needs_driver {
            start(Way {
                core: Arc::clone(core),
                runtime: self.runtime,
                lane: Arc::clone(&self.lane),
                gap: self.gap,
            });
        }
        seat
    }
}

/// Waits for the end of a call that `runtime` polls and that has this `deadline`. It was made in the
/// same poll, with the same waker.
pub(super) async fn ended(
    seat: &Seat,
    engine: &impl Engine,
    runtime: Runtime,
    deadline: Instant,
) -> Ended {
    // The driver, which is on the same runtime, ends a call at its deadline. But a program may move a
    // future that has begun to another runtime, and let the first one stand still.
    let mut polled_by = runtime;
    // The call was made with the waker of this poll.
    let mut has_waker = true;
    loop {
        let mut is_new = true;
        let stays = poll_fn(|context| {
            if mem::take(&mut has_waker) {
                is_new = false;
                return Poll::Pending;
            }
            if let Some(ended) = seat.poll(context.waker()) {
                return Poll::Ready(Ok(ended));
            }
            if mem::take(&mut is_new) {
                return Poll::Pending;
            }
            match engine.runtime() {
                Some(other) if other.id != polled_by.id => Poll::Ready(Err(other)),
                _ => Poll::Pending,
            }
        });
        let ended = if polled_by.id == runtime.id {
            stays.await
        } else {
            let left = deadline.saturating_duration_since((polled_by.now)());
            // In a box, so that calls which stay where they are have small futures.
            let Some(ended) = Box::pin(engine.within(left, stays)).await else {
                return seat.late();
            };
            ended
        };
        match ended {
            Ok(ended) => return ended,
            Err(other) => polled_by = other,
        }
    }
}

impl Drop for InLane {
    fn drop(&mut self) {
        if self.is_alone {
            self.lane.leave();
        }
    }
}

/// What a driver needs.
struct Way<E> {
    core: Arc<Core<E>>,
    runtime: Runtime,
    lane: Arc<Lane>,
    gap: Duration,
}

impl<E> Clone for Way<E> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            runtime: self.runtime,
            lane: Arc::clone(&self.lane),
            gap: self.gap,
        }
    }
}

/// Starts a driver, which the lane has counted.
fn start<E: Engine>(way: Way<E>) {
    let spawn = way.runtime.spawn;
    // Made at once: if the task never runs, the driver ends when the task is dropped.
    let driver = Driver::of(Arc::clone(&way.lane));
    spawn(Box::pin(drive(way, driver)));
}

/// Takes departures along, as long as there are any.
async fn drive<E: Engine>(way: Way<E>, mut driver: Driver) {
    let mut stays = true;
    loop {
        let now = (way.runtime.now)();
        if let Some((departure, needs_driver)) = driver.next(now, way.gap, stays) {
            if needs_driver {
                start(way.clone());
            }
            travel(&way.core, way.runtime, &departure).await;
            stays = true;
        } else if driver.has_ended() {
            return;
        } else {
            // Callers that just got their answers may call again.
            stays = false;
            yield_once().await;
        }
    }
}

/// Sends the calls of a departure and tells them how they ended.
async fn travel<E: Engine>(core: &Core<E>, runtime: Runtime, departure: &Departure) {
    let Some((load, mut deadline)) = departure.seal((runtime.now)()) else {
        return;
    };
    let call = Call {
        script: Script::of_batch(load.set),
        keys: &load.keys,
        argument: &load.argument,
        ids: &[],
    };
    let mut unfinished = Unfinished(Some(departure));
    let mut work = pin!(core.run(&call, departure.out()));
    let outcome = loop {
        let left = deadline.saturating_duration_since((runtime.now)());
        if let Some(outcome) = core.engine().within(left, work.as_mut()).await {
            break Some(outcome);
        }
        // By now, more deadlines may have passed than the one that was waited for.
        match departure.expire(deadline.max((runtime.now)())) {
            Some(next) => deadline = next,
            None => break None,
        }
    };
    unfinished.0 = None;
    departure.arrive(outcome);
}

/// A departure whose driver may be dropped with its runtime.
struct Unfinished<'d>(Option<&'d Departure>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(departure) = self.0 {
            departure.abandon();
        }
    }
}

/// Lets other tasks run.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
