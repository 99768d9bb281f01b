//! `Unsent`: gives a permit back if its request is not sent.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
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
        if let Some(giving_back) = give_back(permit) {
            // An error leaves the permit consumed.
            let _ = giving_back.await;
        }
        None
    }
}

impl<S: Store + 'static> Drop for Unsent<S> {
    fn drop(&mut self) {
        let _ = self.0.take().and_then(give_back);
    }
}

/// Gives `permit` back in a task, so that it happens even if the caller's future is dropped.
fn give_back<S: Store + 'static>(permit: Permit<S>) -> Option<JoinHandle<()>> {
    let runtime = Handle::try_current().ok()?;
    Some(runtime.spawn(async move {
        let _ = permit.give_back().await;
    }))
}
