//! `Lines` and `Place`: whoever waits for a key has a place in its line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tollgate_core::inside::Companion;
use tollgate_core::{Key, Operation, Store, StoreError, Verdicts};

use super::caller::Caller;
use super::error::TooLong;
use super::line::{Line, Position, Turn};
use crate::key::OwnedKey;

/// The lines of a limiter and its clones: one for each key for which calls wait or are on their way
/// to the store.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<HashMap<OwnedKey, Line>>,
    /// The number of the next call. Never used again: a line may end, and another begin, between
    /// the answer to a call and the drop of its place.
    next_number: AtomicU64,
}

/// The lines that a limiter and its clones share.
#[derive(Default)]
pub(super) struct Shared(pub(super) Arc<Lines>);

impl Companion for Shared {
    /// Lets the calls for `key` ask again at once.
    fn given_back(&self, key: Key<'_>) {
        let key = OwnedKey::from(key);
        self.0.change(&key, |line| line.look_again(Instant::now()));
    }
}

impl Lines {
    /// Puts a call at the end of its line.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if it would wait longer than `longest`.
    pub(super) fn enter<S: Store + 'static>(
        self: &Arc<Self>,
        caller: &Arc<Caller<S>>,
        longest: Duration,
    ) -> Result<Place<S>, TooLong> {
        let now = Instant::now();
        let wake = Arc::new(Notify::new());
        let mut lines = self.lock();
        let line = lines
            .entry(caller.owned_key().clone())
            .or_insert_with(|| Line::new(now));
        // Under the lock, so numbers grow within each line.
        let position = Position {
            number: self.next_number.fetch_add(1, Ordering::Relaxed),
            cost: caller.cost(),
            entered: now,
            longest,
        };
        line.enter(caller.asker(), position, Arc::clone(&wake))?;
        Ok(Place {
            lines: Arc::clone(self),
            caller: Arc::clone(caller),
            wake,
            position,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnedKey, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the line of `key`, if there is one, and removes it if nobody is left in it.
    fn change<T>(&self, key: &OwnedKey, change: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut lines = self.lock();
        let line = lines.get_mut(key)?;
        let result = change(line);
        if line.is_empty() {
            lines.remove(key);
        }
        Some(result)
    }
}

/// A place in a line; whoever drops it leaves the line.
pub(super) struct Place<S: Store + 'static> {
    lines: Arc<Lines>,
    caller: Arc<Caller<S>>,
    wake: Arc<Notify>,
    position: Position,
}

impl<S: Store + 'static> Place<S> {
    /// Returns what to do next. If that is to ask, the caller must do so.
    pub(super) fn turn(&self) -> Turn {
        let now = Instant::now();
        let turn = self.lines.change(self.caller.owned_key(), |line| {
            line.turn(self.caller.asker(), &self.position, now)
        });
        turn.unwrap_or(Turn::Gone)
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

    /// Asks the store, and tells the line what it answered.
    pub(super) fn ask(
        &self,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send + 'static {
        let asking = Asking {
            lines: Arc::clone(&self.lines),
            caller: Arc::clone(&self.caller),
            number: self.position.number,
            asked: Instant::now(),
            answered: false,
        };
        async move { asking.run().await }
    }
}

impl<S: Store + 'static> Drop for Place<S> {
    fn drop(&mut self) {
        let number = self.position.number;
        self.lines.change(self.caller.owned_key(), |line| {
            line.leave(self.caller.asker(), number)
        });
    }
}

/// A call of a line that is on its way to the store.
struct Asking<S: Store + 'static> {
    lines: Arc<Lines>,
    caller: Arc<Caller<S>>,
    number: u64,
    asked: Instant,
    answered: bool,
}

impl<S: Store + 'static> Asking<S> {
    async fn run(mut self) -> Result<Verdicts, StoreError> {
        let answer = self.caller.decide(Operation::Consume).await;
        self.answer(answer.as_ref().ok());
        answer
    }

    fn answer(&mut self, answer: Option<&Verdicts>) {
        self.answered = true;
        self.lines.change(self.caller.owned_key(), |line| {
            line.answered(self.caller.asker(), self.number, self.asked, answer);
        });
    }
}

/// The runtime may end before the call does.
impl<S: Store + 'static> Drop for Asking<S> {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(None);
        }
    }
}
