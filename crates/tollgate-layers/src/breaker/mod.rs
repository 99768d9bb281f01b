//! `Breaker`: leaves a store alone that has failed or is slow.

mod circuit;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};
use std::task::Context;
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep};
use tollgate_core::store::{Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Store, StoreError};
use tollgate_memory::{Clock, SystemClock};

use circuit::{Circuit, End, Sent};

use crate::sync::Mutex;

/// Wraps a store that may be down or slow, so that callers pay microseconds for that, not
/// deadlines: what was asked too often in vain is left alone, and calls fail at once with
/// [`ErrorKind::Unavailable`].
///
/// It does so after three calls in a row have failed, after half of the last 16 have, or when no call
/// has been answered for as long as [`slow_after`](Self::slow_after) while some wait. A call fails if
/// its error says that the store did not answer ([`Unavailable`](ErrorKind::Unavailable),
/// [`Unknown`](ErrorKind::Unknown), [`Protocol`](ErrorKind::Protocol)), or if it takes longer than
/// that, and 100 µs more for each call that was pending before it; its answer counts all the same.
/// From then on one caller at a time asks again, every [`retry_every`](Self::retry_every); after
/// three successes in a row, everybody does.
///
/// It judges the store, and neither callers nor the program. A call that is dropped before it is slow
/// says nothing, and its turn to ask again goes to the next caller; each caller that goes away from its
/// turn doubles how many may have one at a time, up to 1,024. Of a time in which the runtime did not run
/// its timers, at most a quarter of what a call may take counts; and an answer that its caller takes
/// later than that is no sign that the store still answers.
///
/// With the feature `tracing`, it logs a warning with the last error when it begins to leave the store
/// alone, and when that is over.
///
/// Few calls mean few tries: of less than five a second, each is one, and waits for a store that hangs.
///
/// The store needs a deadline of its own: a breaker cannot end a call. It does not tell the parts of a
/// store apart: if one of three masters of a cluster is down, it leaves all of them alone most of the
/// time.
///
/// Calls that wait use timers of Tokio, which must be enabled, as those of the clients must. Without a
/// runtime of Tokio a call is slow by the clock alone, and a silent store is found when calls end.
///
/// # Examples
///
/// ```
/// use tollgate_layers::Breaker;
/// use tollgate_mock::{ErrorKind, Fault, FaultyStore, RateLimiter};
/// use tollgate_memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_core::LimitError> {
/// let down = [Fault::Fail(ErrorKind::Unavailable); 3];
/// let store = Breaker::new(FaultyStore::new(MemoryStore::new(), down));
/// let limiter = RateLimiter::new(&store, ["login=gcra:5/1m"])?;
/// for _ in 0..3 {
///     assert!(limiter.check("alice").await.is_err());
/// }
/// // The store would answer by now, but nobody asks it.
/// assert!(store.is_open());
/// assert!(limiter.check("alice").await.is_err());
/// # Ok(())
/// # }
/// ```
pub struct Breaker<S> {
    store: S,
    circuit: Mutex<Circuit>,
    clock: Arc<dyn Clock>,
}

