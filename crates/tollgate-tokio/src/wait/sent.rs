//! `Sent`: a call whose caller may go away.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;

/// A call on its way to the store.
///
/// If it is dropped, its caller leaves, and then it is completed in the background: a call that is
/// given up on its way may have been counted. It must not be completed for a caller that is still
/// in line but takes nothing any more.
pub(super) struct Sent<T: Send + 'static, L: Fn()> {
    runtime: Handle,
    deciding: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    leave: L,
}

impl<T: Send + 'static, L: Fn()> Sent<T, L> {
    pub(super) fn new(
        runtime: &Handle,
        deciding: impl Future<Output = T> + Send + 'static,
        leave: L,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            deciding: Some(Box::pin(deciding)),
            leave,
        }
    }
}

impl<T: Send + 'static, L: Fn() + Unpin> Future for Sent<T, L> {
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

impl<T: Send + 'static, L: Fn()> Drop for Sent<T, L> {
    fn drop(&mut self) {
        if let Some(deciding) = self.deciding.take() {
            (self.leave)();
            self.runtime.spawn(deciding);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use tokio::task::yield_now;

    use super::*;

    /// Otherwise what the call brings could go to a caller that is no longer there.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_caller_leaves_before_its_call_is_completed_without_it() {
        let completed = Arc::new(AtomicBool::new(false));
        let completes = Arc::clone(&completed);
        let deciding = async move {
            yield_now().await;
            completes.store(true, Ordering::SeqCst);
        };
        let left = AtomicBool::new(false);
        let leave = || {
            // Long enough for the other thread.
            thread::sleep(Duration::from_millis(20));
            left.store(!completed.load(Ordering::SeqCst), Ordering::SeqCst);
        };
        let mut sent = Box::pin(Sent::new(&Handle::current(), deciding, leave));
        let polled = future::poll_fn(|context| Poll::Ready(sent.as_mut().poll(context)));
        assert!(polled.await.is_pending());
        drop(sent);
        assert!(left.load(Ordering::SeqCst));
        while !completed.load(Ordering::SeqCst) {
            yield_now().await;
        }
    }
}
