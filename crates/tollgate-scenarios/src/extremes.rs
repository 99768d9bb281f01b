//! The longest and shortest durations that options accept.

use std::time::Duration;

use tollgate_core::{ErrorKind, StoreError};
use tollgate_testkit::{Cluster, Flavor, SentinelGroup, Server};
use tollgate_wire::{Options, TimeSource};

use crate::client::{Client, Connected};
use crate::secured::limiter;

/// Deadlines that are never reached; some exceed what timers and socket options can hold.
const LONG: [Duration; 5] = [
    Duration::MAX,
    Duration::from_secs(u64::MAX / 1_000),
    Duration::from_millis(1 << 32),
    Duration::from_millis(1 << 31),
    Duration::from_secs(3_600),
];
/// Deadlines that pass immediately.
const SHORT: [Duration; 2] = [Duration::from_nanos(1), Duration::from_micros(1)];

/// Extreme times on a server.
pub async fn a_server_takes_extreme_times(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    are_taken(async |options| client.server(&server.url(), options).await).await;
}

/// Extreme times in a cluster.
pub async fn a_cluster_takes_extreme_times(client: &dyn Client) {
    let cluster = Cluster::masters_only(Flavor::System, 2);
    are_taken(async |options| client.cluster(&cluster.urls(), options).await).await;
}

/// Extreme times behind Sentinels.
pub async fn sentinels_take_extreme_times(client: &dyn Client) {
    let group = SentinelGroup::start(Flavor::System);
    let (urls, name) = (group.sentinel_urls(), group.primary_name());
    are_taken(async |options| client.sentinels(&urls, name, options).await).await;
}

/// Checks that stores with extreme durations connect, and decide unless their deadline is too
/// short. A call that a store reports as not counted has not been counted.
pub async fn are_taken(connect: impl AsyncFn(Options) -> Result<Connected, StoreError>) {
    for (index, deadline) in LONG.into_iter().enumerate() {
        let options = Options::default().with_deadline(deadline);
        let options = options.with_caller_slack(deadline);
        for (clock, key) in [
            (TimeSource::Server, "server"),
            (TimeSource::Caller, "caller"),
        ] {
            let store = connect(options.clone().with_time_source(clock)).await;
            let limiter = limiter(store.unwrap());
            let key = format!("{key}-{index}");
            let decision = limiter.check(key.as_str()).await;
            let decision = decision.unwrap_or_else(|error| panic!("{deadline:?}: {error:?}"));
            assert_eq!(decision.remaining(), 8, "{deadline:?}");
            limiter.reset(key.as_str()).await.unwrap();
        }
    }
    let none = connect(Options::default().with_deadline(Duration::ZERO)).await;
    let none = limiter(none.unwrap());
    let error = none.check("none").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
    assert!(error.to_string().contains("such as 500 ms"), "{error}");
    let usual = limiter(connect(Options::default()).await.unwrap());
    let remaining = async || usual.peek("short").await.unwrap().remaining();
    let before = remaining().await;
    let mut may_be_counted = 0;
    for deadline in SHORT {
        let store = connect(Options::default().with_deadline(deadline)).await;
        let limiter = limiter(store.unwrap());
        match limiter.check("short").await {
            // A node that first had to redirect the call, or to load the script, has not run it.
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{deadline:?}: {error:?}");
                may_be_counted += 1;
            }
            Ok(_) => may_be_counted += 1,
        }
        if let Err(error) = limiter.peek("short").await {
            let kind = error.kind();
            assert_eq!(kind, ErrorKind::Unavailable, "{deadline:?}: {error:?}");
        }
    }
    let counted = before - remaining().await;
    assert!(counted <= may_be_counted, "{counted} were counted");
}
