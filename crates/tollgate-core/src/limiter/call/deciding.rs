//! `Deciding`: the future of a call.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::asked::{Asked, decide_in_place};
use crate::contract::Store;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::limit::Limits;
use crate::store::{Begun, BoxFuture, Verdicts};

/// The future of a [`Call`](super::Call).
///
/// On a store that [need not wait](Store::as_sync), the call is decided when this is polled first.
#[must_use = "a future does nothing until it is awaited"]
pub struct Deciding<'l, 'k> {
    limits: &'l Limits,
    store: &'l dyn Store,
    stage: Stage<'k>,
}

/// How far a call is.
enum Stage<'k> {
    Asked(Asked<'k>),
    Sent(BoxFuture<'k, Result<Verdicts, StoreError>>),
    Over,
}

impl<'l, 'k> Deciding<'l, 'k> {
    #[inline]
    pub(super) fn new(limits: &'l Limits, store: &'l dyn Store, asked: Asked<'k>) -> Self {
        Self {
            limits,
            store,
            stage: Stage::Asked(asked),
        }
    }
}

impl<'l: 'k, 'k> Future for Deciding<'l, 'k> {
    type Output = Result<Decision<'l>, StoreError>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let limits = self.limits;
        if let Stage::Asked(asked) = &self.stage {
            if let Some(store) = self.store.as_sync() {
                let decision = decide_in_place(limits, store, asked);
                self.stage = Stage::Over;
                return Poll::Ready(decision);
            }
            // By reference: a request takes long to copy.
            let begun = match asked.request(limits) {
                Ok(ref request) => self.store.begin(request),
                Err(error) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(error));
                }
            };
            self.stage = Stage::Over;
            if let Begun::Decided(verdicts) = &begun
                && let Some(decision) = Decision::short(limits, verdicts)
            {
                return Poll::Ready(Ok(decision));
            }
            match begun {
                Begun::Waits(call) => self.stage = Stage::Sent(call),
                Begun::Decided(verdicts) => return Poll::Ready(Decision::new(limits, verdicts)),
            }
        }
        match &mut self.stage {
            Stage::Sent(verdicts) => Decision::of_polled(limits, verdicts.as_mut().poll(context)),
            Stage::Asked(_) | Stage::Over => {
                panic!("the future of a call was polled after it had completed")
            }
        }
    }
}

impl fmt::Debug for Deciding<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciding")
            .field("limits", &&**self.limits)
            .finish_non_exhaustive()
    }
}
