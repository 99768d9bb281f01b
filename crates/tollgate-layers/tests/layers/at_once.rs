//! What is decided from memory needs neither a future nor an allocation.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::measure;
use tollgate_core::store::Source;
use tollgate_core::{RateLimiter, Store};
use tollgate_layers::{AllowAll, usual};
use tollgate_memory::MemoryStore;

#[tokio::test]
async fn what_the_usual_layers_decide_from_memory_allocates_nothing() {
    let four = [
        "a=fixed-window:9000/1h",
        "b=fixed-window:9000/2h",
        "c=sliding-buckets:9000/1h,buckets=4",
        "d=sliding-counter:9000/1h",
    ];
    for (limits, source) in [
        (&four[..1], Source::Prefetched),
        (&four[..], Source::Prefetched),
        (&["a=fixed-window:1/1h"][..], Source::Cache),
    ] {
        let layers = usual(MemoryStore::new(), AllowAll);
        let layers = layers.prefetch(Duration::from_secs(10));
        let store: Arc<dyn Store> = Arc::new(layers.max_age(Duration::from_secs(60)));
        let limiter = RateLimiter::new(store, limits.iter().copied()).unwrap();
        for _ in 0..9 {
            drop(limiter.check("k").await.unwrap());
        }
        let call = || {
            let mut call = pin!(limiter.check("k").into_future());
            let decided = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(decided, Poll::Ready(Ok(decision)) if decision.source() == source));
        };
        assert_eq!(measure(call).count_total, 0, "{limits:?}");
    }
}
