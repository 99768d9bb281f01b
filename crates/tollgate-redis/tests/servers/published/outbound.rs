//! Calls to a service with its own limit: how many it refuses, depending on the caller's limiter.

use std::time::Duration;

use tollgate_core::{Algorithm, FixedWindow, Gcra, Quota, SlidingLog};

use super::support::{Limiter, Place, START_MS, admitted_at, at_ms, log};

/// How much longer slow calls travel than fast ones.
const JITTER_MS: u64 = 50;

/// Calls a service a hundred times, and returns how many of the calls it refuses. The service lets
/// five calls arrive in any second. Each call is made as early as `own` allows, with a pause after
/// the first call.
async fn refused(own: impl Into<Algorithm>, jitter_ms: u64) -> u64 {
    let place = Place::new().await;
    let own = place.limiter(own);
    let mut now_ms = START_MS;
    let mut arrivals = Vec::new();
    for call in 0..100 {
        if call == 1 {
            now_ms += 900;
        }
        while let Some(wait) = wait(&own, now_ms).await {
            now_ms += wait;
        }
        // Five calls travel slowly, the next five fast.
        arrivals.push(now_ms + if call % 10 < 5 { jitter_ms } else { 0 });
    }
    arrivals.sort_unstable();
    let theirs = place.limiter(log(5, 1));
    100 - admitted_at(&theirs, "theirs", arrivals).await
}

/// Returns how many milliseconds to wait before the call may be made.
async fn wait(own: &Limiter, now_ms: u64) -> Option<u64> {
    let decision = own.check("own").at(at_ms(now_ms)).await.unwrap();
    let wait = decision.retry_after().as_micros().unwrap();
    decision.is_denied().then(|| wait.div_ceil(1_000))
}

#[tokio::test]
async fn a_clients_own_window_differs_from_the_services() {
    // Like a counter with an expiry: the first call opens the window.
    let anchored = FixedWindow::anchored(Quota::per_second(5));
    assert_eq!(refused(anchored, 0).await, 4);

    assert_eq!(refused(log(5, 1), 0).await, 0);
}

#[tokio::test]
async fn a_log_of_departures_needs_a_margin_for_the_journey() {
    assert_eq!(refused(log(5, 1), JITTER_MS).await, 40);

    let longer = Quota::new(5, Duration::from_millis(1_000 + JITTER_MS)).unwrap();
    let with_margin = SlidingLog::new(longer).unwrap();
    assert_eq!(refused(with_margin, JITTER_MS).await, 0);
    let paced = Gcra::with_burst(longer, 1).unwrap();
    assert_eq!(refused(paced, JITTER_MS).await, 0);
}
