//! The login by tower_governor.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

pub(crate) fn app() -> Router {
    let config = |amount: u32, window: Duration| {
        let mut builder = GovernorConfigBuilder::default();
        let builder = builder.period(window / amount).burst_size(amount);
        Arc::new(builder.use_headers().finish().expect("neither is zero"))
    };
    let minute = config(5, Duration::from_secs(60));
    let hour = config(20, Duration::from_secs(3600));
    // Without this, every address is kept for ever.
    let limiters = [minute.limiter().clone(), hour.limiter().clone()];
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(60));
            for limiter in &limiters {
                limiter.retain_recent();
            }
        }
    });
    Router::new()
        .route("/login", post(async || "welcome"))
        .layer(GovernorLayer::new(minute))
        .layer(GovernorLayer::new(hour))
}
