//! `Blocking`: a store for programs without async code.

use std::error::Error;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use tollgate_core::store::{Begun, BoxFuture, Check, Checks, Request, Verdicts};
use tollgate_core::{ErrorKind, Key, Store, StoreError, SyncStore, lease, schedule};

use crate::late::answered;

const DEADLINE: Duration = Duration::from_secs(5);

/// A store for programs without async code: `.run()` waits for the answer of a store that has to be awaited,
/// such as one on a server.
///
/// A thread of its own runs the connections of the store; it ends when the `Blocking` is dropped. Any number
/// of threads may call at once, and none waits for another. A store in memory needs no `Blocking`.
///
/// A call blocks its thread until the store answers, but for no longer than the [deadline](Self::deadline),
/// unless the program itself is [late](tollgate_core::store::Lateness): stopped, or with all its threads busy.
/// In async code it would block the thread of other tasks: there, use the store itself.
///
/// [The crate](crate#programs-without-async-code) has an example.
#[derive(Debug)]
pub struct Blocking<S> {
    store: S,
    deadline: Duration,
    runtime: Handle,
    /// The thread ends when this is dropped.
    _thread: oneshot::Sender<()>,
}

impl<S> Blocking<S> {
    /// Starts the thread, and waits until `connecting` has made the store there, at most five seconds.
    ///
    /// # Errors
    ///
    /// The error of `connecting`; or [`ErrorKind::Unavailable`] if it takes longer, or if the system starts
    /// no thread.
    pub fn connect(
        connecting: impl Future<Output = Result<S, StoreError>>,
    ) -> Result<Self, StoreError> {
        let (thread, ended) = oneshot::channel();
        let (sender, started) = mpsc::sync_channel(1);
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = sender.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(ended);
            }
            Err(error) => {
                let _ = sender.send(Err(error));
            }
        };
        let failed = |source: Box<dyn Error + Send + Sync>| {
            let message = "no thread starts for the connections of the store";
            StoreError::new(ErrorKind::Unavailable, message).with_source(source)
        };
        let named = thread::Builder::new().name("tollgate".to_owned());
        let _ = named.spawn(run).map_err(|error| failed(error.into()))?;
        let runtime = started.recv().map_err(|error| failed(error.into()))?;
        let runtime = runtime.map_err(|error| failed(error.into()))?;
        let late = || StoreError::new(ErrorKind::Unavailable, "the store did not connect in time");
        Ok(Self {
            store: wait(&runtime, DEADLINE, connecting).ok_or_else(late)??,
            deadline: DEADLINE,
            runtime,
            _thread: thread,
        })
    }

    /// Sets how long a call waits at most, 5 s by default. A store on a server ends a call after a shorter
    /// deadline of its own, 500 ms unless its builder sets another.
    ///
    /// A call that takes longer is an error of [`ErrorKind::Unknown`]: it may have been counted.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    fn run<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        wait(&self.runtime, self.deadline, call).unwrap_or_else(|| {
            let message = format!(
                "the store did not answer within {:?}: the call may have been counted",
                self.deadline
            );
            Err(StoreError::new(ErrorKind::Unknown, message))
        })
    }
}

/// Waits for `future` on this thread, while the connections that it uses are run by that of `runtime`.
fn wait<T>(runtime: &Handle, within: Duration, future: impl Future<Output = T>) -> Option<T> {
    /// Wakes the thread that waits.
    struct Waiting(Thread);

    impl Wake for Waiting {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let _runtime = runtime.enter();
    // Within a task of another runtime, Tokio would make a future wait for other tasks now and then, which
    // cannot run before this ends.
    let mut future = pin!(unconstrained(answered(within, future)));
    let waker = Waker::from(Arc::new(Waiting(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// Awaited calls are those of the store.
macro_rules! forward {
    (fn $name:ident($($argument:ident: $type:ty),+) -> $answer:ty) => {
        fn $name<'a: 'f, 'f>(
            &'a self,
            $($argument: $type),+
        ) -> BoxFuture<'f, Result<$answer, StoreError>> {
            self.store.$name($($argument),+)
        }
    };
}

impl<S: Store> Store for Blocking<S> {
    forward! { fn decide(request: Request<'a>) -> Verdicts }

    fn begin<'a>(&'a self, request: &Request<'a>) -> Begun<'a> {
        self.store.begin(request)
    }

    forward! { fn reset(checks: Checks<'a>) -> () }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.store.supports(request)
    }
}

impl<S: Store> SyncStore for Blocking<S> {
    fn decide_now(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        match self.store.begin(request) {
            Begun::Decided(verdicts) => Ok(verdicts),
            Begun::Waits(call) => self.run(call),
        }
    }

    fn reset_now(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        self.run(self.store.reset(checks.iter().copied().collect()))
    }
}

impl<S: schedule::Store> schedule::Store for Blocking<S> {
    forward! { fn schedule(request: schedule::Request<'a>) -> schedule::Answer }

    forward! { fn reset_schedule(terms: &'a schedule::Terms, key: Key<'a>) -> () }
}

impl<S: schedule::Store> schedule::SyncStore for Blocking<S> {
    fn schedule_now(
        &self,
        request: &schedule::Request<'_>,
    ) -> Result<schedule::Answer, StoreError> {
        self.run(self.store.schedule(request.clone()))
    }

    fn reset_schedule_now(&self, terms: &schedule::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.run(self.store.reset_schedule(terms, key))
    }
}

impl<S: lease::Store> lease::Store for Blocking<S> {
    forward! { fn lease(request: lease::Request<'a>) -> lease::Answer }

    forward! { fn reset_leases(terms: &'a lease::Terms, key: Key<'a>) -> () }
}

impl<S: lease::Store> lease::SyncStore for Blocking<S> {
    fn lease_now(&self, request: &lease::Request<'_>) -> Result<lease::Answer, StoreError> {
        self.run(self.store.lease(*request))
    }

    fn reset_leases_now(&self, terms: &lease::Terms, key: Key<'_>) -> Result<(), StoreError> {
        self.run(self.store.reset_leases(terms, key))
    }
}
