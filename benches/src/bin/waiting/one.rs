//! Many calls for one key that wait in one process.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tollgate_core::RateLimiter;
use tollgate_memory::{ManualClock, MemoryStore};
use tollgate_tokio::Within;

use crate::counting::Counting;
use crate::{Problem, per};

/// Long enough for all calls.
const LONGEST: Duration = Duration::from_secs(600);

pub(crate) fn heading(calls: usize) -> String {
    format!(
        "{calls} calls wait for one key in one process, store in memory:\n\n\
         | limits | store calls per call | out of order | late: median | late: 99 % | processor time per call |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |"
    )
}

/// Lets `calls` calls wait at once, and returns the row of the table.
pub(crate) async fn measure(limits: &[&str], calls: usize) -> Result<String, Problem> {
    let store = Arc::new(Counting::new(MemoryStore::new()));
    let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().copied())?;
    let busy = processor_time();
    let (begun, started) = (SystemTime::now(), Instant::now());
    let mut waiting = JoinSet::new();
    for number in 0..calls {
        let limiter = limiter.clone();
        waiting.spawn(async move {
            let admitted = limiter.check("alice").within(LONGEST).await;
            admitted.map(|_| (number, started.elapsed()))
        });
    }
    let mut admitted = Vec::with_capacity(calls);
    while let Some(call) = waiting.join_next().await {
        admitted.push(call??);
    }
    let busy = processor_time() - busy;
    let disordered = admitted
        .windows(2)
        .filter(|pair| pair[0].0 > pair[1].0)
        .count();
    let due = soonest(limits, begun, |count, _| count < calls)?;
    let mut late: Vec<Duration> = admitted
        .iter()
        .zip(due)
        .map(|((_, at), due)| at.saturating_sub(due))
        .collect();
    late.sort_unstable();
    let count = u64::try_from(calls)?;
    let ratio = per(store.calls(), count);
    Ok(format!(
        "| `{}` | {ratio:.3} | {disordered} | {:.1?} | {:.1?} | {:.1?} |",
        limits.join("`, `"),
        late[calls / 2],
        late[calls * 99 / 100],
        busy / u32::try_from(calls)?,
    ))
}

/// Sleeps `calls` times, 5 ms each, and returns the row of the table: what the runtime takes without
/// any limit.
pub(crate) async fn only_sleep(calls: usize) -> Result<String, Problem> {
    let busy = processor_time();
    let started = tokio::time::Instant::now();
    let mut late = Vec::with_capacity(calls);
    for number in 1..=u32::try_from(calls)? {
        let due = started + Duration::from_millis(5) * number;
        tokio::time::sleep_until(due).await;
        late.push(due.elapsed());
    }
    let busy = processor_time() - busy;
    late.sort_unstable();
    Ok(format!(
        "| none: only sleeps, 5 ms each | | | {:.1?} | {:.1?} | {:.1?} |",
        late[calls / 2],
        late[calls * 99 / 100],
        busy / u32::try_from(calls)?,
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
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}
