//! Callers that give up: what they leave is used by others, of the same process or of others.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::RateLimiter;
use tollgate_memory::MemoryStore;
use tollgate_testkit::rounds;
use tollgate_tokio::WaitUpTo;

use crate::paused;
use crate::waiting::{MINUTE, Remote, SECOND, TICK};

/// Callers of a limit that give up and come again.
#[derive(Debug)]
struct Crowd {
    limits: &'static [&'static str],
    /// Limiters with lines of their own, as in processes.
    processes: usize,
    callers: usize,
    /// How many of a hundred callers give up, and after how long.
    share: usize,
    patience: Duration,
    /// How long they stay away.
    pause: Duration,
}

/// What a crowd got.
struct Got {
    /// In each second.
    seconds: Vec<usize>,
    /// Of each process.
    processes: Vec<usize>,
    store_calls: usize,
}

impl Got {
    fn sum(&self) -> usize {
        self.seconds.iter().sum()
    }

    /// Returns Jain's index of what the processes got, in thousandths.
    fn fairness(&self) -> usize {
        let squares: usize = self.processes.iter().map(|share| share * share).sum();
        1_000 * self.sum() * self.sum() / (self.processes.len() * squares)
    }

    /// Returns the store calls for each call that was admitted, in hundredths.
    fn calls_each(&self) -> usize {
        100 * self.store_calls / self.sum()
    }
}

impl Crowd {
    /// Returns what these callers get in `seconds` seconds. A store call takes 2 ms.
    async fn gets(&self, seconds: usize) -> Got {
        let shared = Remote::new();
        let started = Instant::now();
        let until = started + SECOND * u32::try_from(seconds).unwrap();
        let mut stores = Vec::new();
        let mut callers = JoinSet::new();
        for process in 0..self.processes {
            let store = Remote::to(Arc::clone(&shared.store));
            store.delay_ms.store(2, Ordering::SeqCst);
            let limiter = RateLimiter::new(Arc::clone(&store), self.limits.iter().copied());
            let limiter = limiter.unwrap();
            stores.push(store);
            let each = self.callers / self.processes;
            for caller in 0..each {
                let limiter = limiter.clone();
                let gives_up = caller * 100 < self.share * each;
                let patience = if gives_up { self.patience } else { MINUTE };
                let pause = self.pause;
                let spread = if pause.is_zero() { 20 } else { 1 };
                callers.spawn(async move {
                    let mut admitted = Vec::new();
                    // They do not come all at once.
                    sleep(TICK * u32::try_from(caller * 37 % 1_000).unwrap() / spread).await;
                    while Instant::now() < until {
                        let call = limiter.check("alice").wait_up_to(MINUTE);
                        match timeout(patience, call.into_future()).await {
                            Ok(call) => {
                                call.unwrap();
                                admitted.push(started.elapsed());
                            }
                            Err(_) => sleep(pause).await,
                        }
                    }
                    (process, admitted)
                });
            }
        }
        sleep(until - started).await;
        let store_calls = stores.iter().map(|store| store.calls()).sum();
        let mut got = Got {
            seconds: vec![0; seconds],
            processes: vec![0; self.processes],
            store_calls,
        };
        for (process, admitted) in callers.join_all().await {
            for at in admitted {
                let second = usize::try_from(at.as_secs()).unwrap();
                if let Some(second) = got.seconds.get_mut(second) {
                    *second += 1;
                    got.processes[process] += 1;
                }
            }
        }
        got
    }
}

const HUNDRED_A_SECOND: [&[&str]; 3] = [
    &["l=gcra:100/1s,burst=10"],
    &["a=gcra:100/1s,burst=1", "b=gcra:7000/1m"],
    &["l=sliding-log:100/1s"],
];

/// How many of a hundred callers give up, and after how long.
const GIVING_UP: [(usize, Duration); 4] = [
    (0, MINUTE),
    (50, Duration::from_millis(30)),
    (100, Duration::from_millis(30)),
    (100, Duration::from_millis(500)),
];

#[tokio::test(start_paused = true)]
async fn whatever_share_of_callers_gives_up_the_limit_is_used() {
    let limits = HUNDRED_A_SECOND.iter();
    let crowds = limits.flat_map(|limits| [1, 8].map(|processes| (limits, processes)));
    let crowds = crowds.flat_map(|(limits, processes)| {
        GIVING_UP.map(|(share, patience)| Crowd {
            limits,
            processes,
            callers: 96,
            share,
            patience,
            pause: Duration::ZERO,
        })
    });
    let crowds: Vec<Crowd> = crowds.collect();
    let all = u32::try_from(crowds.len()).unwrap();
    for round in 0..rounds(all) {
        // Seven does not divide their number, so that the first ones are of all kinds.
        let crowd = &crowds[usize::try_from(round * 7 % all).unwrap()];
        let got = crowd.gets(5).await;
        let shown = format!("{crowd:?}: {:?}", got.seconds);
        for second in &got.seconds {
            assert!(*second >= 90 && *second <= 120, "{shown}");
        }
        if crowd.limits[0].contains("gcra") {
            assert!(got.fairness() >= 990, "{shown}: {:?}", got.processes);
            assert!(got.calls_each() <= 130, "{shown}: {}", got.calls_each());
        }
    }
}

