//! A day of faults: processes with the usual layers share a server that fails in every way, at
//! instants that a seed chooses, by a clock that jumps from one event to the next.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_core::store::{Checks, Request, Source, Verdicts};
use tollgate_core::{ErrorKind, RateLimiter, Store, StoreError, Timestamp};
use tollgate_layers::{Breaker, DenyCache, Fallback, Observed, Share};
use tollgate_memory::{Clock, MemoryStore};
use tollgate_testkit::rounds;

use crate::support::{Jumping, in_jumps, most_within};

const HOUR: Duration = Duration::from_secs(60 * 60);
const AMOUNT: usize = 24;
const WINDOW: Duration = Duration::from_secs(60);
const LIMIT: &str = "a=sliding-log:24/1m";
const PROCESSES: u32 = 4;
/// How many callers each process has.
const CALLERS: usize = 3;
const KEYS: u64 = 5;
/// What the layers have as their defaults.
const SLOW_AFTER: Duration = Duration::from_millis(100);
const RETRY_EVERY: Duration = Duration::from_millis(200);
const MAX_AGE: Duration = Duration::from_secs(1);
/// When a client of a server gives up.
const DEADLINE: Duration = Duration::from_millis(500);

/// Returns how many hours of the day pass.
fn hours() -> u32 {
    rounds(12)
}

/// How a server does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Weather {
    Fine,
    /// It decides, and the reply arrives this late.
    Slow(Duration),
    /// Nothing listens.
    Down,
    /// Requests are lost on the way.
    Drops,
    /// It decides, and replies are lost on the way.
    LosesReplies,
    /// It decides every third call, and refuses the others.
    EveryThird,
}

impl Weather {
    const ALL: [Self; 7] = [
        Self::Fine,
        Self::Slow(Duration::from_millis(200)),
        Self::Slow(Duration::from_millis(50)),
        Self::Down,
        Self::Drops,
        Self::LosesReplies,
        Self::EveryThird,
    ];

    /// Returns whether no call succeeds, or none within what a breaker allows.
    fn is_dark(self) -> bool {
        match self {
            Self::Down | Self::Drops | Self::LosesReplies => true,
            Self::Slow(by) => by > SLOW_AFTER,
            Self::Fine | Self::EveryThird => false,
        }
    }
}

/// A server in memory.
struct Server {
    clock: Jumping,
    state: Mutex<State>,
}

struct State {
    store: Arc<MemoryStore>,
    weather: Weather,
    /// When it has restarted without its states.
    restarts: Vec<Timestamp>,
    /// When it decided last.
    decided: Option<Timestamp>,
    /// How often it was asked.
    asked: u64,
    /// By which process it was asked in vain, and when.
    in_vain: Vec<(u32, Timestamp)>,
}

impl Server {
    fn new(clock: Jumping) -> Self {
        let state = State {
            store: Arc::new(clock.memory()),
            weather: Weather::Fine,
            restarts: Vec::new(),
            decided: None,
            asked: 0,
            in_vain: Vec::new(),
        };
        Self {
            clock,
            state: Mutex::new(state),
        }
    }

    /// Restarts at an instant before which it has decided nothing, so that each instant is before or
    /// after it.
    async fn restart(&self) {
        while self.state.lock().unwrap().decided == Some(self.clock.now()) {
            sleep(Duration::from_millis(1)).await;
        }
        let mut state = self.state.lock().unwrap();
        state.store = Arc::new(self.clock.memory());
        state.restarts.push(self.clock.now());
    }

    fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.state.lock().unwrap().store)
    }

    async fn decide_now(&self, request: Request<'_>) -> Result<Verdicts, StoreError> {
        self.state.lock().unwrap().decided = Some(self.clock.now());
        self.store().decide(request).await
    }
}

/// A process's connection to a server.
struct Connection {
    process: u32,
    server: Arc<Server>,
}

impl Connection {
    /// Asks the server, and returns how it does and how often it was asked.
    fn ask(&self) -> (Weather, u64) {
        let mut state = self.server.state.lock().unwrap();
        state.asked += 1;
        if state.weather.is_dark() {
            let now = self.server.clock.now();
            state.in_vain.push((self.process, now));
        }
        (state.weather, state.asked)
    }
}

#[async_trait]
impl Store for Connection {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let (weather, asked) = self.ask();
        let server = &self.server;
        let lost = StoreError::new(ErrorKind::Unknown, "no reply before the deadline");
        let down = StoreError::new(ErrorKind::Unavailable, "connection refused");
        match weather {
            Weather::Fine => sleep(Duration::from_millis(1)).await,
            Weather::EveryThird if asked.is_multiple_of(3) => {}
            Weather::Down | Weather::EveryThird => return Err(down),
            Weather::Drops => {
                sleep(DEADLINE).await;
                return Err(lost);
            }
            Weather::LosesReplies => {
                let _ = server.decide_now(request).await;
                sleep(DEADLINE).await;
                return Err(lost);
            }
            Weather::Slow(by) => {
                let verdicts = server.decide_now(request).await;
                sleep(by).await;
                return verdicts;
            }
        }
        server.decide_now(request).await
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.server.store().reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.server.store().supports(request)
    }
}

