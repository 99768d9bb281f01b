//! `Turns`: of those who would ask the store about a state, only as many do as it may allow, and the
//! others wait for their answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_lock::{Semaphore, SemaphoreGuardArc};
use foldhash::quality::RandomState;
use hashbrown::HashMap;

use super::known::{OwnedState, State};

type Gates = HashMap<OwnedState, Gate, RandomState>;

/// The states that callers take turns to ask about.
#[derive(Default)]
pub(super) struct Turns {
    gates: Mutex<Gates>,
    /// How many gates there are, to be read without the lock.
    count: AtomicUsize,
}

struct Gate {
    places: Arc<Semaphore>,
    /// How many places there are, taken or not.
    size: usize,
    /// How many callers wait or ask.
    callers: usize,
}

impl Turns {
    /// Begins to wait for a place to ask about this state. At first there is one. Returns `None` if
    /// nobody takes turns for it and none need to.
    pub(super) fn enter(&self, state: &State<'_>, need_to: bool) -> Option<Turn<'_>> {
        if !need_to && self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut gates = self.gates();
        let places = match gates.get_mut(state) {
            Some(gate) => {
                gate.callers += 1;
                Arc::clone(&gate.places)
            }
            None if need_to => {
                let places = Arc::new(Semaphore::new(1));
                let gate = Gate {
                    places: Arc::clone(&places),
                    size: 1,
                    callers: 1,
                };
                let _ = gates.insert(state.to_owned(), gate);
                self.count.store(gates.len(), Ordering::Relaxed);
                places
            }
            None => return None,
        };
        Some(Turn {
            turns: self,
            state: state.to_owned(),
            places,
            place: None,
            size: None,
        })
    }

    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits or asks, until it is dropped.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    state: OwnedState,
    places: Arc<Semaphore>,
    place: Option<SemaphoreGuardArc>,
    size: Option<usize>,
}

impl Turn<'_> {
    /// Waits for a place.
    pub(super) async fn wait(&mut self) {
        self.place = Some(self.places.acquire_arc().await);
    }

    pub(super) fn state(&self) -> State<'_> {
        self.state.borrow()
    }

    /// Lets so many ask at a time from now on, and one at least.
    pub(super) fn resize(&mut self, size: usize) {
        self.size = Some(size.max(1));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut gates = self.turns.gates();
        let Some(gate) = gates.get_mut(&self.state) else {
            return;
        };
        gate.callers -= 1;
        if gate.callers == 0 {
            let _ = gates.remove(&self.state);
            self.turns.count.store(gates.len(), Ordering::Relaxed);
            return;
        }
        let size = self.size.unwrap_or(gate.size);
        if size > gate.size {
            self.places.add_permits(size - gate.size);
            gate.size = size;
        } else if size < gate.size
            && let Some(place) = self.place.take()
        {
            place.forget();
            gate.size -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use tollgate_core::store::Check;

    use super::super::known::with_state;
    use super::*;

    fn enter<'t>(turns: &'t Turns, key: &str, need_to: bool) -> Option<Turn<'t>> {
        let limit = "a=gcra:1/1s".parse().unwrap();
        with_state(&Check::new(&limit, key, 1), |state| {
            turns.enter(&state, need_to)
        })
    }

    fn is_pending(future: Pin<&mut impl Future>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        future.poll(&mut context).is_pending()
    }

    /// Returns how many of 9 callers beside one get a place.
    fn places(turns: &Turns) -> usize {
        let mut callers: Vec<_> = (0..9).map(|_| enter(turns, "a", true).unwrap()).collect();
        let mut waiting: Vec<_> = callers
            .iter_mut()
            .map(|turn| Box::pin(turn.wait()))
            .collect();
        let mut pending = 0;
        for wait in &mut waiting {
            pending += usize::from(is_pending(wait.as_mut()));
        }
        9 - pending
    }

    #[tokio::test]
    async fn callers_enter_one_at_a_time_and_nothing_stays() {
        let turns = Turns::default();
        assert!(enter(&turns, "a", false).is_none());
        let mut first = enter(&turns, "a", true).unwrap();
        first.wait().await;
        assert!(enter(&turns, "b", false).is_none());
        // Who comes meanwhile waits, too.
        let mut second = enter(&turns, "a", false).unwrap();
        let mut third = enter(&turns, "a", true).unwrap();
        {
            let mut wait = pin!(second.wait());
            assert!(is_pending(wait.as_mut()));
            assert!(is_pending(pin!(third.wait())));
        }
        drop(first);
        // The next in line went away.
        drop(second);
        third.wait().await;
        assert_eq!(places(&turns), 0);
        drop(third);
        assert!(turns.gates().is_empty());
        assert!(enter(&turns, "a", false).is_none());
    }

    #[tokio::test]
    async fn as_many_enter_as_the_last_answer_says() {
        let turns = Turns::default();
        let stays = enter(&turns, "a", true).unwrap();
        for (size, places_then) in [(3, 3), (7, 7), (7, 7), (0, 6), (2, 5), (4, 4), (4, 4)] {
            let mut turn = enter(&turns, "a", true).unwrap();
            turn.wait().await;
            turn.resize(size);
            drop(turn);
            assert_eq!(places(&turns), places_then, "{size}");
        }
        drop(stays);
        assert!(turns.gates().is_empty());
    }
}
