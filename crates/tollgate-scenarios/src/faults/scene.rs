//! `Scene`: a limit that is called during a fault, and two limiters for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tollgate_core::{ErrorKind, FixedWindow, Limit, Quota, RateLimiter};
use tollgate_testkit::{Cluster, Server};
use tollgate_wire::Options;

use super::DEADLINE;
use super::load::{CALLERS, Limiter, Load, PATIENCE};
use super::tally::Tally;
use crate::client::{Client, Connected};

/// The amount of the limit: more than the calls made during a fault.
pub(crate) const BOUND: u64 = 10_000;
/// The key of nearly all calls.
pub(crate) const KEY: &str = "key";
/// The cost of each call that uses up what is left.
const BITE: u64 = 7;

/// A limit that is called during a fault, by a limiter exposed to the fault and another to observe
/// it.
pub(crate) struct Scene {
    limiter: Arc<Limiter>,
    auditor: Arc<Limiter>,
}

impl Scene {
    /// Connects to `server` through `url`: the server's own or a proxy's.
    pub(crate) async fn on_server(client: &dyn Client, server: &Server, url: &str) -> Self {
        Self::with(
            client.server(url, suffering(client)).await.unwrap(),
            client.server(&server.url(), patient(client)).await.unwrap(),
        )
    }

    pub(crate) async fn on_cluster(client: &dyn Client, cluster: &Cluster) -> Self {
        let urls = cluster.urls();
        Self::with(
            client.cluster(&urls, suffering(client)).await.unwrap(),
            client.cluster(&urls, patient(client)).await.unwrap(),
        )
    }

    pub(crate) fn with(store: Connected, auditor: Connected) -> Self {
        Self {
            limiter: limiter(store),
            auditor: limiter(auditor),
        }
    }

    pub(crate) fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// Returns the observing limiter, whose long deadline a busy machine does not exceed.
    pub(crate) fn auditor(&self) -> &Arc<Limiter> {
        &self.auditor
    }

    /// Starts callers, and waits until many calls have been allowed.
    pub(crate) async fn load(&self) -> Load {
        let load = Load::on(&self.limiter, &[KEY]);
        load.allowed(300).await;
        load
    }

    /// Checks that calls failed only for want of a connection, that the server counted what it allowed and did
    /// not lose, and that it admits no more; prints the row. Returns how many calls it counted.
    pub(crate) async fn settle(
        &self,
        client: &dyn Client,
        fault: &str,
        tally: &Tally,
        lost: u64,
        resumed: Duration,
    ) -> u64 {
        tally.fails_only_with(&[ErrorKind::Unavailable, ErrorKind::Unknown]);
        let counted = self.counted(KEY).await;
        tally.accounts_for(counted + lost);
        let (admitted, bound) = (tally.allowed() + self.use_up(KEY).await, BOUND + lost);
        assert!(admitted <= bound, "{admitted} with {lost} lost");
        assert!(admitted + tally.unknown() >= bound);
        tally.print(fault, client, [counted, admitted, bound], Some(resumed));
        counted
    }

    /// The same for a server that loses nothing, and checks that it executed each call at most once.
    pub(crate) async fn settle_runs(
        &self,
        client: &dyn Client,
        fault: &str,
        server: &Server,
        tally: &Tally,
        resumed: Duration,
    ) {
        // The last writes may still be on their way.
        sleep(Duration::from_millis(100)).await;
        let runs = executed(server);
        let counted = self.settle(client, fault, tally, 0, resumed).await;
        let least = if client.is_batched() { 1 } else { counted };
        assert!(
            (least..=counted).contains(&runs),
            "{runs} runs, {counted} counted"
        );
        assert_eq!(tally.denied(), 0);
    }

    /// Returns how many calls for `key` the server has counted.
    pub(crate) async fn counted(&self, key: &str) -> u64 {
        let begun = Instant::now();
        loop {
            match self.auditor.peek(key).await {
                Ok(decision) => return BOUND - decision.remaining(),
                Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Takes all that is left for `key`, from many tasks at once, and returns how much that was.
    pub(crate) async fn use_up(&self, key: &'static str) -> u64 {
        let mut takers = JoinSet::new();
        for _ in 0..CALLERS {
            let auditor = Arc::clone(&self.auditor);
            takers.spawn(async move {
                let mut taken = 0;
                loop {
                    let decision = auditor.take_up_to(key, BITE).await;
                    match decision.expect("a server that is well again").consumed() {
                        0 => return taken,
                        granted => taken += granted,
                    }
                }
            });
        }
        takers.join_all().await.into_iter().sum()
    }
}

/// The options of the limiter that is exposed to the fault.
pub(crate) fn suffering(client: &dyn Client) -> Options {
    options(client, DEADLINE)
}

/// The options of the observing limiter, which waits until the fault is over.
pub(crate) fn patient(client: &dyn Client) -> Options {
    options(client, Duration::from_secs(10))
}

fn options(client: &dyn Client, deadline: Duration) -> Options {
    let options = Options::default().with_deadline(deadline);
    match client.is_batched() {
        true => options.with_batches_only(),
        false => options,
    }
}

/// Runs blocking work on servers without delaying other tasks.
pub(crate) fn wait<T>(work: impl FnOnce() -> T) -> T {
    block_in_place(work)
}

/// Returns how many scripts the server has run since it started.
pub(crate) fn executed(server: &Server) -> u64 {
    let Some(line) = wait(|| server.info("commandstats", "cmdstat_evalsha")) else {
        return 0;
    };
    let field = |name: &str| -> u64 {
        let mut fields = line.split(',');
        let value = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.expect("a field").parse().expect("a number")
    };
    // Failed calls had no effect: the script was not loaded.
    field("calls") - field("failed_calls")
}

fn limiter(store: Connected) -> Arc<Limiter> {
    // An anchored window, which cannot end during a test.
    let quota = Quota::new(BOUND, Duration::from_secs(3_600)).expect("a quota");
    let limit = Limit::new("calls", FixedWindow::anchored(quota)).expect("a limit");
    Arc::new(RateLimiter::new(store, [limit]).expect("a limiter"))
}
