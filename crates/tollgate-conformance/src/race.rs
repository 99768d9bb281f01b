//! Callers who start together.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Runs the calls that `call` returns for the numbers from 0 to `count - 1`, each in a task of its
/// own. All start when the last task is ready. Returns what they return, in any order.
pub(crate) async fn race<F>(count: usize, call: impl Fn(usize) -> F) -> Vec<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let start = Arc::new(Barrier::new(count));
    let mut callers = JoinSet::new();
    for number in 0..count {
        let (start, call) = (Arc::clone(&start), call(number));
        callers.spawn(async move {
            start.wait().await;
            call.await
        });
    }
    callers.join_all().await
}
