//! `Load`: callers that keep calling during a fault.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_core::{Decision, RateLimiter};

use super::tally::Tally;
use crate::client::Connected;

pub(crate) type Limiter = RateLimiter<Connected>;

/// The number of concurrent callers.
pub(crate) const CALLERS: u16 = 16;
/// The pause between two calls of a caller, so that the limit is not yet reached when the fault
/// begins.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest wait for any condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Callers that keep calling during a fault.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    callers: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    tally: Mutex<Tally>,
    mark: Mutex<Mark>,
    is_over: AtomicBool,
    /// The number of calls of each caller that have ended.
    ended: Vec<AtomicU64>,
}

/// When the service should work again, and when it first did.
#[derive(Debug)]
struct Mark {
    set: Instant,
    answered: Option<Instant>,
    /// The largest remainder that any call after the mark reported.
    most_left: u64,
}

impl Load {
    /// Starts callers, each of which calls for one of `keys`.
    pub(crate) fn on(limiter: &Arc<Limiter>, keys: &[&str]) -> Self {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        Self::start(limiter, move |caller, _| {
            let key = keys[caller % keys.len()].clone();
            (key.clone(), key)
        })
    }

    /// Starts callers that use a new key for each call.
    pub(crate) fn on_new_keys(limiter: &Arc<Limiter>) -> Self {
        Self::start(limiter, |caller, call| {
            (format!("new-{caller}-{call}"), "new".to_owned())
        })
    }

    /// `key` returns the key of a call, and the name to count it under.
    fn start(
        limiter: &Arc<Limiter>,
        key: impl Fn(usize, u64) -> (String, String) + Clone + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            tally: Mutex::default(),
            mark: Mutex::new(Mark::now()),
            is_over: AtomicBool::new(false),
            ended: (0..CALLERS).map(|_| AtomicU64::default()).collect(),
        });
        let mut callers = JoinSet::new();
        for caller in 0..usize::from(CALLERS) {
            let (shared, limiter, key) = (Arc::clone(&shared), Arc::clone(limiter), key.clone());
            callers.spawn(async move {
                for call in 0.. {
                    if shared.is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    let (key, name) = key(caller, call);
                    shared.call(&limiter, &key, &name).await;
                    shared.ended[caller].fetch_add(1, Ordering::SeqCst);
                    sleep(PAUSE).await;
                }
            });
        }
        Self { shared, callers }
    }

    /// Waits until `condition` holds for the outcomes so far.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Tally) -> bool) {
        let begun = Instant::now();
        while !condition(&self.shared.tally()) {
            assert!(
                begun.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}; {:#?}",
                self.shared.tally()
            );
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until `count` more calls have been allowed.
    pub(crate) async fn allowed(&self, count: u64) {
        let count = self.so_far().allowed() + count;
        let what = format!("{count} allowed calls");
        self.until(&what, |tally| tally.allowed() >= count).await;
    }

    /// Waits until all calls in flight, and as many new ones, have ended.
    pub(crate) async fn renewed(&self) {
        let ended = || {
            let ended = self.shared.ended.iter();
            ended.map(|count| count.load(Ordering::SeqCst))
        };
        let goals: Vec<u64> = ended().map(|count| count + 2).collect();
        self.until("two calls more of each caller", |_| {
            ended().zip(&goals).all(|(count, &goal)| count >= goal)
        })
        .await;
    }

    /// Marks the instant from which the service should work again.
    pub(crate) fn mark(&self) {
        *self.shared.mark() = Mark::now();
    }

    /// Waits for an answer to a call made after the mark, and returns the time from the mark to
    /// that answer.
    pub(crate) async fn resumed(&self) -> Duration {
        let answered = || self.shared.mark().answered;
        self.until("an answer", |_| answered().is_some()).await;
        let mark = self.shared.mark();
        mark.answered.unwrap_or(mark.set) - mark.set
    }

    /// Returns the largest remainder that any call made after the mark reported.
    pub(crate) fn most_left(&self) -> u64 {
        self.shared.mark().most_left
    }

    pub(crate) fn so_far(&self) -> Tally {
        self.shared.tally().clone()
    }

    /// Waits until the service works again, and returns all outcomes, and how long after the mark it did.
    pub(crate) async fn recovered(self) -> (Tally, Duration) {
        let resumed = self.resumed().await;
        self.allowed(100).await;
        (self.stop().await, resumed)
    }

    /// Stops the callers after their current calls, and returns all outcomes.
    pub(crate) async fn stop(mut self) -> Tally {
        self.shared.is_over.store(true, Ordering::SeqCst);
        while let Some(caller) = self.callers.join_next().await {
            caller.expect("a caller that does not panic");
        }
        self.so_far()
    }
}

impl Shared {
    async fn call(&self, limiter: &Limiter, key: &str, name: &str) {
        let began = Instant::now();
        let outcome = limiter.check(key).await.map(Decision::into_verdicts);
        let ended = Instant::now();
        self.tally().record(name, &outcome, ended - began);
        let mut mark = self.mark();
        if let Ok(decision) = outcome
            && began >= mark.set
        {
            mark.answered.get_or_insert(ended);
            mark.most_left = mark.most_left.max(decision.remaining());
        }
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap()
    }

    fn mark(&self) -> MutexGuard<'_, Mark> {
        self.mark.lock().unwrap()
    }
}

impl Mark {
    fn now() -> Self {
        Self {
            set: Instant::now(),
            answered: None,
            most_left: 0,
        }
    }
}
