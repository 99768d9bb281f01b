//! Processes with units in hand share a server whose replies are late or lost, and which restarts; its
//! clock steps, they vanish, and others ask directly: no window holds more than the bound, but for what is in hand
//! when its clock steps forward.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate_core::store::{Checks, Request, Source, Verdicts};
use tollgate_core::{Algorithm, ErrorKind, Limit, RateLimiter, Store, StoreError, Timestamp};
use tollgate_layers::Prefetch;
use tollgate_memory::{Clock, MemoryStore};
use tollgate_testkit::rounds;

use crate::support::{Jumping, in_jumps, most_within};

const L: Duration = Duration::from_millis(200);
const PROCESSES: usize = 4;
const CALLERS: usize = 3;

tokio::task_local! {
    /// When the server admitted the call of this task, by its clock and by one that does not step.
    static DECIDED: Cell<(Timestamp, Timestamp)>;
}

/// The server's clock, which has stepped by so many milliseconds.
#[derive(Clone)]
struct Stepping(Jumping, Arc<AtomicU64>);

impl Clock for Stepping {
    fn now(&self) -> Timestamp {
        let by = self.1.load(Ordering::SeqCst);
        self.0.now().saturating_add(Duration::from_millis(by))
    }
}

struct Server {
    clock: Jumping,
    stepping: Stepping,
    /// The latest instant of an admitted call: its states do not go back beyond it.
    latest: Mutex<Timestamp>,
    forward: Mutex<Vec<Timestamp>>,
    store: Mutex<Arc<MemoryStore>>,
    rng: Mutex<TestRng>,
    /// Whether it is about to restart.
    is_closed: Mutex<bool>,
    restarts: Mutex<Vec<Timestamp>>,
}

impl Server {
    fn chance(&self, of: f64) -> bool {
        self.rng.lock().unwrap().random_bool(of)
    }

    async fn delay(&self) {
        let longest = if self.chance(0.02) { 150_000 } else { 3_000 };
        let micros = self.rng.lock().unwrap().random_range(0..longest);
        sleep(Duration::from_micros(micros)).await;
    }

    fn memory(&self) -> Arc<MemoryStore> {
        Arc::new(MemoryStore::builder().clock(self.stepping.clone()).build())
    }

    /// Returns the instant at which a call is admitted now.
    fn now(&self) -> Timestamp {
        self.stepping.now().max(*self.latest.lock().unwrap())
    }

    /// Steps forward by more than units last, or back.
    fn step(&self) {
        let by = self.rng.lock().unwrap().random_range(0..20_000);
        let before = self.stepping.1.swap(by, Ordering::SeqCst);
        if by > before {
            self.forward.lock().unwrap().push(self.clock.now());
        }
    }

    /// Restarts without its states, when no call is on its way.
    async fn restart(&self) {
        *self.is_closed.lock().unwrap() = true;
        while Arc::strong_count(&self.store.lock().unwrap()) > 1 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(5)).await;
        *self.store.lock().unwrap() = self.memory();
        *self.latest.lock().unwrap() = Timestamp::UNIX_EPOCH;
        self.restarts.lock().unwrap().push(self.clock.now());
        sleep(Duration::from_millis(5)).await;
        *self.is_closed.lock().unwrap() = false;
    }
}

/// Of one process.
struct Connection(Arc<Server>);

#[async_trait]
impl Store for Connection {
    async fn decide<'a>(&'a self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        let server = &self.0;
        let lost = StoreError::new(ErrorKind::Unknown, "no reply");
        if *server.is_closed.lock().unwrap() {
            return Err(StoreError::new(ErrorKind::Unavailable, "refused"));
        }
        // As long as the call is on its way.
        let store = Arc::clone(&server.store.lock().unwrap());
        server.delay().await;
        if server.chance(0.02) {
            return Err(lost);
        }
        let verdicts = store.decide(request).await;
        if verdicts.as_ref().is_ok_and(Verdicts::is_allowed) {
            let now = server.now();
            *server.latest.lock().unwrap() = now;
            let _ = DECIDED.try_with(|decided| decided.set((now, server.clock.now())));
        }
        server.delay().await;
        if server.chance(0.02) {
            return Err(lost);
        }
        verdicts
    }

    async fn reset<'a>(&'a self, checks: Checks<'a>) -> Result<(), StoreError> {
        let store = Arc::clone(&self.0.store.lock().unwrap());
        store.reset(checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> Result<(), StoreError> {
        self.0.store.lock().unwrap().supports(request)
    }
}

