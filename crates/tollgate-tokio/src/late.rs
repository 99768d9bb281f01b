//! Deadlines that do not take the delays of the program for those of a store.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_core::store::{Delays, Lateness};

/// Returns the output of `future` if it comes within this time, or later if the program itself is late.
pub async fn answered<T>(within: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (begun, mut future) = (Instant::now(), pin!(future));
    let (mut delays, mut lateness) = (Delays::default(), Lateness::begun(Duration::ZERO));
    loop {
        let waited = begun.elapsed();
        let left = lateness.extend(within).saturating_sub(waited);
        if left.is_zero() {
            return None;
        }
        let timer = left.min(Lateness::between(within));
        if let Ok(output) = timeout(timer, &mut future).await {
            return Some(output);
        }
        lateness.note(&mut delays, waited.saturating_add(timer), begun.elapsed());
    }
}
