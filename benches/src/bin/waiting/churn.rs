//! Callers that give up and come again: what they leave to others, and what that costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::RateLimiter;
use tollgate_memory::MemoryStore;
use tollgate_tokio::WaitUpTo;

use crate::counting::Counting;
use crate::several::jain;
use crate::{Problem, one, per};

/// Limits of 100 a second.
const LIMITS: [&[&str]; 4] = [
    &["l=gcra:100/1s,burst=10"],
    &["a=gcra:100/1s,burst=10", "b=gcra:7000/1m"],
    &["l=sliding-log:100/1s"],
    &["l=sliding-buckets:100/1s,buckets=20"],
];
const CALLERS: usize = 304;
/// How long a caller that gives up waits.
const PATIENCE: [Duration; 2] = [Duration::from_millis(30), Duration::from_secs(1)];
const LONGEST: Duration = Duration::from_secs(600);

/// How many calls wait in a long line, and after how long each gives up and comes again.
const LINE: usize = 10_000;
const STAY: Duration = Duration::from_secs(10);

pub(crate) fn heading(span: Duration) -> String {
    format!(
        "{CALLERS} callers of a limit of 100 a second; those that give up come again at once; \
         {span:?}, store in memory:\n\n\
         | limits | lines | give up | least and most admitted in a second | Jain's index | store calls per call |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |"
    )
}

/// Lets callers give up in all these ways, and returns the rows of the table.
pub(crate) async fn give_up(span: Duration) -> Result<Vec<String>, Problem> {
    let mut rows = Vec::new();
    for limits in LIMITS {
        for lines in [1, 8] {
            for (share, patience) in [
                (0, LONGEST),
                (50, PATIENCE[0]),
                (100, PATIENCE[0]),
                (100, PATIENCE[1]),
            ] {
                rows.push(row(limits, lines, (share, patience), span).await?);
            }
        }
    }
    Ok(rows)
}

async fn row(
    limits: &[&str],
    lines: usize,
    (share, patience): (usize, Duration),
    span: Duration,
) -> Result<String, Problem> {
    let store = Arc::new(Counting::new(MemoryStore::new()));
    let seconds: Arc<Vec<AtomicU64>> =
        Arc::new((0..=span.as_secs()).map(|_| AtomicU64::new(0)).collect());
    let started = Instant::now();
    let mut callers = JoinSet::new();
    let shares: Vec<Arc<AtomicU64>> = (0..lines).map(|_| Arc::default()).collect();
    for admitted in &shares {
        // Limiters that are not clones of each other have lines of their own, as in processes.
        let limiter = RateLimiter::new(Arc::clone(&store), limits.iter().copied())?;
        for caller in 0..CALLERS / lines {
            let (limiter, seconds) = (limiter.clone(), Arc::clone(&seconds));
            let admitted = Arc::clone(admitted);
            let gives_up = caller * 100 < share * (CALLERS / lines);
            let patience = if gives_up { patience } else { LONGEST };
            callers.spawn(async move {
                loop {
                    let call = limiter.check("alice").wait_up_to(LONGEST).into_future();
                    if let Ok(call) = timeout(patience, call).await {
                        call?;
                        let second = usize::try_from(started.elapsed().as_secs())?;
                        if let Some(second) = seconds.get(second) {
                            second.fetch_add(1, Ordering::Relaxed);
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                #[allow(unreachable_code, reason = "it says what the task's errors are")]
                Ok::<(), Problem>(())
            });
        }
    }
    sleep(span).await;
    callers.abort_all();
    let load = |counts: &[AtomicU64]| -> Vec<u64> {
        counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .collect()
    };
    let seconds = load(&seconds[..seconds.len() - 1]);
    let shares: Vec<u64> = shares
        .iter()
        .map(|share| share.load(Ordering::Relaxed))
        .collect();
    let gives_up = match share {
        0 => "none".to_owned(),
        share => format!("{share} % after {patience:?}"),
    };
    Ok(format!(
        "| `{}` | {lines} | {gives_up} | {} and {} | {:.3} | {:.2} |",
        limits.join("`, `"),
        seconds.iter().min().unwrap_or(&0),
        seconds.iter().max().unwrap_or(&0),
        jain(&shares),
        per(store.calls(), shares.iter().sum()),
    ))
}

pub(crate) fn long_heading() -> String {
    format!(
        "Calls for other keys, while {LINE} calls wait for one key, a tenth of which give up and come \
         again each second:\n\n\
         | limits | line | gave up | of a call for another key: median | 99 % | processor time per call that came and gave up |\n\
         | --- | --- | ---: | ---: | ---: | ---: |"
    )
}

/// Measures calls for other keys without the line, with it, and with a line whose callers give up.
pub(crate) async fn beside_a_long_line(span: Duration) -> Result<Vec<String>, Problem> {
    let mut rows = Vec::new();
    for limit in ["l=gcra:10/1s,burst=10", "l=sliding-log:10/1s"] {
        for (name, calls, stay) in [
            ("none", 0, LONGEST),
            ("nobody gives up", LINE, LONGEST),
            ("a tenth gives up each second", LINE, STAY),
        ] {
            rows.push(beside(limit, (name, calls, stay), span).await?);
        }
    }
    Ok(rows)
}

async fn beside(
    limit: &str,
    (name, calls, stay): (&str, usize, Duration),
    span: Duration,
) -> Result<String, Problem> {
    let limiter = RateLimiter::new(Arc::new(MemoryStore::new()), [limit])?;
    let gone = Arc::new(AtomicU64::new(0));
    let mut line = JoinSet::new();
    for number in 0..calls {
        let (limiter, gone) = (limiter.clone(), Arc::clone(&gone));
        line.spawn(async move {
            // They do not all give up at once.
            let mut left = stay.mul_f64(per(u64::try_from(number)? + 1, u64::try_from(LINE)?));
            loop {
                let call = limiter.check("alice").wait_up_to(2 * LONGEST).into_future();
                match timeout(left, call).await {
                    Ok(call) => drop(call?),
                    Err(_) => drop(gone.fetch_add(1, Ordering::Relaxed)),
                }
                left = stay;
            }
            #[allow(unreachable_code, reason = "it says what the task's errors are")]
            Ok::<(), Problem>(())
        });
    }
    sleep(Duration::from_secs(1)).await;
    gone.store(0, Ordering::Relaxed);
    let (started, busy) = (Instant::now(), one::processor_time());
    let mut took = Vec::new();
    while started.elapsed() < span {
        let key = format!("user-{}", took.len());
        let asked = Instant::now();
        let _ = limiter.check(&key).wait_up_to(LONGEST).await?;
        took.push(asked.elapsed());
        sleep(Duration::from_millis(1)).await;
    }
    let busy = one::processor_time() - busy;
    line.abort_all();
    let gone = gone.load(Ordering::Relaxed);
    let each = match u32::try_from(gone)? {
        0 => String::new(),
        gone => format!("{:.1?}", busy / gone),
    };
    Ok(format!(
        "| `{limit}` | {name} | {gone} | {} | {each} |",
        one::lateness(took)
    ))
}
