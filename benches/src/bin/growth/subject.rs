//! The calls that are measured: decisions of some algorithms, and `INCR`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tollgate_benches::{Problem, connect};
use tollgate_core::{
    Algorithm, Gcra, Limit, Quota, RateLimiter, SlidingBuckets, SlidingCounter, SlidingLog,
    Timestamp,
};
use tollgate_redis::RedisStore;
use tollgate_testkit::Server;
use tollgate_wire::Options;

use crate::{CALLERS, WINDOW};

/// The instant of the first call of each key, by the caller's clock.
const FIRST_US: u64 = 1_780_000_000_000_000;

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) keys: usize,
    /// How many calls a key remembers.
    pub(crate) remembered: u64,
    pub(crate) cost: u64,
}

/// Decisions of one algorithm about one key after another.
pub(crate) struct Subject {
    name: &'static str,
    limiter: RateLimiter<Arc<RedisStore<MultiplexedConnection>>>,
    keys: Arc<Vec<String>>,
    cost: u64,
    /// The number of the next call.
    turn: AtomicUsize,
    /// How far apart two calls of a key are, by the caller's clock.
    apart: Duration,
    begin: Timestamp,
}

/// Returns decisions of some algorithms, after each key was called as often as it is to remember.
pub(crate) async fn all(server: &Server, taken: Taken) -> Result<Vec<Arc<Subject>>, Problem> {
    // Room for more than a window holds, so that every call is allowed.
    let most = taken.remembered.saturating_add(1) * 2 * taken.cost;
    let quota = Quota::new(most, WINDOW)?;
    let algorithms: [(&str, Algorithm); 4] = [
        ("gcra", Gcra::new(quota)?.into()),
        ("sliding counter", SlidingCounter::new(quota)?.into()),
        ("60 sliding buckets", SlidingBuckets::new(quota, 60)?.into()),
        ("sliding log", SlidingLog::new(quota)?.into()),
    ];
    let options = Options::new().with_deadline(Duration::from_secs(10));
    let store =
        RedisStore::with_options(connect(&server.url()).await?, options.with_batches(false));
    let store = Arc::new(store);
    let keys = names(taken.keys);
    let remembered = u32::try_from(taken.remembered)?;
    let mut subjects = Vec::new();
    for (name, algorithm) in algorithms {
        let limit = Limit::new(&name.replace(' ', "-"), algorithm)?;
        let subject = Arc::new(Subject {
            name,
            limiter: RateLimiter::new(Arc::clone(&store), [limit])?,
            keys: Arc::clone(&keys),
            cost: taken.cost,
            turn: AtomicUsize::new(0),
            apart: WINDOW / remembered,
            begin: Timestamp::saturating_from_micros(FIRST_US),
        });
        let calls = taken.keys * usize::try_from(remembered)?;
        subject.call(calls).await?;
        subjects.push(subject);
    }
    Ok(subjects)
}

impl Subject {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Makes so many calls, all of which must be allowed.
    pub(crate) async fn call(self: &Arc<Self>, calls: usize) -> Result<(), Problem> {
        let subject = Arc::clone(self);
        at_once(calls, move || {
            let subject = Arc::clone(&subject);
            async move { subject.next().await }
        })
        .await
    }

    async fn next(&self) -> Result<(), Problem> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let before = u32::try_from(turn / self.keys.len())?;
        let at = self.begin.saturating_add(self.apart * before);
        let key = &*self.keys[turn % self.keys.len()];
        let decision = self.limiter.check(key).cost(self.cost).at(at).await?;
        decision.permit()?;
        Ok(())
    }
}

/// `INCR` of one key after another.
pub(crate) struct Increments {
    connection: MultiplexedConnection,
    keys: Arc<Vec<String>>,
    turn: Arc<AtomicUsize>,
}

impl Increments {
    /// Returns increments of so many keys, each of which exists.
    pub(crate) async fn new(server: &Server, keys: usize) -> Result<Self, Problem> {
        let increments = Self {
            connection: connect(&server.url()).await?,
            keys: names(keys),
            turn: Arc::default(),
        };
        increments.call(keys).await?;
        Ok(increments)
    }

    /// Makes so many calls.
    pub(crate) async fn call(&self, calls: usize) -> Result<(), Problem> {
        let connection = self.connection.clone();
        let (keys, turn) = (Arc::clone(&self.keys), Arc::clone(&self.turn));
        at_once(calls, move || {
            let mut connection = connection.clone();
            let (keys, turn) = (Arc::clone(&keys), turn.fetch_add(1, Ordering::Relaxed));
            async move {
                let mut command = redis::cmd("INCR");
                command.arg(&*keys[turn % keys.len()]);
                let _: u64 = command.query_async(&mut connection).await?;
                Ok(())
            }
        })
        .await
    }
}

fn names(keys: usize) -> Arc<Vec<String>> {
    Arc::new((0..keys).map(|key| format!("user-{key}")).collect())
}

/// Makes at least so many calls, several at once.
async fn at_once<F>(
    calls: usize,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Result<(), Problem>
where
    F: Future<Output = Result<(), Problem>> + Send,
{
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let call = call.clone();
        callers.spawn(async move {
            for _ in 0..calls.div_ceil(CALLERS) {
                call().await?;
            }
            Ok::<_, Problem>(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}
