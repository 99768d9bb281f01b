//! Makes decisions through both clients at once, and checks that the server counted what was
//! allowed.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_core::{
    Algorithm, FixedWindow, Limit, LimitError, Quota, RateLimiter, SlidingLog, Store, StoreError,
};
use tollgate_testkit::Server;

use super::clients::{Client, Clients, Fred, RedisRs, options};
use crate::{Problem, stamp};

/// The number of calls in flight through each client.
const CALLERS: usize = 64;
/// The number of keys per limit.
const KEYS: usize = 100;

/// A limit, and the answers for each of its keys.
struct LimitTally {
    limit: Limit,
    keys: Vec<Key>,
}

/// A key, and the answers to its calls.
struct Key {
    name: String,
    calls: AtomicU64,
    allowed: AtomicU64,
}

/// The state that all callers share.
struct Soak {
    all: Vec<LimitTally>,
    turns: AtomicUsize,
    failed: AtomicU64,
}

impl Soak {
    /// Returns three limits, one that is not reached and two that are. None gives anything back
    /// while this runs, so the server's count must equal what was allowed.
    fn new(label: &str) -> Result<Self, LimitError> {
        let many = Quota::new(1_000_000_000, Duration::from_secs(86_400))?;
        let few = Quota::per_day(1_000);
        let limits: [(&str, Algorithm); 3] = [
            ("counted", FixedWindow::anchored(many).into()),
            ("exhausted", FixedWindow::anchored(few).into()),
            ("logged", SlidingLog::new(few)?.into()),
        ];
        let all = limits.map(|(name, algorithm)| {
            let keys = (0..KEYS).map(|number| Key {
                name: format!("user:{number}"),
                calls: AtomicU64::new(0),
                allowed: AtomicU64::new(0),
            });
            Ok(LimitTally {
                limit: Limit::new(&format!("soak-{label}-{name}"), algorithm)?,
                keys: keys.collect(),
            })
        });
        Ok(Self {
            all: all.into_iter().collect::<Result<_, LimitError>>()?,
            turns: AtomicUsize::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// Returns one limiter per limit.
    fn limiters<C: Client>(
        &self,
        client: &C,
        batches: bool,
    ) -> Result<Vec<RateLimiter<Arc<C::Store>>>, Problem> {
        let store = Arc::new(client.store_with(options().with_batches(batches))?);
        let limiter = |tally: &LimitTally| {
            let limiter = RateLimiter::new(Arc::clone(&store), [tally.limit.clone()])?;
            Ok(limiter)
        };
        self.all.iter().map(limiter).collect()
    }

    /// Makes calls until `end` through one client.
    async fn call<S: Store>(&self, limiters: &[RateLimiter<S>], end: Instant) {
        while Instant::now() < end {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let which = turn % self.all.len();
            let key = &self.all[which].keys[turn / self.all.len() % KEYS];
            key.calls.fetch_add(1, Ordering::Relaxed);
            match limiters[which].check(key.name.as_str()).await {
                Ok(decision) => {
                    let allowed = u64::from(decision.is_allowed());
                    key.allowed.fetch_add(allowed, Ordering::Relaxed);
                }
                Err(_) => {
                    self.failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Makes decisions for `span`, each by itself and then together, and fails unless each was counted
/// exactly once.
pub(crate) async fn run(
    out: &mut (impl Write + Send),
    server: &Server,
    clients: &Clients,
    span: Duration,
) -> Result<(), Problem> {
    one(out, server, clients, span / 2, false).await?;
    one(out, server, clients, span / 2, true).await
}

async fn one(
    out: &mut (impl Write + Send),
    server: &Server,
    clients: &Clients,
    span: Duration,
    batches: bool,
) -> Result<(), Problem> {
    let label = if batches { "together" } else { "alone" };
    let soak = Arc::new(Soak::new(label)?);
    let redis = Arc::new(soak.limiters::<RedisRs>(&clients.redis, batches)?);
    let fred = Arc::new(soak.limiters::<Fred>(&clients.fred, batches)?);
    // A script that is not loaded yet is rejected and sent again, so load the scripts before
    // counting.
    for limiter in &*redis {
        let _ = limiter.check("first").await?;
    }
    let before = stamp::scripts_run(server)?;
    let begun = Instant::now();
    let end = begun + span;
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let (shared, limiters) = (Arc::clone(&soak), Arc::clone(&redis));
        callers.push(tokio::spawn(
            async move { shared.call(&limiters, end).await },
        ));
        let (shared, limiters) = (Arc::clone(&soak), Arc::clone(&fred));
        callers.push(tokio::spawn(
            async move { shared.call(&limiters, end).await },
        ));
    }
    for caller in callers {
        caller.await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let scripts = stamp::scripts_run(server)? - before;
    writeln!(
        out,
        "Through both clients at once, {CALLERS} calls in flight through each, sent {label}, for {seconds:.1} s:\n"
    )?;
    writeln!(out, "| limit | keys | decisions | allowed | counted |")?;
    writeln!(out, "|---|---:|---:|---:|---:|")?;
    let (mut decisions, mut wrong) = (0, 0);
    for (tally, (redis, fred)) in soak.all.iter().zip(redis.iter().zip(&*fred)) {
        let sums = compare(tally, redis, fred).await?;
        decisions += sums.decisions;
        wrong += sums.wrong;
        writeln!(
            out,
            "| `{}` | {KEYS} | {} | {} | {} |",
            tally.limit.algorithm(),
            sums.decisions,
            sums.allowed,
            sums.counted
        )?;
    }
    let failed = soak.failed.load(Ordering::Relaxed);
    writeln!(
        out,
        "\n{decisions} decisions, {failed} of them failed, and {scripts} scripts that the server \
         ran; {wrong} keys of which it counts another number than was allowed.\n"
    )?;
    let is_one_script_each = scripts == decisions;
    if failed > 0 || wrong > 0 || is_one_script_each == batches {
        return Err("not every decision was counted once".into());
    }
    Ok(())
}

/// The answers of a limit, and the server's counts.
#[derive(Default)]
struct Sums {
    decisions: u64,
    allowed: u64,
    counted: u64,
    /// The number of keys for which the two differ.
    wrong: u64,
}

/// Compares the answers of a limit with the counts that both clients read from the server.
async fn compare<S: Store, T: Store>(
    tally: &LimitTally,
    redis: &RateLimiter<S>,
    fred: &RateLimiter<T>,
) -> Result<Sums, StoreError> {
    let mut sums = Sums::default();
    for key in &tally.keys {
        let allowed = key.allowed.load(Ordering::Relaxed);
        let counted = counted(redis, &key.name).await?;
        let agreed = counted == allowed && self::counted(fred, &key.name).await? == allowed;
        sums.decisions += key.calls.load(Ordering::Relaxed);
        sums.allowed += allowed;
        sums.counted += counted;
        sums.wrong += u64::from(!agreed);
    }
    Ok(sums)
}

/// Returns how much of a limit the server has counted for a key.
async fn counted<S: Store>(limiter: &RateLimiter<S>, key: &str) -> Result<u64, StoreError> {
    let decision = limiter.peek(key).await?;
    let (_, verdict) = decision.binding();
    Ok(verdict.capacity() - verdict.remaining())
}
