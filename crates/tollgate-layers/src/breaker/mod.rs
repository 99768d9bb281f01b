//! `Breaker`: leaves a store alone that has failed or is slow.

mod circuit;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::{Sleep, sleep};
use tollgate_core::store::{Check, Checks, Request, Source, Verdicts};
use tollgate_core::{Clock, ErrorKind, Limit, Store, StoreError};

use circuit::{Circuit, End, Next, Sent};

use crate::clock;
use crate::sync::Mutex;

/// What is asked to find out whether the store answers. It writes, as most calls do: a replica answers only
/// those that do not.
static TRY: LazyLock<Option<Limit>> =
    LazyLock::new(|| "tollgate-breaker=gcra:1000000/1s".parse().ok());

/// Wraps a store that may be down or slow, so that callers pay microseconds for that, not
/// deadlines: what was asked too often in vain is left alone, and calls fail at once with
/// [`ErrorKind::Unavailable`].
///
/// It does so after three calls in a row have failed, or half of the last 16. A call fails if
/// its error says that the store did not answer ([`Unavailable`](ErrorKind::Unavailable),
/// [`Unknown`](ErrorKind::Unknown), [`Protocol`](ErrorKind::Protocol)), or if it takes longer than
/// [`slow_after`](Self::slow_after), and 100 µs more for each call that was pending before it; its answer
/// counts all the same. If calls were slow, or one has waited for that long and nobody was answered
/// meanwhile, or all callers go away before that, the breaker first makes a call of its own, and leaves
/// the store alone if that fails.
///
/// From then on it makes a call every [`retry_every`](Self::retry_every), under the limit
/// `tollgate-breaker`; after three answers in a row, everybody calls again. No
/// caller waits for a store that is left alone, and it needs no callers to come back.
///
/// It judges the store, and neither callers nor the program. A call that is dropped before it is slow
/// says nothing. And if timers are noticed late, because the program's threads are busy or it was
/// stopped, then calls may take longer by [several times](tollgate_core::store::Lateness) that.
///
/// With the feature `tracing`, it logs a warning with the last error when it begins to leave the store
/// alone, and when that is over.
///
/// The store needs a deadline of its own: a breaker cannot end a call. It does not tell the parts of a
/// store apart: if one of three masters of a cluster is down, it leaves all of them alone most of the
/// time.
///
/// It uses timers and tasks of Tokio; timers must be enabled, as for the clients. Without a
/// runtime of Tokio only errors count, and the calls themselves try whether the store answers again, one at
/// a time.
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
    store: Arc<S>,
    judge: Judge,
}

/// What a task needs to try a store.
#[derive(Clone)]
struct Judge {
    store: Arc<dyn Store>,
    circuit: Arc<Mutex<Circuit>>,
    clock: Arc<dyn Clock>,
}

impl<S: Store + 'static> Breaker<S> {
    /// Wraps `store`, with the default durations.
    pub fn new(store: S) -> Self {
        let circuit = Circuit::new(Duration::from_millis(100), Duration::from_millis(200));
        let store = Arc::new(store);
        let judge = Judge {
            store: Arc::clone(&store) as Arc<dyn Store>,
            circuit: Arc::new(Mutex::new(circuit)),
            clock: clock::running(),
        };
        Self { store, judge }
    }
}

impl<S> Breaker<S> {
    /// Sets how long a call may take before it counts as failed; the default is 100 ms.
    ///
    /// Choose less than the deadline of the store, and more than an answer takes.
    #[must_use]
    pub fn slow_after(self, slow_after: Duration) -> Self {
        self.judge
            .with_circuit(|circuit| circuit.slow_after = slow_after);
        self
    }

    /// Sets how long after a failure the store is asked again; the default is 200 ms.
    #[must_use]
    pub fn retry_every(self, retry_every: Duration) -> Self {
        self.judge
            .with_circuit(|circuit| circuit.retry_every = retry_every);
        self
    }

    /// Sets the clock by which calls are slow, for tests.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.judge.clock = Arc::new(clock);
        self
    }

    /// Returns whether the store is left alone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.judge.with_circuit(|circuit| circuit.is_open())
    }
}