/// A caller that drops its call and asks again at once, as a timeout in a loop does.
#[tokio::test(start_paused = true)]
async fn a_caller_that_asks_again_gets_what_it_had_asked_for() {
    let limits: [&[&str]; 2] = [&["l=gcra:20/1s,burst=1"], &["l=sliding-log:1/50ms"]];
    for limits in limits {
        for processes in [1, 4] {
            for patience in [TICK, 7 * TICK, 20 * TICK] {
                let crowd = Crowd {
                    limits,
                    processes,
                    callers: processes,
                    share: 100,
                    patience,
                    pause: Duration::ZERO,
                };
                let got = crowd.gets(4).await;
                for second in &got.seconds {
                    assert!(
                        *second >= 18,
                        "{limits:?}, {processes} after {patience:?}: {:?}",
                        got.seconds
                    );
                }
            }
        }
    }
}

/// Lines that are often empty, so that starts are lost: the lines then reserve less far ahead.
///
/// The callers of a process gather: whoever is admitted calls again at once, so callers that came at
/// different times go together. So lines are empty for a tenth of the time at first, and for a third
/// of it after half a minute.
#[tokio::test(start_paused = true)]
async fn lines_that_are_often_empty_lose_few_starts() {
    for processes in [1, 8] {
        // About twelve calls wait at any time, in all processes together.
        let crowd = Crowd {
            limits: &["l=gcra:100/1s,burst=1"],
            processes,
            callers: 400,
            share: 100,
            patience: 30 * TICK,
            pause: SECOND,
        };
        let got = crowd.gets(65).await;
        for seconds in got.seconds[5..].chunks(20) {
            let late: usize = seconds.iter().sum();
            assert!(late >= 20 * 85, "{processes}: {:?}", got.seconds);
        }
    }
}

