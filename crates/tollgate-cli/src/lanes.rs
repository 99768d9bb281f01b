//! Replays a log on a server: many keys at once, and the requests of each key in order.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::{select, signal, time};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::wire::Options;
use tollgate_core::{Decision, ErrorKind, RateLimiter, Store, StoreError, Verdicts};

use crate::failure::{Failure, WithCauses};
use crate::output::Output;
use crate::progress::Progress;
use crate::replay::limiter;
use crate::store::{PATIENCE, Server, wait_for};
use crate::trace::{Event, KeyId, Trace};

/// The number of concurrent calls. Each key belongs to one lane, whose calls run one after another.
const LANES: usize = 64;
/// How many decisions of a lane may wait for those of other lanes.
const AHEAD: usize = 256;
/// How much longer than the log's own duration a replay may take.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);
/// The pause before deletion of a key is retried; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// The keys of one replay on a server.
pub(crate) struct Run {
    server: Server,
    options: Options,
}

impl Run {
    /// Returns a replay on `server` under a unique prefix that starts with `prefix`.
    pub(crate) fn new(server: Server, prefix: &str) -> Result<Self, Failure> {
        let own = format!("{prefix}-replay-{:016x}", random());
        let options = Options::new()
            .with_prefix(prefix)
            .and_then(|options| options.with_prefix(&own))
            .map_err(|source| Failure::Prefix {
                prefix: prefix.to_owned(),
                source,
            })?;
        Ok(Self {
            server,
            options: options.with_deadline(PATIENCE).with_caller_slack(SLACK),
        })
    }

    /// Decides every request of `trace` at its own time, and calls `see` with each decision in the
    /// order of the trace. Deletes the replay's keys at the end, also after a failure or Ctrl-C.
    pub(crate) fn replay(
        &self,
        trace: &Trace,
        algorithms: &[Algorithm],
        (output, progress): (&Output, &Progress),
        mut see: impl FnMut(&Event, &Verdicts),
    ) -> Result<(), Failure> {
        wait_for(async {
            let store = self.server.connect(self.options.clone()).await?;
            let limiter = limiter(store, algorithms)?;
            progress.start_deciding(trace.events().len());
            let decided = decide_all(&limiter, trace, |event, decision| {
                progress.advance(1);
                see(event, decision);
            })
            .await;
            progress.say("cleaning");
            let left = select! {
                biased;
                forgotten = forget_all(&limiter, trace) => {
                    forgotten.err().map(|error| match error.kind() {
                        // An unknown outcome only means here that there was no reply.
                        ErrorKind::Unknown => "the server does not answer".to_owned(),
                        _ => WithCauses(&error).to_string(),
                    })
                }
                Ok(()) = signal::ctrl_c() => Some("interrupted again".to_owned()),
            };
            if let Some(reason) = left {
                progress.finish();
                output.complain(&format!(
                    "keys that begin with {}: are left on the server, until they expire by \
                     themselves: {reason}",
                    self.options.prefix(),
                ));
            }
            decided
        })
    }
}

/// Returns a random number, to make the prefix unique.
fn random() -> u64 {
    // The standard library's source of randomness: its seed comes from the system.
    RandomState::new().build_hasher().finish()
}

/// Decides in all lanes at once, and passes the decisions on in the order of the trace.
async fn decide_all(
    limiter: &RateLimiter<impl Store>,
    trace: &Trace,
    mut see: impl FnMut(&Event, &Verdicts),
) -> Result<(), Failure> {
    let (decided, mut decisions): (Vec<_>, Vec<_>) =
        (0..LANES).map(|_| mpsc::channel(AHEAD)).unzip();
    let lanes = (0..).zip(decided).map(|(lane, decided)| {
        let events = trace.events().iter();
        let events = events.filter(move |event| event.key.index() % LANES == lane);
        decide_lane(limiter, events, decided)
    });
    let merge = async move {
        for event in trace.events() {
            // `None` does not occur: a lane that ends early sends its error first.
            let decision = decisions[event.key.index() % LANES].recv().await;
            see(event, &decision.ok_or(Failure::Interrupted)??);
        }
        Ok(())
    };
    // If this ends early, it drops the channels, and each lane stops after its current call. No
    // call is abandoned, because the server could count it after its key was deleted.
    let merge = async {
        select! {
            biased;
            merged = merge => merged,
            Ok(()) = signal::ctrl_c() => Err(Failure::Interrupted),
        }
    };
    let (merged, _) = tokio::join!(merge, join_all(lanes));
    merged
}

async fn decide_lane(
    limiter: &RateLimiter<impl Store>,
    events: impl Iterator<Item = &Event>,
    decided: mpsc::Sender<Result<Verdicts, StoreError>>,
) {
    for event in events {
        let decision = limiter.check(&event.key.to_bytes()[..]).at(event.at).await;
        let decision = decision.map(Decision::into_verdicts);
        let failed = decision.is_err();
        if decided.send(decision).await.is_err() || failed {
            return;
        }
    }
}

/// Deletes the states of all keys.
async fn forget_all(limiter: &RateLimiter<impl Store>, trace: &Trace) -> Result<(), StoreError> {
    let lanes = (0..LANES).map(|lane| async move {
        for key in trace.key_ids().skip(lane).step_by(LANES) {
            forget(limiter, key).await?;
        }
        Ok(())
    });
    join_all(lanes).await.into_iter().collect()
}

/// Deletes the state of `key`, with retries while the connection is lost.
async fn forget(limiter: &RateLimiter<impl Store>, key: KeyId) -> Result<(), StoreError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match limiter.reset(&key.to_bytes()[..]).await {
            Err(error) if may_pass(&error) && pause <= LONGEST_PAUSE => time::sleep(pause).await,
            outcome => return outcome,
        }
        pause *= 2;
    }
}

fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}
