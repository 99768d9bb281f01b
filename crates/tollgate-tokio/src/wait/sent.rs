//! `Sent`: a call whose caller may go away.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// A call on its way to the store.
///
/// If it is dropped, it is completed in the background: a call that is given up on its way may have
/// been counted.
pub(super) struct Sent<T: Send + 'static> {
    runtime: Handle,
    deciding: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> Sent<T> {
    pub(super) fn new(
        runtime: &Handle,
        deciding: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            deciding: Some(Box::pin(deciding)),
        }
    }
}

impl<T: Send + 'static> Future for Sent<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(deciding) = &mut self.deciding else {
            return Poll::Pending;
        };
        let answer = ready!(deciding.as_mut().poll(context));
        self.deciding = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Sent<T> {
    fn drop(&mut self) {
        if let Some(deciding) = self.deciding.take() {
            self.runtime.spawn(deciding);
        }
    }
}
