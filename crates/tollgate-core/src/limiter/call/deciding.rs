//! `Deciding`: the future of a call.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Costs;
use super::asked::{Asked, Charge};
use crate::contract::{Boxed, Store};
use crate::decision::Decision;
use crate::error::StoreError;
use crate::limit::Limits;
use crate::store::Verdicts;

/// The future of a [`Call`](super::Call).
///
/// On a store that [need not wait](Store::as_sync), the call is decided when this is polled first.
#[must_use = "a future does nothing until it is awaited"]
pub struct Deciding<'l, 'k, C = u64> {
    limits: &'l Limits,
    store: &'l dyn Store,
    stage: Stage<'k, C>,
}

/// How far a call is.
enum Stage<'k, C> {
    Asked(Asked<'k, C>),
    Sent(Boxed<'k, Result<Verdicts, StoreError>>),
    Over,
}

impl<'l, 'k, C> Deciding<'l, 'k, C> {
    #[inline]
    pub(super) fn new(limits: &'l Limits, store: &'l dyn Store, asked: Asked<'k, C>) -> Self {
        Self {
            limits,
            store,
            stage: Stage::Asked(asked),
        }
    }
}

impl<'l: 'k, 'k, C> Deciding<'l, 'k, C> {
    /// Hands the call to a store that may have to wait.
    fn send(&mut self) -> Result<(), StoreError>
    where
        C: Charge,
    {
        if let Stage::Asked(asked) = &self.stage {
            let checks = asked.cost.checks(self.limits, asked.key)?;
            self.stage = Stage::Sent(self.store.decide(asked.request(checks)));
        }
        Ok(())
    }

    #[inline(always)]
    fn poll_stage(&mut self, context: &mut Context<'_>) -> Poll<Result<Decision<'l>, StoreError>>
    where
        C: Charge,
    {
        let limits = self.limits;
        if let Stage::Asked(asked) = &self.stage {
            if let Some(store) = self.store.as_sync() {
                let decision = C::decide_in_place(limits, store, asked);
                self.stage = Stage::Over;
                return Poll::Ready(decision);
            }
            if let Err(error) = self.send() {
                self.stage = Stage::Over;
                return Poll::Ready(Err(error));
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

impl<'l: 'k, 'k> Future for Deciding<'l, 'k> {
    type Output = Result<Decision<'l>, StoreError>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_stage(context)
    }
}

impl<'l: 'k, 'k> Future for Deciding<'l, 'k, Costs> {
    type Output = Result<Decision<'l>, StoreError>;

    /// # Panics
    ///
    /// If it is polled again after it has completed.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_stage(context)
    }
}

impl<C> fmt::Debug for Deciding<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciding")
            .field("limits", &&**self.limits)
            .finish_non_exhaustive()
    }
}
