//! `Lines` and `Place`: whoever waits for a key has a place in its line.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::call::Companion;
use tollgate_core::store::{Operation, Verdicts};
use tollgate_core::{Key, Limit, Store};

use super::Patience;
use super::caller::Caller;
use super::error::{TooLong, WaitError};
use super::line::{Kept, Line, Position, Start, Turn};
use crate::key::{OwnedKey, OwnedKeys};

/// The most calls of a limiter and its clones that are on their way to the store at a time. Others
/// wait in this process, where nothing runs out of time but themselves.
const MOST_ON_THEIR_WAY: usize = 1_024;

/// The lines of a limiter, its clones, and itself in all time zones: for each key, those of the calls that it
/// counts and that wait or are on their way to the store.
struct Lines {
    lines: Mutex<HashMap<OwnedKey, OfKey>>,
    /// How many places there are in all lines.
    places: AtomicUsize,
    // With some features of Tokio, a semaphore does not say that it is safe to unwind past it.
    on_their_way: AssertUnwindSafe<Semaphore>,
}

/// What calls of one key have in common if they stand in one line: where in memory their limits are, which
/// are those of one zone, and the key of each limit, if there are several.
type Name = (usize, Option<Arc<[OwnedKey]>>);

type OfKey = HashMap<Name, Arc<Mutex<Line>>>;

fn name(limits: &[Limit], keys: &OwnedKeys) -> Name {
    (limits.as_ptr().addr(), keys.each().cloned())
}

impl Lines {
    /// Removes the line of these keys if it is still this one, and nothing is left in it: another call
    /// may have entered since, or another line may have begun.
    fn remove(&self, keys: &OwnedKeys, name: &Name, line: &Arc<Mutex<Line>>) {
        let mut lines = lock(&self.lines);
        if !is_idle(&lock(line)) {
            return;
        }
        for key in keys.all() {
            if let Some(of_key) = lines.get_mut(key) {
                if of_key.get(name).is_some_and(|own| Arc::ptr_eq(own, line)) {
                    of_key.remove(name);
                }
                if of_key.is_empty() {
                    lines.remove(key);
                }
            }
        }
    }
}

/// The lines that a limiter and its clones share.
pub(super) struct Shared(Arc<Lines>);

impl Default for Shared {
    fn default() -> Self {
        Self(Arc::new(Lines {
            lines: Mutex::default(),
            places: AtomicUsize::new(0),
            on_their_way: AssertUnwindSafe(Semaphore::new(MOST_ON_THEIR_WAY)),
        }))
    }
}

impl Companion for Shared {
    /// Lets the calls for `key` ask again at once.
    fn given_back(&self, key: Key<'_>) {
        let lines = lock(&self.0.lines);
        let of_key = lines.get(&OwnedKey::from(key)).into_iter().flatten();
        let of_key: Vec<_> = of_key.map(|(_, line)| Arc::clone(line)).collect();
        drop(lines);
        for line in of_key {
            lock(&line).look_again(Instant::now());
        }
    }
}

impl Shared {
    /// Returns how many calls have a place in a line.
    pub(super) fn places(&self) -> usize {
        self.0.places.load(Ordering::Relaxed)
    }

