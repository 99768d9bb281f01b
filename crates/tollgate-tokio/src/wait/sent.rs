//! `Sent` and `Reserved`: calls whose callers may go away.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep};
use tollgate_core::{Store, StoreError, Verdicts};

use super::caller::Caller;

type Deciding = Pin<Box<dyn Future<Output = Result<Verdicts, StoreError>> + Send>>;

/// A call on its way to the store.
///
/// If it is dropped, the call is completed in the background, and what it consumed is given back:
/// a call that is given up on its way may have been counted.
pub(super) struct Sent<S: Store + 'static> {
    caller: Arc<Caller<S>>,
    deciding: Option<Deciding>,
}

impl<S: Store + 'static> Sent<S> {
    pub(super) fn new(
        caller: &Arc<Caller<S>>,
        deciding: impl Future<Output = Result<Verdicts, StoreError>> + Send + 'static,
    ) -> Self {
        Self {
            caller: Arc::clone(caller),
            deciding: Some(Box::pin(deciding)),
        }
    }
}

impl<S: Store + 'static> Future for Sent<S> {
    type Output = Result<Verdicts, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(deciding) = &mut self.deciding else {
            return Poll::Pending;
        };
        let answer = ready!(deciding.as_mut().poll(context));
        self.deciding = None;
        Poll::Ready(answer)
    }
}

impl<S: Store + 'static> Drop for Sent<S> {
    fn drop(&mut self) {
        if let Some(deciding) = self.deciding.take() {
            let caller = Arc::clone(&self.caller);
            let runtime = caller.runtime().clone();
            runtime.spawn(async move {
                // A call that failed has nothing to give back, or nobody knows what.
                if let Ok(verdicts) = deciding.await {
                    caller.give_back(verdicts).await;
                }
            });
        }
    }
}

/// A reservation whose start is awaited. If it is dropped, it is given back.
pub(super) struct Reserved<S: Store + 'static> {
    caller: Arc<Caller<S>>,
    verdicts: Option<Verdicts>,
    start: Pin<Box<Sleep>>,
}

impl<S: Store + 'static> Reserved<S> {
    pub(super) fn new(caller: &Arc<Caller<S>>, verdicts: Verdicts) -> Self {
        let delay = verdicts.delay().duration().unwrap_or_default();
        Self {
            caller: Arc::clone(caller),
            verdicts: Some(verdicts),
            start: Box::pin(sleep(delay)),
        }
    }
}

impl<S: Store + 'static> Future for Reserved<S> {
    type Output = Verdicts;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdicts> {
        ready!(self.start.as_mut().poll(context));
        self.verdicts.take().map_or(Poll::Pending, Poll::Ready)
    }
}

impl<S: Store + 'static> Drop for Reserved<S> {
    fn drop(&mut self) {
        if let Some(verdicts) = self.verdicts.take() {
            drop(self.caller.give_back_in_background(verdicts));
        }
    }
}