/// A decision as a caller saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    key: u64,
    process: u32,
    begun: Timestamp,
    ended: Timestamp,
    source: Source,
    /// When it was counted, if it was allowed.
    counted: Option<Timestamp>,
}

/// What happened to the server, and when.
#[derive(Debug)]
struct Forecast {
    weather: Vec<(Timestamp, Weather)>,
    restarts: Vec<Timestamp>,
    /// By which process it was asked in vain, and when.
    in_vain: Vec<(u32, Timestamp)>,
}

impl Forecast {
    /// Returns how often the server had restarted by then.
    fn restarts(&self, by: Timestamp) -> usize {
        self.restarts.partition_point(|at| *at <= by)
    }

    /// Returns each weather with its beginning and its end.
    fn spans(&self) -> impl Iterator<Item = (Weather, Timestamp, Timestamp)> {
        let ends = self.weather[1..].iter().map(|(from, _)| *from);
        let spans = self.weather.iter().zip(ends);
        spans.map(|((from, weather), end)| (*weather, *from, end))
    }
}

fn rng(seed: u64, of: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&of.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// Lets a part of a day pass, and returns what callers saw.
async fn pass(seed: u64, length: Duration) -> (Vec<Seen>, Forecast) {
    let start = Instant::now();
    let clock = Jumping::new();
    let server = Arc::new(Server::new(clock));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut callers = Vec::new();
    for process in 0..PROCESSES {
        let connection = Connection {
            process,
            server: Arc::clone(&server),
        };
        let cache = DenyCache::new(Breaker::new(connection).clock(clock)).clock(clock);
        let local = Share::new(clock.memory(), NonZeroU32::new(PROCESSES).unwrap());
        let store = Observed::new(Fallback::to(cache, local));
        let limiter = RateLimiter::new(store, [LIMIT]).unwrap();
        for caller in 0..CALLERS {
            let (limiter, server) = (limiter.clone(), Arc::clone(&server));
            let seen = Arc::clone(&seen);
            let mut rng = rng(seed, u64::from(process) * 100 + caller as u64);
            callers.push(tokio::spawn(async move {
                let mut rush = 0_u32;
                while start.elapsed() < length {
                    // Rest, call now and then, or call again and again.
                    rush = match rush {
                        0 if rng.random_bool(0.01) => 100,
                        rush => rush.max(1) - 1,
                    };
                    let longest = match rush {
                        0 if rng.random_bool(0.5) => 15_000,
                        0 => 400,
                        _ => 10,
                    };
                    sleep(Duration::from_millis(rng.random_range(1..longest))).await;
                    // Half of all calls are for one key.
                    let key = rng.random_range(0..2 * KEYS).saturating_sub(KEYS);
                    let begun = clock.now();
                    let decision = limiter.check(key).await.unwrap();
                    let (source, is_allowed) = (decision.source(), decision.is_allowed());
                    if source == Source::Cache {
                        assert!(!is_allowed);
                        assert_is_denied(&server, key).await;
                    }
                    let receipt = decision.into_receipt();
                    seen.lock().unwrap().push(Seen {
                        key,
                        process,
                        begun,
                        ended: clock.now(),
                        source,
                        counted: receipt.map(|receipt| receipt.consumed()[0].at()),
                    });
                }
            }));
        }
    }
    let forecast = forecast(seed, length, &server, start).await;
    for caller in callers {
        caller.await.unwrap();
    }
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, forecast)
}

/// Asserts that the server would deny a call for `key`, unless it has just lost its states.
async fn assert_is_denied(server: &Arc<Server>, key: u64) {
    let limiter = RateLimiter::new(server.store(), [LIMIT]).unwrap();
    let would_allow = limiter.peek(key).await.unwrap().is_allowed();
    let restarted = server.state.lock().unwrap().restarts.last().copied();
    let now = server.clock.now();
    let has_forgotten = restarted.is_some_and(|at| now.saturating_duration_since(at) <= MAX_AGE);
    assert!(!would_allow || has_forgotten, "the server would allow it");
}

/// Changes the weather, and restarts the server, until the end.
async fn forecast(seed: u64, length: Duration, server: &Server, start: Instant) -> Forecast {
    let mut rng = rng(seed, u64::MAX);
    let mut all = vec![(server.clock.now(), Weather::Fine)];
    while start.elapsed() < length {
        let lasts = Duration::from_millis(rng.random_range(100..600_000));
        let (end, restarts) = (Instant::now() + lasts, rng.random_bool(0.1));
        if restarts {
            sleep(lasts / 2).await;
            server.restart().await;
        }
        sleep_until(end).await;
        let next = Weather::ALL[rng.random_range(0..Weather::ALL.len())];
        server.state.lock().unwrap().weather = next;
        all.push((server.clock.now(), next));
    }
    let state = server.state.lock().unwrap();
    Forecast {
        weather: all,
        restarts: state.restarts.clone(),
        in_vain: state.in_vain.clone(),
    }
}