/// All callers of all processes but one go, and never come back.
#[tokio::test(start_paused = true)]
async fn at_most_what_is_reserved_ahead_is_lost_with_the_callers_of_a_process() {
    let shared = Remote::new();
    let limits = ["l=gcra:100/1s,burst=1"];
    let mut going = Vec::new();
    for _ in 0..7 {
        let limiter = RateLimiter::new(Remote::to(Arc::clone(&shared.store)), limits).unwrap();
        let mut callers = JoinSet::new();
        for _ in 0..10 {
            let limiter = limiter.clone();
            callers.spawn(async move {
                loop {
                    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
                }
            });
        }
        going.push(callers);
    }
    let limiter = RateLimiter::new(Remote::to(Arc::clone(&shared.store)), limits).unwrap();
    let staying = async {
        sleep(2 * SECOND).await;
        drop(going);
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..10 {
            let limiter = limiter.clone();
            callers.spawn(async move {
                let mut admitted = 0;
                while started.elapsed() < SECOND {
                    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
                    admitted += 1;
                }
                admitted
            });
        }
        callers.join_all().await.into_iter().sum::<usize>()
    };
    // Seven lines have a start or two each.
    let admitted = staying.await;
    assert!(admitted >= 80, "{admitted}");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_nobody_uses_is_given_back_when_it_is_due() {
    let store = Remote::new();
    let limiter = RateLimiter::new(Arc::clone(&store), ["l=gcra:2/1s,burst=1"]).unwrap();
    limiter.check("alice").wait_up_to(SECOND).await.unwrap();
    let call = limiter.check("alice").wait_up_to(SECOND).into_future();
    assert!(timeout(10 * TICK, call).await.is_err());
    // It is kept for whoever comes next.
    sleep(SECOND / 4).await;
    assert_eq!(store.calls(), 2);
    sleep(SECOND / 4).await;
    assert_eq!(limiter.peek("alice").await.unwrap().remaining(), 1);
    let tasks = tokio::runtime::Handle::current().metrics();
    sleep(20 * SECOND).await;
    assert_eq!(tasks.num_alive_tasks(), 0);
}

/// Also if giving back takes time: nobody is refused meanwhile.
#[tokio::test(start_paused = true)]
async fn a_caller_does_not_overtake_what_its_line_is_giving_back() {
    for limit in ["gcra:1/1h,burst=1", "sliding-log:1/1h"] {
        let store = Remote::new();
        let limiter = RateLimiter::new(Arc::clone(&store), [&*format!("l={limit}")]).unwrap();
        store.delay_ms.store(100, Ordering::SeqCst);
        let call = limiter.check("alice").wait_up_to(SECOND).into_future();
        assert!(timeout(10 * TICK, call).await.is_err());
        // At 100 ms the call is admitted, and nobody is there; it is given back at 150 ms.
        sleep(100 * TICK).await;
        let started = Instant::now();
        limiter
            .check("alice")
            .wait_up_to(Duration::ZERO)
            .await
            .unwrap();
        let elapsed = started.elapsed();
        assert!(elapsed < 200 * TICK, "{limit}: {elapsed:?}");
    }
}

/// Many calls were given up on their way, and what they got is given back together.
#[tokio::test(start_paused = true)]
async fn what_many_callers_left_holds_up_others_for_one_round_trip() {
    for limit in ["gcra:300/1s,burst=300", "sliding-log:1000/1h"] {
        let store = Remote::new();
        store.delay_ms.store(100, Ordering::SeqCst);
        let limiter = RateLimiter::new(Arc::clone(&store), [format!("l={limit}")]).unwrap();
        let _ = limiter.check("alice").await.unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..64 {
            let limiter = limiter.clone();
            calls.spawn(async move { limiter.check("alice").wait_up_to(MINUTE).await.map(drop) });
        }
        // The first one is answered, and the others are on their way.
        sleep(150 * TICK).await;
        calls.abort_all();
        while calls.join_next().await.is_some() {}
        sleep(60 * TICK).await;
        let started = Instant::now();
        let call = || async {
            limiter
                .check("alice")
                .cost(2)
                .wait_up_to(500 * TICK)
                .await
                .map(drop)
        };
        let (first, second, third) = tokio::join!(call(), call(), call());
        for outcome in [first, second, third] {
            assert!(outcome.is_ok(), "{limit}: {outcome:?}");
        }
        let elapsed = started.elapsed();
        assert!(elapsed <= 300 * TICK, "{limit}: {elapsed:?}");
    }
}

#[test]
fn a_line_works_on_after_the_runtime_of_its_calls_has_ended() {
    // While a start is kept, and while it is given back.
    for passes in [10 * TICK, 1_005 * TICK] {
        let ending = paused();
        let (store, limiter) = ending.block_on(async {
            let store = Remote::new();
            let limiter = RateLimiter::new(Arc::clone(&store), ["l=gcra:1/1s"]).unwrap();
            limiter.check("alice").wait_up_to(SECOND).await.unwrap();
            let call = limiter.check("alice").wait_up_to(SECOND).into_future();
            assert!(timeout(TICK, call).await.is_err());
            store.delay_ms.store(100, Ordering::SeqCst);
            sleep(passes).await;
            (store, limiter)
        });
        drop(ending);
        store.delay_ms.store(0, Ordering::SeqCst);
        paused().block_on(async {
            let started = Instant::now();
            limiter.check("alice").wait_up_to(5 * SECOND).await.unwrap();
            assert!(started.elapsed() <= 2 * SECOND, "{:?}", started.elapsed());
        });
    }
}

#[test]
fn a_runtime_may_end_while_its_calls_wait_for_their_starts() {
    for workers in [0, 2] {
        let mut builder = match workers {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.enable_time().build().unwrap();
        let limits = ["l=gcra:100/1s,burst=1"];
        let limiter = RateLimiter::new(Arc::new(MemoryStore::new()), limits).unwrap();
        runtime.block_on(async {
            for _ in 0..100 {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    loop {
                        limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
                    }
                });
            }
            sleep(100 * TICK).await;
        });
        drop(runtime);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().build().unwrap();
        runtime.block_on(async {
            let call = limiter.check("alice").wait_up_to(MINUTE).into_future();
            timeout(10 * SECOND, call).await.unwrap().unwrap();
        });
    }
}

/// As `select!` does in a loop: a call that is not polled when its start is due.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_keeps_its_start_and_nobody_else_gets_it_late() {
    let store = Remote::new();
    let limiter = RateLimiter::new(Arc::clone(&store), ["l=gcra:10/1s,burst=1"]).unwrap();
    let started = Instant::now();
    limiter.check("alice").wait_up_to(SECOND).await.unwrap();
    let mut idle = Box::pin(limiter.check("alice").wait_up_to(MINUTE).into_future());
    assert!(timeout(10 * TICK, &mut idle).await.is_err());
    // It holds up nobody.
    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
    assert!(started.elapsed() <= 201 * TICK, "{:?}", started.elapsed());
    assert_eq!(store.calls(), 3);
    // It was due after 100 ms; whoever comes now asks for a start of its own.
    sleep(SECOND / 2).await;
    drop(idle);
    limiter.check("alice").wait_up_to(MINUTE).await.unwrap();
    assert_eq!(store.calls(), 4);
}
