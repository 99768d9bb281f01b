//! `Runner`: runs scripts through an engine, until the deadline.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_core::StoreError;

use super::engine::{Engine, ScriptCall};
use super::failure::Failure;
use super::fault::{self, Effect};
use super::options::{Options, no_deadline};
use super::wait::Wait;

/// The most times that one call loads its script.
const LOADS: usize = 4;

/// The part of a store that runs scripts, shared by the tasks which send calls together.
#[derive(Debug)]
pub(super) struct Runner<E> {
    engine: E,
    options: Options,
}

impl<E: Engine> Runner<E> {
    pub(super) fn new(engine: E, options: Options) -> Self {
        Self { engine, options }
    }

    pub(super) fn engine(&self) -> &E {
        &self.engine
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Runs the script, and loads it first if the server answers `NOSCRIPT`.
    ///
    /// After `NOSCRIPT` nothing was counted, so the call may be sent again. Other programs may
    /// flush scripts in between, so this loads the script up to [`LOADS`] times.
    ///
    /// `is_out` is true while the server may be counting the call.
    pub(super) async fn run(
        &self,
        call: &ScriptCall<'_>,
        is_out: &AtomicBool,
    ) -> Result<Vec<u8>, Failure> {
        let mut loads = 0..LOADS;
        let redacted = |failure: Failure| failure.redacted_of(call.keys, call.ids);
        let _place = place(&self.engine, self.options.deadline).await?;
        loop {
            is_out.store(true, Ordering::Relaxed);
            match self.engine.run(call).await {
                Err(failure) if fault::is_unknown_script(&failure) && loads.next().is_some() => {}
                outcome => return outcome.map_err(redacted),
            }
            is_out.store(false, Ordering::Relaxed);
            let loaded = self.engine.load(call).await;
            loaded.map_err(|failure| redacted(not_counted(failure)))?;
        }
    }
}

/// Waits for `work` until the deadline, which is later if the program is: see [`Wait`]. `effect` is what the commands do, and `is_out` whether the
/// server may have run them when the deadline passes.
pub(super) async fn until<T: Send>(
    deadline: Duration,
    engine: &impl Engine,
    effect: Effect,
    is_out: impl Fn() -> bool,
    work: impl Future<Output = Result<T, Failure>> + Send,
) -> Result<T, StoreError> {
    if deadline.is_zero() {
        return Err(no_deadline());
    }
    match within(engine, deadline, work).await {
        Some(outcome) => outcome.map_err(|failure| fault::error(failure, effect)),
        None => Err(fault::too_late(deadline, effect, is_out())),
    }
}

/// Waits for `work`, and returns `None` if it takes longer than `limit` and the program is not late.
async fn within<T: Send>(
    engine: &impl Engine,
    limit: Duration,
    work: impl Future<Output = T> + Send,
) -> Option<T> {
    let now = || {
        engine
            .runtime()
            .map_or_else(Instant::now, |runtime| (runtime.now)())
    };
    let mut work = pin!(work);
    let mut wait = Wait::since(now());
    let mut looked = wait.begun();
    loop {
        let timer = wait.timer(limit, looked);
        if let Some(output) = engine.within(timer, work.as_mut()).await {
            return Some(output);
        }
        let due = looked + timer;
        // An engine's timers may run by another clock.
        looked = due.max(now());
        wait.note(due, looked);
        if wait.timer(limit, looked).is_zero() {
            return None;
        }
    }
}

/// Waits for a place among the calls in flight, for at most half of the `deadline`.
pub(super) async fn place<E: Engine>(
    engine: &E,
    deadline: Duration,
) -> Result<impl Send + use<'_, E>, Failure> {
    let patience = deadline / 2;
    let place = within(engine, patience, engine.place()).await;
    place.ok_or_else(|| Failure::crowded(format!("no place among them within {patience:?}")))
}

/// Turns a lost `SCRIPT LOAD` into [`Failure::NotSent`]: loaded or not, nothing was counted.
fn not_counted(failure: Failure) -> Failure {
    match failure {
        Failure::Lost(source) => Failure::NotSent(source),
        other => other,
    }
}
