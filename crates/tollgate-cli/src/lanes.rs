//! Decides a log on a server: the requests of many keys at once, and those of each key in order.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::{select, signal, time};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::wire::Options;
use tollgate_core::{Decision, ErrorKind, RateLimiter, Store, StoreError, Verdicts};

use crate::failure::{Failure, Told};
use crate::output::Output;
use crate::progress::Progress;
use crate::replay::limiter;
use crate::store::{PATIENCE, Server, wait_for};
use crate::trace::{Event, KeyId, Trace};

/// How many calls are on their way at once. Each key has its lane, in which they take turns.
const LANES: usize = 64;
/// How many decisions of a lane may wait for those of the others.
const AHEAD: usize = 256;
/// How much longer than the log's own time a replay may take.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to wait before a key is deleted again that could not be; each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// The keys of one replay on a server.
pub(crate) struct Run {
    server: Server,
    options: Options,
}

impl Run {
    /// Returns a replay on `server`, under keys of its own that begin with `prefix`.
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

    /// Decides every request of `trace` at its own time, shows each decision to `see` in the order
    /// of the trace, and deletes what was written, also after a failure or Ctrl-C.
    pub(crate) fn decide(
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
                        // What this means for a call does not matter to a deletion.
                        ErrorKind::Unknown => "the server does not answer".to_owned(),
                        _ => Told(&error).to_string(),
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

/// Returns a number that no other replay has.
fn random() -> u64 {
    // Seeded by the system: that is what the standard library has of chance.
    RandomState::new().build_hasher().finish()
}

/// Decides in all lanes at once, and shows the decisions in the order of the trace.
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
            // Not reached by `None`: a lane that ends early has said why.
            let decision = decisions[event.key.index() % LANES].recv().await;
            see(event, &decision.ok_or(Failure::Interrupted)??);
        }
        Ok(())
    };
    // What ends early lets go of the channels, and then each lane ends with the call that is on
    // its way: none is given up that might be counted after its key was deleted.
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

/// Deletes what was counted of every key.
async fn forget_all(limiter: &RateLimiter<impl Store>, trace: &Trace) -> Result<(), StoreError> {
    let lanes = (0..LANES).map(|lane| async move {
        for key in trace.key_ids().skip(lane).step_by(LANES) {
            forget(limiter, key).await?;
        }
        Ok(())
    });
    join_all(lanes).await.into_iter().collect()
}

/// Deletes what was counted of `key`, in several attempts if need be: a connection may be lost and
/// made again.
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