    /// Puts a call into its line.
    ///
    /// # Errors
    ///
    /// [`WaitError::TooLong`] and [`WaitError::TooManyWaiting`] if it would have to wait longer, or behind
    /// more others, than it may.
    pub(super) fn enter<S: Store + 'static>(
        &self,
        caller: &Arc<Caller<S>>,
        patience: Patience,
    ) -> Result<Place<S>, WaitError> {
        let now = Instant::now();
        let wake = Arc::new(Notify::new());
        let cost = caller.cost().clone();
        let mut lines = lock(&self.0.lines);
        let keys = caller.keys();
        let name = name(caller.limits(), keys);
        let found = lines.get(keys.name()).and_then(|of_key| of_key.get(&name));
        let line = match found {
            Some(line) => Arc::clone(line),
            None => {
                let reserves = caller.supports(Operation::Reserve {
                    max_delay: Duration::ZERO,
                });
                let line = Arc::new(Mutex::new(Line::new(reserves, now)));
                for key in keys.all() {
                    let of_key = lines.entry(key.clone()).or_default();
                    let _ = of_key.insert(name.clone(), Arc::clone(&line));
                }
                line
            }
        };
        let asker = caller.asker();
        let woken = Arc::clone(&wake);
        let entered = lock(&line).enter(asker, caller.class(), cost, patience, now, woken);
        drop(lines);
        let line = InLine {
            lines: Arc::clone(&self.0),
            line,
            caller: Arc::clone(caller),
        };
        match entered {
            Ok(position) => {
                let _ = self.0.places.fetch_add(1, Ordering::Relaxed);
                Ok(Place {
                    line,
                    wake,
                    position,
                })
            }
            Err(refused) => {
                line.change(|_| ());
                Err(refused)
            }
        }
    }
}

/// Returns whether nothing would be lost with the line.
fn is_idle(line: &Line) -> bool {
    line.idle_from().is_some_and(|from| from <= Instant::now())
}

/// Locks `mutex`; a thread that panicked while it held the lock has changed nothing by halves.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line, for a call that is in it, or was.
struct InLine<S: Store + 'static> {
    lines: Arc<Lines>,
    line: Arc<Mutex<Line>>,
    caller: Arc<Caller<S>>,
}

impl<S: Store + 'static> InLine<S> {
    /// Changes the line, and removes it if nothing is left in it.
    fn change<T>(&self, change: impl FnOnce(&mut Line) -> T) -> T {
        let mut line = lock(&self.line);
        let result = change(&mut line);
        let wants_keeper = line.wants_keeper();
        let is_idle = is_idle(&line);
        drop(line);
        if wants_keeper {
            let keeper = Keeper {
                line: self.clone(),
                is_done: false,
            };
            self.caller.runtime().spawn(keeper.run());
        }
        if is_idle {
            self.remove();
        }
        result
    }

    fn remove(&self) {
        let keys = self.caller.keys();
        let name = name(self.caller.limits(), keys);
        self.lines.remove(keys, &name, &self.line);
    }
}

impl<S: Store + 'static> Clone for InLine<S> {
    fn clone(&self) -> Self {
        Self {
            lines: Arc::clone(&self.lines),
            line: Arc::clone(&self.line),
            caller: Arc::clone(&self.caller),
        }
    }
}

/// A place in a line; whoever drops it leaves the line.
pub(super) struct Place<S: Store + 'static> {
    line: InLine<S>,
    wake: Arc<Notify>,
    position: Position,
}

impl<S: Store + 'static> Place<S> {
    /// Returns what to do next. If that is to ask, the caller must do so.
    pub(super) fn turn(&self) -> Turn {
        let now = Instant::now();
        let asker = self.line.caller.asker();
        self.line
            .change(|line| line.turn(asker, &self.position, now))
    }

    /// Waits until the call is woken, or until `until`.
    pub(super) async fn wait(&self, until: Option<Instant>) {
        match until {
            Some(until) => tokio::select! {
                () = self.wake.notified() => {}
                () = sleep_until(until) => {}
            },
            None => self.wake.notified().await,
        }
    }

    /// Asks the store, and tells the line what it answered. Returns what the call may use now, or
    /// `None` if it has to wait.
    pub(super) fn ask(
        &self,
        operation: Operation<'static>,
    ) -> impl Future<Output = Result<Option<Start>, WaitError>> + Send + 'static {
        let asking = Asking {
            line: self.line.clone(),
            position: self.position.clone(),
            operation,
            asked: Instant::now(),
            answered: false,
        };
        asking.run()
    }

    /// Leaves the line. If the call is on its way, what it brings is for others.
    pub(super) fn leave(&self) {
        let number = self.position.number;
        let asker = self.line.caller.asker();
        let now = Instant::now();
        self.line.change(|line| line.leave(asker, number, now));
    }
}