impl<S: Store> Breaker<S> {
    /// Wraps `store`, with the default durations.
    ///
    /// # Panics
    ///
    /// If a [`DenyCache`](crate::DenyCache) or a [`Fallback`](crate::Fallback) is inside: their answers
    /// hide whether the store answers. Put them around the breaker, as [`usual`](crate::usual) does.
    /// A [`Lazy`](crate::Lazy) does not connect to a store that has one inside.
    #[track_caller]
    pub fn new(store: S) -> Self {
        assert!(
            !store.answers_instead(),
            "a cache or a fallback inside a breaker hides whether the store answers: put it around \
             the breaker, as `usual` does"
        );
        Self {
            store,
            circuit: Mutex::new(Circuit::new(
                Duration::from_millis(100),
                Duration::from_millis(200),
            )),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

impl<S> Breaker<S> {
    /// Sets how long a call may take before it counts as failed; the default is 100 ms.
    ///
    /// Choose less than the deadline of the store, and more than an answer takes.
    #[must_use]
    pub fn slow_after(mut self, slow_after: Duration) -> Self {
        self.circuit_mut().slow_after = slow_after;
        self
    }

    /// Sets how long after a failure one caller asks again; the default is 200 ms.
    #[must_use]
    pub fn retry_every(mut self, retry_every: Duration) -> Self {
        self.circuit_mut().retry_every = retry_every;
        self
    }

    /// Sets the clock by which calls are slow, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns whether the store is left alone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.with_circuit(|circuit| circuit.is_open())
    }

    fn circuit_mut(&mut self) -> &mut Circuit {
        let circuit = self.circuit.get_mut();
        circuit.unwrap_or_else(PoisonError::into_inner)
    }

    fn with_circuit<T>(&self, use_it: impl FnOnce(&mut Circuit) -> T) -> T {
        let circuit = self.circuit.lock();
        use_it(&mut circuit.unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses the circuit, and logs if that opens or closes it.
    fn watched<T>(&self, why: &str, use_it: impl FnOnce(&mut Circuit) -> T) -> T {
        let (used, was_open, is_open) = self.with_circuit(|circuit| {
            let was_open = circuit.is_open();
            (use_it(circuit), was_open, circuit.is_open())
        });
        match (was_open, is_open) {
            (false, true) => log_opened(why),
            (true, false) => log_closed(),
            _ => {}
        }
        used
    }
}

#[cfg(feature = "tracing")]
fn log_opened(why: &str) {
    tracing::warn!(name: "tollgate.breaker", "the store is left alone from now on, but for tries: {why}");
}

#[cfg(feature = "tracing")]
fn log_closed() {
    tracing::info!(name: "tollgate.breaker", "the store answers again");
}

#[cfg(not(feature = "tracing"))]
fn log_opened(_: &str) {}

#[cfg(not(feature = "tracing"))]
fn log_closed() {}

impl<S: Sync> Breaker<S> {
    /// Makes a call to the store, unless that is left alone.
    async fn pass_on<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let now = self.clock.now();
        let sent = self.watched("it has not answered for too long", |circuit| {
            circuit.send(now)
        });
        let Some(sent) = sent else {
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "the store has failed or was slow, and is left alone for now: see to it",
            ));
        };
        let mut ending = Ending {
            breaker: self,
            sent,
            end: End::Dropped,
            error: None,
        };
        let mut call = pin!(call);
        let mut timer = pin!(None);
        let answer = poll_fn(|context| {
            let answer = call.as_mut().poll(context);
            if answer.is_pending() {
                self.look_at(&mut ending.sent, timer.as_mut(), context);
            }
            answer
        })
        .await;
        ending.end = match &answer {
            Err(error) if did_not_answer(error.kind()) => End::Failed,
            Err(error) if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported) => {
                End::Unasked
            }
            _ => End::Answered,
        };
        if cfg!(feature = "tracing") {
            ending.error = answer.as_ref().err().map(ToString::to_string);
        }
        answer
    }

    /// Looks at a call that waits, if it is time for that.
    fn look_at(
        &self,
        sent: &mut Sent,
        mut timer: Pin<&mut Option<Sleep>>,
        context: &mut Context<'_>,
    ) {
        while timer
            .as_mut()
            .as_pin_mut()
            .is_none_or(|timer| timer.poll(context).is_ready())
        {
            if Handle::try_current().is_err() {
                return;
            }
            let now = self.clock.now();
            let interval = self.with_circuit(|circuit| {
                circuit.still_waits(sent, now);
                circuit.interval(sent)
            });
            timer.set(Some(sleep(interval)));
        }
    }
}

/// Returns whether an error says that the store did not answer as it should.
fn did_not_answer(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Protocol | ErrorKind::Unavailable | ErrorKind::Unknown
    )
}

/// Records how a call ended when it is dropped, also if its caller goes away.
struct Ending<'b, S> {
    breaker: &'b Breaker<S>,
    sent: Sent,
    end: End,
    error: Option<String>,
}

impl<S> Drop for Ending<'_, S> {
    fn drop(&mut self) {
        let now = self.breaker.clock.now();
        let (sent, end) = (self.sent, self.end);
        let why = self.error.as_deref().unwrap_or("it is slow");
        self.breaker
            .watched(why, |circuit| circuit.end(sent, end, now));
    }
}

#[async_trait]
impl<S: Store> Store for Breaker<S> {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.pass_on(self.store.decide(request)).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.pass_on(self.store.reset(checks)).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }

    fn answers_instead(&self) -> bool {
        self.store.answers_instead()
    }
}

crate::forward::forward!(Breaker<S>, store);

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("store", &self.store)
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}