/// A unit that was used: when, and after how many restarts it was counted.
#[derive(Clone, Copy)]
struct Used {
    at: Timestamp,
    restarts: usize,
}

/// What all callers have used, but for units in hand at a step forward, and how many calls such units admitted.
#[derive(Default)]
struct Seen {
    used: Mutex<Vec<Used>>,
    in_hand: AtomicUsize,
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

async fn call_until(
    end: Instant,
    limiter: RateLimiter<impl Store>,
    server: Arc<Server>,
    seen: Arc<Seen>,
    mut rng: TestRng,
) {
    let mut rest = 5;
    while Instant::now() < end {
        if rng.random_bool(0.02) {
            rest = [1, 5, 20, 400][rng.random_range(0..4)];
        }
        sleep(Duration::from_millis(rng.random_range(0..=rest))).await;
        let cost = rng.random_range(1..4_u32) / 2 + 1;
        let call = DECIDED.scope(Cell::default(), async {
            let decision = limiter.check("k").cost(cost.into()).await;
            (decision, DECIDED.with(Cell::get))
        });
        // Some callers leave.
        let patience = Duration::from_millis(rng.random_range(0..400));
        let Ok((Ok(decision), decided)) = tokio::time::timeout(patience, call).await else {
            continue;
        };
        if decision.is_denied() {
            continue;
        }
        let is_in_hand = decision.source() == Source::Prefetched;
        let (at, counted) = if is_in_hand {
            let _ = seen.in_hand.fetch_add(1, Ordering::Relaxed);
            let age = u64::try_from(decision.age().as_micros()).unwrap();
            let asked = server.clock.now().as_micros() - age;
            (server.now(), Timestamp::from_micros(asked).unwrap())
        } else {
            decided
        };
        let is_on_top = is_in_hand && server.forward.lock().unwrap().last() >= Some(&counted);
        if rng.random_bool(0.1) {
            // What is given back is not used, whether the reply arrives or not.
            sleep(Duration::from_millis(rng.random_range(0..=rest))).await;
            let _ = limiter.refund("k", decision.into_receipt().unwrap()).await;
            continue;
        }
        if is_on_top {
            continue;
        }
        let restarts = server.restarts.lock().unwrap().clone();
        let restarts = restarts.partition_point(|restart| *restart <= counted);
        for _ in 0..cost {
            seen.used.lock().unwrap().push(Used { at, restarts });
        }
    }
}

/// Lets `length` pass, and returns what was used.
async fn pass(limits: &[&str], seed: u64, length: Duration) -> Arc<Seen> {
    let clock = Jumping::new();
    let stepping = Stepping(clock, Arc::default());
    let memory = MemoryStore::builder().clock(stepping.clone()).build();
    let server = Arc::new(Server {
        clock,
        stepping,
        latest: Mutex::new(Timestamp::UNIX_EPOCH),
        forward: Mutex::default(),
        store: Mutex::new(Arc::new(memory)),
        rng: Mutex::new(rng(seed)),
        is_closed: Mutex::new(false),
        restarts: Mutex::new(Vec::new()),
    });
    let seen = Arc::new(Seen::default());
    let end = Instant::now() + length;
    let mut processes = JoinSet::new();
    for process in 0..PROCESSES {
        let (server, seen) = (Arc::clone(&server), Arc::clone(&seen));
        let limits: Vec<Limit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
        let mut rng = rng(seed * 1_000 + process as u64);
        processes.spawn(async move {
            while Instant::now() < end {
                let lives = Instant::now() + Duration::from_millis(rng.random_range(100..30_000));
                let mut callers = JoinSet::new();
                let connection = Connection(Arc::clone(&server));
                // The last of them asks directly.
                let within = if process + 1 < PROCESSES {
                    L
                } else {
                    Duration::ZERO
                };
                let store = Arc::new(Prefetch::new(connection, within).clock(server.clock));
                let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().cloned()).unwrap();
                for _ in 0..CALLERS {
                    let mut bytes = [0; 8];
                    rng.fill(&mut bytes[..]);
                    callers.spawn(call_until(
                        lives.min(end),
                        limiter.clone(),
                        Arc::clone(&server),
                        Arc::clone(&seen),
                        self::rng(u64::from_le_bytes(bytes)),
                    ));
                }
                if rng.random_bool(0.5) {
                    // It is killed, with what it has in hand.
                    sleep(lives.saturating_duration_since(Instant::now()) / 2).await;
                    callers.abort_all();
                } else {
                    let _ = callers.join_all().await;
                    store.give_back().await;
                }
            }
        });
    }
    while Instant::now() < end {
        sleep(Duration::from_millis(7_300)).await;
        if server.chance(0.2) {
            server.restart().await;
        } else if server.chance(0.5) {
            server.step();
        }
    }
    processes.join_all().await;
    seen
}

