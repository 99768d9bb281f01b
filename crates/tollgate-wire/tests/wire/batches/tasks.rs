//! Runtimes for tests, whose tasks run when the test says so, and an engine that uses them.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::StoreError;
use tollgate_core::store::{Request, Verdicts};
use tollgate_wire::{Engine, Failure, Runtime, ScriptCall, WireStore};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

thread_local! {
    static RUNTIME: Cell<u8> = const { Cell::new(0) };
    /// With the runtime of each.
    static TASKS: RefCell<Vec<(u8, Task)>> = const { RefCell::new(Vec::new()) };
    static STARTED: Cell<usize> = const { Cell::new(0) };
    static NOW: Cell<Instant> = Cell::new(Instant::now());
}

/// From now on, this thread runs another runtime.
pub(crate) fn switch_to(runtime: u8) {
    RUNTIME.set(runtime);
}

/// Lets time pass for the runtimes.
pub(crate) fn pass(time: Duration) {
    NOW.set(NOW.get() + time);
}

/// Returns the time of the runtimes.
pub(crate) fn time() -> Instant {
    NOW.get()
}

/// Returns how many tasks were started since this was last asked.
pub(crate) fn started() -> usize {
    STARTED.take()
}

/// Runs every task of the runtime until all of them wait or have ended.
pub(crate) fn run_tasks() {
    // What is started meanwhile is polled in the next round.
    while poll_tasks() {}
}

/// Runs every task of the runtime once. Returns whether one of them wants to go on, or a new one was
/// started.
pub(crate) fn poll_tasks() -> bool {
    let mut tasks = TASKS.take();
    let woken = Woken::new();
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let runtime = RUNTIME.get();
    tasks.retain_mut(|(of, task)| *of != runtime || task.as_mut().poll(&mut context).is_pending());
    TASKS.with_borrow_mut(|others| {
        let has_new = others.iter().any(|(of, _)| *of == runtime);
        others.append(&mut tasks);
        has_new || woken.is_woken()
    })
}

/// Returns how many tasks have not ended.
pub(crate) fn tasks() -> usize {
    TASKS.with_borrow(Vec::len)
}

/// All runtimes end, and their tasks with them.
pub(crate) fn drop_tasks() {
    drop(TASKS.take());
}

/// An engine whose store may send calls together.
#[derive(Debug)]
pub(crate) struct Spawning<E>(pub(crate) E);

impl<E: Engine> Engine for Spawning<E> {
    async fn run(&self, call: &ScriptCall<'_>) -> Result<Vec<u8>, Failure> {
        self.0.run(call).await
    }

    async fn load(&self, call: &ScriptCall<'_>) -> Result<(), Failure> {
        self.0.load(call).await
    }

    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), Failure> {
        self.0.forget(keys).await
    }

    async fn within<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        self.0.within(limit, work).await
    }

    fn now(&self) -> SystemTime {
        self.0.now()
    }

    fn is_clustered(&self) -> bool {
        self.0.is_clustered()
    }

    fn runtime(&self) -> Option<Runtime> {
        let spawn = |task| {
            STARTED.set(STARTED.get() + 1);
            TASKS.with_borrow_mut(|tasks| tasks.push((RUNTIME.get(), task)));
        };
        Some(Runtime::new(RUNTIME.get(), spawn, || NOW.get()))
    }
}

/// A waker that remembers that it was used.
pub(crate) struct Woken(AtomicBool);

impl Woken {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A call in progress.
pub(crate) type Deciding<'a> = Pin<Box<dyn Future<Output = Result<Verdicts, StoreError>> + 'a>>;

/// Begins a call, and polls it once.
pub(crate) fn begin<'a, E: Engine>(
    store: &'a WireStore<E>,
    request: &'a Request<'a>,
) -> Deciding<'a> {
    begin_with(store, request, Waker::noop())
}

/// The same; `waker` is woken when the call has ended.
pub(crate) fn begin_with<'a, E: Engine>(
    store: &'a WireStore<E>,
    request: &'a Request<'a>,
    waker: &Waker,
) -> Deciding<'a> {
    let mut call: Deciding<'a> = Box::pin(store.execute(request));
    let polled = call.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending(), "it does not wait");
    call
}

/// Polls a call, and returns its result if it has ended.
pub(crate) fn poll(call: &mut Deciding<'_>) -> Option<Result<Verdicts, StoreError>> {
    match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Polls the calls, all of which wait, and returns what tells whether one of them was woken.
pub(crate) fn watch(calls: &mut [Deciding<'_>]) -> Arc<Woken> {
    let woken = Woken::new();
    let waker = Waker::from(Arc::clone(&woken));
    for call in calls {
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    woken
}

/// Makes all calls at once, and returns their results in this order.
pub(crate) fn together<E: Engine>(
    store: &WireStore<E>,
    requests: &[Request<'_>],
) -> Vec<Result<Verdicts, StoreError>> {
    let calls = requests.iter().map(|request| begin(store, request));
    let mut calls: Vec<_> = calls.collect();
    run_tasks();
    let results = calls.iter_mut();
    let results = results.map(|call| poll(call).expect("it has an answer"));
    results.collect()
}
