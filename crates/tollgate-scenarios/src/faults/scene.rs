//! A limit that a fault is about, and two ways to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;
use tollgate_core::algorithm::FixedWindow;
use tollgate_core::wire::Options;
use tollgate_core::{Limit, Quota, RateLimiter, Store};
use tollgate_testkit::Server;

use super::load::{CALLERS, Limiter, Load, PATIENCE};
use super::{Client, DEADLINE};

/// How many calls the limit admits: more than are made during a fault.
pub(crate) const BOUND: u64 = 10_000;
/// Whom nearly all calls are for.
pub(crate) const KEY: &str = "key";
/// How much is taken at once of what is left.
const BITE: u64 = 7;

/// A limit that a fault is about, and two ways to it: the one that suffers, and one to look by.
pub(crate) struct Scene {
    limiter: Arc<Limiter>,
    auditor: Arc<Limiter>,
}

impl Scene {
    /// Connects to `server` through `address`, which is its own or that of a proxy.
    pub(crate) async fn on_server<C: Client>(server: &Server, address: &str) -> Self {
        Self::with(
            C::server(address, suffering()).await,
            C::server(&server.address(), patient()).await,
        )
    }

    pub(crate) fn with(store: Arc<dyn Store>, auditor: Arc<dyn Store>) -> Self {
        Self {
            limiter: limiter(store),
            auditor: limiter(auditor),
        }
    }

    pub(crate) fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// Returns the limiter that no machine is too busy for.
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

    /// Lets many take at once what is left for `key`, and returns how much that was.
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

/// The options of whoever suffers.
pub(crate) fn suffering() -> Options {
    Options::default().with_deadline(DEADLINE)
}

/// The options of whoever waits until all is well.
pub(crate) fn patient() -> Options {
    Options::default().with_deadline(Duration::from_secs(10))
}

/// Does what waits for servers, without keeping the callers waiting.
pub(crate) fn wait<T>(work: impl FnOnce() -> T) -> T {
    block_in_place(work)
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
    // What fails did nothing: the script was not known.
    field("calls") - field("failed_calls")
}

fn limiter(store: Arc<dyn Store>) -> Arc<Limiter> {
    // Not aligned: no window may end within a test.
    let quota = Quota::new(BOUND, Duration::from_secs(3_600)).expect("a quota");
    let limit = Limit::new("calls", FixedWindow::anchored(quota)).expect("a limit");
    Arc::new(RateLimiter::new(store, [limit]).expect("a limiter"))
}