/// Returns the most that was counted by key and by `group`, which gets when, within a window.
fn most_by(seen: &[Seen], group: impl Fn(&Seen, Timestamp) -> Option<usize>) -> usize {
    let mut counted: HashMap<_, Vec<_>> = HashMap::new();
    for one in seen {
        if let Some(at) = one.counted
            && let Some(group) = group(one, at)
        {
            counted.entry((one.key, group)).or_default().push(at);
        }
    }
    let most = counted.into_values();
    let most = most.map(|at| most_within(at, WINDOW)).max();
    most.expect("something was counted")
}

/// Asserts that a process asks a server that is dark only until it knows, and then now and then; and
/// that nobody waits but who asks.
fn assert_leaves_alone(seen: &[Seen], forecast: &Forecast, least: usize) {
    // Those that were sent before the first of them failed.
    let before_it_knows = CALLERS + 3;
    let mut gaps = 0;
    for (_, from, end) in forecast.spans().filter(|(weather, ..)| weather.is_dark()) {
        for process in 0..PROCESSES {
            let of_process = forecast.in_vain.iter().filter(|(of, _)| *of == process);
            let asked = of_process.map(|(_, at)| *at);
            let asked: Vec<_> = asked.filter(|at| (from..end).contains(at)).collect();
            for pair in asked.windows(2).skip(before_it_knows) {
                let gap = pair[1].saturating_duration_since(pair[0]);
                assert!(gap >= RETRY_EVERY, "asked again after {gap:?}");
                gaps += 1;
            }
            let known = asked.get(before_it_knows).copied().unwrap_or(end);
            let of_process = seen.iter().filter(|one| one.process == process);
            for one in of_process.filter(|one| one.begun > known && one.ended < end) {
                let has_asked = asked.contains(&one.begun);
                let holds = one.begun == one.ended || has_asked;
                assert!(holds, "{one:?} waited for nothing");
                // Somebody tries, as soon as a try that hangs has been given up.
                let longest = DEADLINE + RETRY_EVERY;
                let mut tries = asked.iter().filter(|at| **at <= one.begun);
                let last = tries.next_back().expect("there is one before");
                let since = one.begun.saturating_duration_since(*last);
                let holds = one.source != Source::Fallback || since <= longest;
                assert!(holds, "{since:?} ago");
            }
        }
    }
    assert!(gaps > least, "only {gaps} tries");
}

/// Asserts that in fine weather, a process asks the server again as soon as it may.
fn assert_recovers(seen: &[Seen], forecast: &Forecast, least: usize) {
    // While each of three calls is the only one, the fallback answers the others.
    let most = 3 * (CALLERS - 1);
    let mut recovered = 0;
    for (_, from, end) in forecast
        .spans()
        .filter(|(weather, ..)| *weather == Weather::Fine)
    {
        // A try that hangs ends by its deadline.
        let may_try = from.saturating_add(DEADLINE + RETRY_EVERY);
        for process in 0..PROCESSES {
            let of_process = seen.iter().filter(|one| one.process == process);
            let within = of_process.filter(|one| one.begun > may_try && one.begun < end);
            let (by_fallback, others): (Vec<&Seen>, Vec<&Seen>) =
                within.partition(|one| one.source == Source::Fallback);
            assert!(
                by_fallback.len() <= most,
                "{} by the fallback",
                by_fallback.len()
            );
            recovered += others.len();
        }
    }
    assert!(recovered > least, "only {recovered} calls in fine weather");
}

#[test]
fn a_day_of_faults_stays_within_each_bound() {
    let (seen, forecast) = in_jumps(pass(1, HOUR * hours()));
    let hours = usize::try_from(hours()).unwrap();
    let least = 40 * hours;
    for source in [Source::Store, Source::Cache, Source::Fallback] {
        let count = seen.iter().filter(|one| one.source == source).count();
        assert!(count > least, "{count} decisions by {source:?}");
    }
    assert!(
        forecast.restarts.len() > hours / 3,
        "{} restarts",
        forecast.restarts.len()
    );
    let by_server = most_by(&seen, |one, at| {
        (one.source == Source::Store).then(|| forecast.restarts(at))
    });
    // What processes admit by themselves does not depend on the server.
    let by_processes = most_by(&seen, |one, _| {
        (one.source == Source::Fallback).then_some(0)
    });
    assert_eq!((by_server, by_processes), (AMOUNT, AMOUNT));
    let by_all = most_by(&seen, |_, at| Some(forecast.restarts(at)));
    assert!((AMOUNT + 1..=2 * AMOUNT).contains(&by_all), "{by_all}");
    assert_leaves_alone(&seen, &forecast, least);
    assert_recovers(&seen, &forecast, least);
}

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/outage.rs"]
mod example;

#[tokio::test]
async fn a_server_that_goes_and_comes_back_fails_no_call() {
    example::run(Duration::from_millis(200)).await.unwrap();
}