impl Judge {
    fn with_circuit<T>(&self, use_it: impl FnOnce(&mut Circuit) -> T) -> T {
        let circuit = self.circuit.lock();
        use_it(&mut circuit.unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses the circuit, logs if that opens or closes it, and starts a task if one has to try the store.
    fn watched<T>(&self, why: &str, use_it: impl FnOnce(&mut Circuit) -> T) -> T {
        let runtime = Handle::try_current().ok();
        let now = self.clock.now();
        let (used, was_open, is_open, task) = self.with_circuit(|circuit| {
            let was_open = circuit.is_open();
            let used = use_it(circuit);
            let task = runtime.as_ref().and_then(|_| circuit.needs_task(now));
            (used, was_open, circuit.is_open(), task)
        });
        match (was_open, is_open) {
            (false, true) => log_opened(why),
            (true, false) => log_closed(),
            _ => {}
        }
        if let Some((runtime, task)) = runtime.zip(task) {
            drop(runtime.spawn(self.clone().tries(task)));
        }
        used
    }

    /// Makes calls of its own until the store answers again, or nobody has the breaker any more.
    async fn tries(self, task: u64) {
        for key in 0_u64.. {
            let sent = loop {
                let now = self.clock.now();
                match self.with_circuit(|circuit| circuit.next_try(task, now)) {
                    _ if Arc::strong_count(&self.circuit) == 1 => return,
                    Next::Wait(time) => sleep(time).await,
                    Next::Try(sent) => break sent,
                    Next::Nothing => return,
                }
            };
            let Some(limit) = &*TRY else { return };
            // Keys that lie on all nodes of a cluster, one after the other.
            let call = self
                .store
                .decide(Request::consume(Check::new(limit, key, 1)));
            let mut ending = Ending::new(&self, sent);
            let outcome = self.waits(call, &mut ending.sent, true).await;
            // What the store refuses to try is for the callers to find out.
            ending.ends(&outcome, Verdicts::source, End::Answered);
            drop(ending);
            yield_now().await;
        }
    }

    /// Waits for an answer, and looks at the call when it may be slow. If it `gives_up`, that is an error.
    async fn waits<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send,
        sent: &mut Sent,
        gives_up: bool,
    ) -> Result<T, StoreError> {
        let mut call = pin!(call);
        let mut timer = pin!(None);
        let mut is_watched = true;
        poll_fn(|context| {
            let answer = call.as_mut().poll(context);
            if answer.is_pending() && is_watched {
                is_watched = self.look_at(sent, timer.as_mut(), context);
                if !is_watched && gives_up {
                    let slow = "the store did not answer in time";
                    return Poll::Ready(Err(StoreError::new(ErrorKind::Unavailable, slow)));
                }
            }
            answer
        })
        .await
    }

    /// Looks at a call that waits, if it is time for that; returns whether to do so again.
    fn look_at(
        &self,
        sent: &mut Sent,
        mut timer: Pin<&mut Option<Sleep>>,
        context: &mut Context<'_>,
    ) -> bool {
        while timer
            .as_mut()
            .as_pin_mut()
            .is_none_or(|timer| timer.poll(context).is_ready())
        {
            if Handle::try_current().is_err() {
                return false;
            }
            let now = self.clock.now();
            let left = self.watched("nobody is answered", |circuit| {
                circuit.still_waits(sent, now)
            });
            let Some(left) = left else { return false };
            timer.set(Some(sleep(left)));
        }
        true
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
        self.pass_on_from(call, |_| Source::Store).await
    }

    /// Does so, and judges the store by an answer only if that is from the store.
    async fn pass_on_from<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>> + Send,
        source: impl Fn(&T) -> Source,
    ) -> Result<T, StoreError> {
        let now = self.judge.clock.now();
        let sent = self.judge.watched("calls are not answered", |circuit| {
            let sent = circuit.send(now);
            sent.or_else(|| {
                let no_task = Handle::try_current().is_err();
                no_task.then(|| circuit.try_alone(now)).flatten()
            })
        });
        let Some(sent) = sent else {
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "the server was not asked, because it failed or was slow a moment ago; it is tried again \
                 every few hundred milliseconds: look at the server and at the connection to it",
            ));
        };
        let mut ending = Ending::new(&self.judge, sent);
        let answer = self.judge.waits(call, &mut ending.sent, false).await;
        ending.ends(&answer, source, End::Unasked);
        answer
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
struct Ending<'b> {
    judge: &'b Judge,
    sent: Sent,
    end: End,
    error: Option<String>,
}

impl<'b> Ending<'b> {
    fn new(judge: &'b Judge, sent: Sent) -> Self {
        Self {
            judge,
            sent,
            end: End::Dropped,
            error: None,
        }
    }

    /// Notes how the call ended, and that it `did_not_reach` the store if it was refused before, or a layer
    /// answered.
    fn ends<T>(
        &mut self,
        answer: &Result<T, StoreError>,
        source: impl Fn(&T) -> Source,
        did_not_reach: End,
    ) {
        self.end = match answer.as_ref().map(source).map_err(StoreError::kind) {
            Ok(Source::Store) => End::Answered,
            Ok(Source::Fallback) => End::Failed,
            Ok(_) | Err(ErrorKind::Malformed | ErrorKind::Unsupported) => did_not_reach,
            Err(kind) if did_not_answer(kind) => End::Failed,
            Err(_) => End::Answered,
        };
        if cfg!(feature = "tracing") {
            self.error = answer.as_ref().err().map(ToString::to_string);
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let now = self.judge.clock.now();
        let (sent, end) = (self.sent, self.end);
        let why = self.error.as_deref().unwrap_or("it is slow");
        self.judge
            .watched(why, |circuit| circuit.end(sent, end, now));
    }
}

#[async_trait]
impl<S: Store> Store for Breaker<S> {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        // A layer inside may decide before its future is polled.
        let call = async { self.store.decide(request).await };
        self.pass_on_from(call, Verdicts::source).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.pass_on(self.store.reset(checks)).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

crate::forward::forward!(Breaker<S>, store, by pass_on);

impl<S: fmt::Debug> fmt::Debug for Breaker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |circuit: &mut Circuit| {
            let is_open = circuit.is_open();
            (is_open, circuit.slow_after, circuit.retry_every)
        };
        // Without the lock, the store may take long to write itself.
        let (is_open, slow_after, retry_every) = self.judge.with_circuit(told);
        f.debug_struct("Breaker")
            .field("store", &self.store)
            .field("is_open", &is_open)
            .field("slow_after", &slow_after)
            .field("retry_every", &retry_every)
            .finish_non_exhaustive()
    }
}
