//! Many calls for one key that wait in one process.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tollgate_benches::median;
use tollgate_core::RateLimiter;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_tokio::WaitUpTo;

use crate::counting::Counting;
use crate::{Problem, per};

/// Long enough for all calls.
const LONGEST: Duration = Duration::from_secs(600);

/// How often waiting and sleeping are measured in turn.
const ROUNDS: usize = 11;

pub(crate) fn heading(calls: usize) -> String {
    format!(
        "{calls} calls wait for one key in one process, store in memory:\n\n\
         | limits | store calls per call | out of order | late: median | late: 99 % | processor time per call |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |"
    )
}

/// What calls that waited took.
struct Waited {
    begun: SystemTime,
    /// The number of each call and when it was admitted, in this order.
    admitted: Vec<(usize, Duration)>,
    /// How often the store was called.
    asked: u64,
    busy: Duration,
}

/// Lets `calls` calls wait at once.
async fn wait(limits: &[&str], calls: usize) -> Result<Waited, Problem> {
    let store = Arc::new(Counting::new(MemoryStore::new()));
    let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().copied())?;
    let busy = processor_time();
    let (begun, started) = (SystemTime::now(), Instant::now());
    let mut waiting = JoinSet::new();
    for number in 0..calls {
        let limiter = limiter.clone();
        waiting.spawn(async move {
            let admitted = limiter.check("alice").wait_up_to(LONGEST).await;
            admitted.map(|_| (number, started.elapsed()))
        });
    }
    let mut admitted = Vec::with_capacity(calls);
    while let Some(call) = waiting.join_next().await {
        admitted.push(call??);
    }
    Ok(Waited {
        begun,
        admitted,
        asked: store.calls(),
        busy: processor_time() - busy,
    })
}

/// Lets `calls` calls wait at once, and returns the row of the table.
pub(crate) async fn measure(limits: &[&str], calls: usize) -> Result<String, Problem> {
    let waited = wait(limits, calls).await?;
    let admitted = &waited.admitted;
    let disordered = admitted
        .windows(2)
        .filter(|pair| pair[0].0 > pair[1].0)
        .count();
    let due = soonest(limits, waited.begun, |count, _| count < calls)?;
    let late = admitted.iter().zip(due);
    let late = late.map(|((_, at), due)| at.saturating_sub(due)).collect();
    let ratio = per(waited.asked, u64::try_from(calls)?);
    Ok(format!(
        "| `{}` | {ratio:.3} | {disordered} | {} | {:.1?} |",
        limits.join("`, `"),
        lateness(late),
        waited.busy / u32::try_from(calls)?,
    ))
}

/// Lets `calls` tasks sleep, each this much longer than the one before, and returns the row of the
/// table: what the runtime takes without any limit.
pub(crate) async fn only_sleep(calls: usize) -> Result<String, Problem> {
    let (late, busy) = sleep(calls, Duration::from_millis(5)).await?;
    Ok(format!(
        "| none: only sleeps, 5 ms each | | | {} | {:.1?} |",
        lateness(late),
        busy / u32::try_from(calls)?
    ))
}

/// Lets `calls` tasks sleep, each `apart` longer than the one before, and returns how late each was
/// and the processor time of all.
async fn sleep(calls: usize, apart: Duration) -> Result<(Vec<Duration>, Duration), Problem> {
    let busy = processor_time();
    let started = tokio::time::Instant::now();
    let mut sleeping = JoinSet::new();
    for number in 1..=u32::try_from(calls)? {
        sleeping.spawn(async move {
            let due = started + apart * number;
            tokio::time::sleep_until(due).await;
            due.elapsed()
        });
    }
    let late = sleeping.join_all().await;
    Ok((late, processor_time() - busy))
}

/// Returns two columns of the table: the median and the 99th percentile.
pub(crate) fn lateness(mut late: Vec<Duration>) -> String {
    late.sort_unstable();
    let [median, most] = [50, 99].map(|percent| late[late.len() * percent / 100]);
    format!("{median:.1?} | {most:.1?}")
}

pub(crate) fn busy_heading(calls: usize) -> String {
    format!(
        "{calls} calls, one every 10 µs, so that the system's own sleeps are few; medians of {ROUNDS} rounds:\n\n\
         | limits | processor time per call | of a task that only sleeps | difference |\n\
         | --- | ---: | ---: | ---: |"
    )
}

/// Measures what waiting takes beside sleeping, in turn, and returns the row of the table.
///
/// The limits must admit a call every 10 µs.
pub(crate) async fn beside_sleeping(limits: &[&str], calls: usize) -> Result<String, Problem> {
    let each = u32::try_from(calls)?;
    let (mut waiting, mut sleeping) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let micros = |busy: Duration| busy.as_secs_f64() * 1e6 / f64::from(each);
        waiting.push(micros(wait(limits, calls).await?.busy));
        sleeping.push(micros(sleep(calls, Duration::from_micros(10)).await?.1));
    }
    let [waiting, sleeping] = [waiting, sleeping].map(|all| median(all).unwrap_or(f64::NAN));
    Ok(format!(
        "| `{}` | {waiting:.2} µs | {sleeping:.2} µs | {:.2} µs |",
        limits.join("`, `"),
        waiting - sleeping
    ))
}

/// Returns when calls would be admitted if each came as soon as it is allowed for as long as `goes_on`
/// returns true for their number and the time.
pub(crate) fn soonest(
    limits: &[&str],
    start: SystemTime,
    goes_on: impl Fn(usize, Duration) -> bool,
) -> Result<Vec<Duration>, Problem> {
    let clock = ManualClock::at(start.try_into()?);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = RateLimiter::new(store, limits.iter().copied())?;
    let mut now = Duration::ZERO;
    let mut all = Vec::new();
    while goes_on(all.len(), now) {
        let decision = limiter.check("alice").run()?;
        if decision.is_allowed() {
            all.push(now);
        } else {
            let wait = decision.retry_after().duration().ok_or("it never ends")?;
            clock.advance(wait);
            now += wait;
        }
    }
    Ok(all)
}

/// Returns the processor time of this process.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}