impl<S: Store + 'static> Drop for Place<S> {
    fn drop(&mut self) {
        self.leave();
        let _ = self.line.lines.places.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for the right to be on the way to the store, as long as the call may wait at all.
async fn way(lines: &Lines, patience: Patience) -> Option<SemaphorePermit<'_>> {
    let way = lines.on_their_way.acquire();
    // The semaphore is never closed.
    match patience.deadline() {
        Some(deadline) => timeout_at(deadline, way).await.ok()?.ok(),
        None => way.await.ok(),
    }
}

/// A call of a line that is on its way to the store.
struct Asking<S: Store + 'static> {
    line: InLine<S>,
    position: Position,
    operation: Operation<'static>,
    asked: Instant,
    answered: bool,
}

impl<S: Store + 'static> Asking<S> {
    async fn run(mut self) -> Result<Option<Start>, WaitError> {
        let InLine { lines, caller, .. } = self.line.clone();
        let Some(_way) = way(&lines, self.position.patience).await else {
            let now = Instant::now();
            let refused = lock(&self.line.line).too_long(caller.asker(), &self.position, now);
            let _ = self.answer(None);
            return Err(refused.into());
        };
        self.asked = Instant::now();
        match caller.decide(self.operation).await {
            Ok(answer) => Ok(self.answer(Some(answer))?),
            Err(error) => {
                let _ = self.answer(None);
                Err(error.into())
            }
        }
    }

    fn answer(&mut self, answer: Option<Verdicts>) -> Result<Option<Start>, TooLong> {
        self.answered = true;
        let asker = self.line.caller.asker();
        let (asked, operation) = (self.asked, self.operation);
        let now = Instant::now();
        let position = &self.position;
        self.line
            .change(|line| line.answered(asker, position, asked, operation, answer, now))
    }
}

/// The runtime may end before the call does.
impl<S: Store + 'static> Drop for Asking<S> {
    fn drop(&mut self) {
        if !self.answered {
            let _ = self.answer(None);
        }
    }
}

/// The task that gives back what nobody in a line uses.
struct Keeper<S: Store + 'static> {
    line: InLine<S>,
    is_done: bool,
}

impl<S: Store + 'static> Keeper<S> {
    async fn run(mut self) {
        let InLine { line, caller, .. } = self.line.clone();
        let woken = lock(&line).keeper();
        while !self.is_done {
            let next = lock(&line).keep(Instant::now());
            match next {
                Kept::GiveBack(starts) => {
                    // A reservation can be given back as long as it is the last. They are sent in
                    // this order, but together: calls wait for that.
                    let starts = starts.into_iter().rev();
                    join_all(starts.map(|start| caller.give_back(start.verdicts))).await;
                    lock(&line).gave_back();
                }
                Kept::Sleep(until) => tokio::select! {
                    () = woken.notified() => {}
                    () = sleep_until(until) => {}
                },
                Kept::Done => self.is_done = true,
            }
        }
    }
}

/// The runtime may end before the task does.
impl<S: Store + 'static> Drop for Keeper<S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.line.change(|line| line.lost_keeper(Instant::now()));
            return;
        }
        let until = lock(&self.line.line).remembered();
        if until <= Instant::now() {
            return self.line.remove();
        }
        let InLine {
            lines,
            line,
            caller,
        } = self.line.clone();
        // This task no longer holds the store.
        let keys = caller.keys().clone();
        let remembered = Remembered {
            name: name(caller.limits(), &keys),
            lines,
            line,
            keys,
            until,
        };
        caller.runtime().spawn(remembered.end());
    }
}

/// A line in which nobody is; dropping this removes it.
struct Remembered {
    lines: Arc<Lines>,
    line: Arc<Mutex<Line>>,
    keys: OwnedKeys,
    name: Name,
    until: Instant,
}

impl Remembered {
    async fn end(self) {
        sleep_until(self.until).await;
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        let now = Instant::now();
        if now < self.until {
            // The runtime ends.
            lock(&self.line).forget(now);
        }
        self.lines.remove(&self.keys, &self.name, &self.line);
    }
}

#[cfg(test)]
mod tests;
