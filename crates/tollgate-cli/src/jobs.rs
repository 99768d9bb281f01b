//! `Jobs`: how many threads work at once.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

/// The most threads, which is also the number of parts of the work.
pub(crate) const MOST: u16 = 64;

/// The size of a thread's stack, whatever the environment says. The work does not recurse.
const STACK: usize = 1024 * 1024;

/// A number of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jobs(usize);

impl Jobs {
    /// A single thread: the one that asks.
    pub(crate) const ONE: Self = Self(1);

    /// Returns `asked` threads, or one for each processor, but at most [`MOST`].
    pub(crate) fn new(asked: Option<u16>) -> Self {
        let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let count = asked.map_or_else(processors, usize::from);
        Self(count.clamp(1, usize::from(MOST)))
    }

    /// Returns the number of threads.
    pub(crate) fn count(self) -> usize {
        self.0
    }

    /// Calls `work` with each of `items`, several at once, and returns the results in the order of
    /// the items.
    ///
    /// If the system refuses more threads, those that run do the work.
    pub(crate) fn each<T: Send, R: Send>(
        self,
        items: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator + Send>,
        work: impl Fn(T) -> R + Sync,
    ) -> Vec<R> {
        let items = items.into_iter();
        let threads = self.count().min(items.len());
        let queue = Mutex::new((0_usize..).zip(items));
        // A closure, because in the condition of `while let`, the lock would be held during the work.
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.next()
        };
        let take_turns = || {
            let mut done = Vec::new();
            while let Some((index, item)) = next() {
                done.push((index, work(item)));
            }
            done
        };
        let mut done = thread::scope(|scope| {
            let thread = || Builder::new().stack_size(STACK);
            let spawn = |_| thread().spawn_scoped(scope, take_turns).ok();
            let others: Vec<_> = (1..threads).map_while(spawn).collect();
            let mut done = take_turns();
            for other in others {
                match other.join() {
                    Ok(more) => done.extend(more),
                    Err(panic) => resume_unwind(panic),
                }
            }
            done
        });
        done.sort_unstable_by_key(|&(index, _)| index);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for jobs in [1, 2, 3, 200] {
            let squares = Jobs::new(Some(jobs)).each(0..100_u32, |item| item * item);
            assert!(squares.into_iter().eq((0..100).map(|item| item * item)));
        }
        assert!(Jobs::new(Some(4)).each([(); 0], |()| ()).is_empty());
    }

    #[test]
    fn as_many_items_as_there_are_threads_are_worked_on_at_once() {
        // Nobody passes the barrier before all have come.
        let barrier = Barrier::new(3);
        let leaders = Jobs::new(Some(3)).each([(); 3], |()| barrier.wait().is_leader());
        assert_eq!(leaders.iter().filter(|&&is_leader| is_leader).count(), 1);
    }

    #[test]
    fn one_job_is_the_thread_that_asks() {
        let here = thread::current().id();
        let ids = Jobs::ONE.each([(); 3], |()| thread::current().id());
        assert_eq!(ids, [here; 3]);
    }
}
