//! Calls that are made while others are on their way wait for them, and then go together: one script
//! decides them all.
//!
//! Up to a few calls go by themselves. When there are more, a driver takes those that wait along,
//! as soon as it can; while it waits for the reply, later calls gather. Nothing waits for a timer.

mod departure;
mod lane;
mod reply;

use std::collections::HashMap;
use std::future::poll_fn;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use self::departure::{Departure, Seat};
pub(super) use self::departure::{Ended, Unit};
use self::lane::{Driver, Lane};
use super::engine::{Call, Engine, Failure, Runtime};
use super::script::Script;
use super::store::Core;

/// The lanes of a store.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The lane of a store whose scripts take any keys.
    only: Arc<Lane>,
    /// In a cluster, the lanes of partitions with calls: a script takes keys of one slot.
    of_partition: Mutex<HashMap<Box<[u8]>, Arc<Lane>>>,
}

/// Which lane a call uses, until it is dropped.
pub(super) struct InLane<'s, 'p> {
    lanes: &'s Lanes,
    lane: Arc<Lane>,
    partition: Option<&'p [u8]>,
    is_alone: bool,
    gap: Duration,
    now: Instant,
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Arc<Lane>>> {
        let lanes = &self.of_partition;
        lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a call into the lane of `partition`; without one, all calls have the same lane. With a
    /// `gap`, it waits if others are on their way, unless the last of them left that long ago;
    /// without one, it always waits.
    pub(super) fn enter<'s, 'p>(
        &'s self,
        partition: Option<&'p [u8]>,
        now: Instant,
        gap: Option<Duration>,
    ) -> InLane<'s, 'p> {
        let lane = match partition {
            None => Arc::clone(&self.only),
            Some(partition) => {
                let mut lanes = self.lock();
                match lanes.get(partition) {
                    Some(lane) => Arc::clone(lane),
                    None => Arc::clone(lanes.entry(partition.into()).or_default()),
                }
            }
        };
        let is_alone = gap.is_some_and(|gap| lane.enter(now, gap));
        InLane {
            lanes: self,
            lane,
            partition,
            is_alone,
            gap: gap.unwrap_or_default(),
            now,
        }
    }

    /// Gives back the lane of `partition`, and removes it if nobody else uses it.
    fn forget(&self, partition: &[u8], lane: Arc<Lane>) {
        let mut lanes = self.lock();
        drop(lane);
        // Only the table has it, where nobody can get hold of it meanwhile.
        if lanes
            .get(partition)
            .is_some_and(|lane| Arc::strong_count(lane) == 1)
        {
            lanes.remove(partition);
        }
    }
}

impl InLane<'_, '_> {
    /// Returns when the call was made.
    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Returns whether the call goes by itself.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Sends the call with others.
    pub(super) fn board<'l, E: Engine>(
        &'l self,
        core: &'l Arc<Core<E>>,
        runtime: Runtime,
        unit: Unit,
    ) -> Ride<'l, E> {
        let (seat, needs_driver) = self.lane.board(unit, self.now, self.gap);
        let ride = Ride {
            seat,
            lane: self,
            core,
            runtime,
        };
        if needs_driver {
            ride.start_driver();
        }
        ride
    }
}

/// A call that goes with others; it resolves to how it ended.
pub(super) struct Ride<'l, E> {
    seat: Seat,
    lane: &'l InLane<'l, 'l>,
    core: &'l Arc<Core<E>>,
    runtime: Runtime,
}

impl<E: Engine> Ride<'_, E> {
    /// Waits for the end of the call until its deadline. That must not depend on its driver, whose
    /// runtime may stand still.
    pub(super) async fn ended(mut self, deadline: Duration) -> Ended {
        let engine = self.core.engine();
        let patience = lane::LONGEST_IDLE.saturating_mul(2).min(deadline);
        if let Some(ended) = engine.within(patience, &mut self).await {
            return ended;
        }
        let lane = &self.lane.lane;
        if lane.needs_driver((self.runtime.now)(), self.lane.gap) {
            self.start_driver();
        }
        let ended = engine.within(deadline - patience, &mut self).await;
        ended.unwrap_or_else(|| self.seat.late())
    }

    fn start_driver(&self) {
        start(Way {
            core: Arc::clone(self.core),
            runtime: self.runtime,
            lane: Arc::clone(&self.lane.lane),
            partition: self.lane.partition.map(Into::into),
            gap: self.lane.gap,
        });
    }
}

impl<E: Engine> Future for Ride<'_, E> {
    type Output = Ended;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        if let Some(ended) = self.seat.poll(context.waker()) {
            return Poll::Ready(ended);
        }
        // The driver may have ended with its runtime.
        if self.lane.lane.has_lost_its_drivers(self.runtime.now) {
            self.start_driver();
        }
        Poll::Pending
    }
}

impl Drop for InLane<'_, '_> {
    fn drop(&mut self) {
        if self.is_alone {
            self.lane.leave();
        }
        if let Some(partition) = self.partition {
            self.lanes.forget(partition, mem::take(&mut self.lane));
        }
    }
}

/// What a driver needs.
struct Way<E> {
    core: Arc<Core<E>>,
    runtime: Runtime,
    lane: Arc<Lane>,
    /// Of a lane that is forgotten when nobody uses it.
    partition: Option<Arc<[u8]>>,
    gap: Duration,
}

impl<E> Clone for Way<E> {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            runtime: self.runtime,
            lane: Arc::clone(&self.lane),
            partition: self.partition.clone(),
            gap: self.gap,
        }
    }
}

/// Starts a driver, which the lane has counted.
fn start<E: Engine>(way: Way<E>) {
    let driver = Driver::of(Arc::clone(&way.lane));
    (way.runtime.spawn)(Box::pin(async move {
        drive(&way, driver).await;
    }));
}

/// The driver may have ended, or its runtime.
impl<E> Drop for Way<E> {
    fn drop(&mut self) {
        if let Some(partition) = &self.partition {
            self.core
                .lanes()
                .forget(partition, mem::take(&mut self.lane));
        }
    }
}

/// Takes departures along, as long as there are any.
async fn drive<E: Engine>(way: &Way<E>, mut driver: Driver) {
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
    let now = (runtime.now)();
    let Some((load, last)) = departure.seal(now) else {
        return;
    };
    let call = Call {
        script: Script::of_batch(load.set),
        keys: &load.keys,
        argument: &load.argument,
        ids: &[],
    };
    let mut unfinished = Unfinished(Some(departure));
    let work = pin!(core.run(&call, departure.out()));
    let outcome = core.engine().within(last - now, work).await;
    unfinished.0 = None;
    departure.arrive(outcome);
}

/// A departure whose driver may be dropped with its runtime.
struct Unfinished<'d>(Option<&'d Departure>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(departure) = self.0 {
            let ended = "the runtime of another call, which had sent this one along, has ended";
            departure.arrive(Some(Err(if departure.is_out() {
                Failure::lost(ended)
            } else {
                Failure::not_sent(ended)
            })));
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
