//! `Unsent`: gives a permit back if its request is not sent.

use tollgate_core::Store;
use tollgate_tokio::outbound::Permit;

/// A permit whose request is not sent yet. Dropping it gives the permit back, in the background.
pub(super) struct Unsent<S: Store + 'static>(Option<Permit<S>>);

impl<S: Store + 'static> Unsent<S> {
    pub(super) fn new(permit: Permit<S>) -> Self {
        Self(Some(permit))
    }

    /// Returns the permit, or gives it back if it is too old.
    pub(super) async fn into_fresh(mut self) -> Option<Permit<S>> {
        let permit = self.0.take()?;
        if !permit.is_stale() {
            return Some(permit);
        }
        let _ = permit.give_back_in_background().await;
        None
    }
}

impl<S: Store + 'static> Drop for Unsent<S> {
    fn drop(&mut self) {
        drop(self.0.take().map(Permit::give_back_in_background));
    }
}