/// Asserts that no window holds more than the bound of `limit`.
fn assert_bound(limit: &Limit, used: &[Used]) {
    let quota = limit.algorithm().quota();
    let restarts = used.iter().map(|used| used.restarts).max().unwrap();
    for restart in 0..=restarts {
        let of = used.iter().filter(|used| used.restarts == restart);
        let at: Vec<_> = of.map(|used| used.at).collect();
        let most = |window| most_within(at.clone(), window) as u64;
        match limit.algorithm() {
            Algorithm::Gcra(gcra) => {
                for millis in [1, 50, 200, 1_000, 7_000, 20_000] {
                    let more = (millis * 1_000 * quota.amount()).div_ceil(quota.window_us());
                    let bound = gcra.burst() + more - 1;
                    let most = most(Duration::from_millis(millis));
                    assert!(most <= bound, "{limit}: {most} in {millis} ms, not {bound}");
                }
            }
            // A window begins with a call, of which the reply may be lost.
            Algorithm::FixedWindow(of) if of.is_anchored() => {
                let most = most(Duration::from_micros(quota.window_us()));
                assert!(most <= 2 * quota.amount(), "{limit}: {most}");
            }
            Algorithm::FixedWindow(_) | Algorithm::SlidingCounter(_) => {
                let mut windows: Vec<_> = at
                    .iter()
                    .map(|at| at.as_micros() / quota.window_us())
                    .collect();
                windows.sort_unstable();
                for window in windows.chunk_by(|a, b| a == b) {
                    assert!(
                        window.len() as u64 <= quota.amount(),
                        "{limit}: {}",
                        window.len()
                    );
                }
            }
            _ => {
                let most = most(Duration::from_micros(quota.window_us()));
                assert!(most <= quota.amount(), "{limit}: {most}");
            }
        }
    }
}

#[test]
fn whatever_happens_no_window_holds_more_than_the_bound() {
    for (seed, limits) in [
        &["a=gcra:300/1s,burst=200"][..],
        &["a=gcra:100/1s"],
        &["a=sliding-log:1000/10s"],
        &["a=sliding-log:100/1s"],
        &["a=sliding-buckets:1000/10s,buckets=20"],
        &["a=sliding-counter:1000/10s"],
        &["a=fixed-window:1000/10s"],
        &["a=fixed-window:1000/10s,anchored"],
        &["a=fixed-window:3000/day@Europe/Berlin"],
        &["a=gcra:150/1s,burst=100", "b=sliding-log:1000/10s"],
        &[
            "a=sliding-counter:1000/10s",
            "b=fixed-window:300/2s",
            "c=gcra:150/1s",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        for round in 0..u64::from(rounds(2)) {
            let length = Duration::from_secs(120);
            let seen = in_jumps(pass(limits, round * 100 + seed as u64, length));
            let used = std::mem::take(&mut *seen.used.lock().unwrap());
            let in_hand = seen.in_hand.load(Ordering::Relaxed);
            // GCRA gives out each unit as it comes, once callers take more than there is.
            assert!(in_hand > 50, "{limits:?}: {in_hand} of {}", used.len());
            for limit in limits {
                assert_bound(&limit.parse().unwrap(), &used);
            }
        }
    }
}
