//! `Scene`: a limit that is called during a fault, and two limiters for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tollgate_core::{FixedWindow, Limit, Quota, RateLimiter};
use tollgate_testkit::Server;
use tollgate_wire::Options;

use super::DEADLINE;
use super::load::{CALLERS, Limiter, Load, PATIENCE};
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
            client.server(url, suffering()).await.unwrap(),
            client.server(&server.url(), patient()).await.unwrap(),
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

    pub(crate) fn load(&self) -> Load {
        Load::on(&self.limiter, &[KEY])
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
pub(crate) fn suffering() -> Options {
    Options::default().with_deadline(DEADLINE)
}

/// The options of the observing limiter, which waits until the fault is over.
pub(crate) fn patient() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// Runs blocking work on servers without delaying other tasks.
pub(crate) fn wait<T>(work: impl FnOnce() -> T) -> T {
    block_in_place(work)
}

/// Checks that `runs` scripts can have counted `counted` calls: one each, unless they are sent together.
#[track_caller]
pub(crate) fn each_run_counts(client: &dyn Client, runs: u64, counted: u64) {
    if client.sends_alone() {
        assert_eq!(runs, counted);
    } else {
        let holds = (1..=counted).contains(&runs);
        assert!(holds, "{runs} runs, {counted} counted");
    }
}

/// Returns how many scripts the server has run since it started.
pub(crate) fn executed(server: &Server) -> u64 {
    let reply = wait(|| server.command(&["INFO", "commandstats"]));
    let text = reply.text().expect("information");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let Some(line) = line else { return 0 };
    let field = |name: &str| -> u64 {
        let mut fields = line.trim_end().split(',');
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
