//! `Run`: many calls to a server at once, those of each key in order, under keys that are deleted at
//! the end.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::{select, time};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::Options;

use crate::failure::{Failure, WithCauses};
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signal;
use crate::store::{PATIENCE, Remote, Server, wait_for};
use crate::trace::KeyId;

/// The number of concurrent calls. Each key belongs to one lane, whose calls run one after another.
const LANES: usize = 64;
/// How many answers of a lane may wait for those of other lanes.
const AHEAD: usize = 256;
/// How much longer than the input's own duration a run may take.
const SLACK: Duration = Duration::from_secs(24 * 60 * 60);
/// The pause before deletion of a key is retried; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(800);

/// What a run does on a server.
pub(crate) trait Work: Sync {
    /// What one call is about.
    type Item: Sync;
    type Answer: Send;

    /// Returns the items, in the order in which their answers are passed on.
    fn items(&self) -> &[Self::Item];

    /// Returns the key of `item`.
    fn key_of(item: &Self::Item) -> KeyId;

    /// Sends one call.
    fn call(
        &self,
        item: &Self::Item,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;

    /// Returns all keys.
    fn keys(&self) -> impl Iterator<Item = KeyId> + Send;

    /// Deletes what the server holds for `key`.
    fn forget(&self, key: KeyId) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The keys of one run on a server.
pub(crate) struct Run {
    server: Server,
    options: Options,
}

impl Run {
    /// Returns a run of `command` on `server`, under a unique prefix that starts with `prefix`.
    pub(crate) fn new(server: Server, prefix: &str, command: &str) -> Result<Self, Failure> {
        let own = format!("{prefix}-{command}-{:016x}", random());
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

    /// Does the work that `begin` returns, and calls `see` with each answer in the order of the
    /// items. Deletes the run's keys at the end, also after a failure, Ctrl-C or SIGTERM.
    pub(crate) fn finish<W: Work>(
        &self,
        begin: impl FnOnce(Box<dyn Remote>) -> Result<W, Failure>,
        (output, progress): (&Output, &Progress),
        doing: &'static str,
        mut see: impl FnMut(&W::Item, W::Answer),
    ) -> Result<(), Failure> {
        wait_for(async {
            let store = self.server.connect(self.options.clone()).await?;
            let work = begin(store)?;
            progress.start_deciding(work.items().len(), doing);
            let done = call_all(&work, |item, answer| {
                progress.advance(1);
                see(item, answer);
            })
            .await;
            progress.say("cleaning");
            let left = select! {
                biased;
                forgotten = forget_all(&work) => {
                    forgotten.err().map(|error| match error.kind() {
                        // An unknown outcome only means here that there was no reply.
                        ErrorKind::Unknown => "the server does not answer".to_owned(),
                        _ => WithCauses(&error).to_string(),
                    })
                }
                _ = Signal::received() => Some("interrupted again".to_owned()),
            };
            if let Some(reason) = left {
                progress.finish();
                output.complain(&format!(
                    "keys that begin with {}: are left on the server, until they expire by \
                     themselves: {reason}",
                    self.options.prefix(),
                ));
            }
            done
        })
    }
}

/// Returns a random number, to make the prefix unique.
fn random() -> u64 {
    // The standard library's source of randomness: its seed comes from the system.
    RandomState::new().build_hasher().finish()
}

/// Calls in all lanes at once, and passes the answers on in the order of the items.
async fn call_all<W: Work>(
    work: &W,
    mut see: impl FnMut(&W::Item, W::Answer),
) -> Result<(), Failure> {
    let (answered, mut answers): (Vec<_>, Vec<_>) =
        (0..LANES).map(|_| mpsc::channel(AHEAD)).unzip();
    let lane_of = |item: &W::Item| W::key_of(item).index() % LANES;
    let lanes = (0..).zip(answered).map(|(lane, answered)| {
        let items = work.items().iter();
        let items = items.filter(move |item| lane_of(item) == lane);
        call_lane(work, items, answered)
    });
    let merge = async move {
        for item in work.items() {
            // `None` does not occur: a lane that ends early sends its error first.
            let answer = answers[lane_of(item)].recv().await;
            see(
                item,
                answer.ok_or(Failure::Interrupted(Signal::Interrupt))??,
            );
        }
        Ok(())
    };
    // If this ends early, it drops the channels, and each lane stops after its current call. No
    // call is abandoned, because the server could count it after its key was deleted.
    let merge = async {
        select! {
            biased;
            merged = merge => merged,
            signal = Signal::received() => Err(Failure::Interrupted(signal)),
        }
    };
    let (merged, _) = tokio::join!(merge, join_all(lanes));
    merged
}

async fn call_lane<'w, W: Work>(
    work: &W,
    items: impl Iterator<Item = &'w W::Item>,
    answered: mpsc::Sender<Result<W::Answer, StoreError>>,
) where
    W::Item: 'w,
{
    for item in items {
        let answer = work.call(item).await;
        let failed = answer.is_err();
        if answered.send(answer).await.is_err() || failed {
            return;
        }
    }
}

/// Deletes what the server holds for all keys.
async fn forget_all(work: &impl Work) -> Result<(), StoreError> {
    let lanes = (0..LANES).map(|lane| async move {
        for key in work.keys().skip(lane).step_by(LANES) {
            forget(work, key).await?;
        }
        Ok(())
    });
    join_all(lanes).await.into_iter().collect()
}

/// Deletes what the server holds for `key`, with retries while the connection is lost.
async fn forget(work: &impl Work, key: KeyId) -> Result<(), StoreError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match work.forget(key).await {
            Err(error) if may_pass(&error) && pause <= LONGEST_PAUSE => time::sleep(pause).await,
            outcome => return outcome,
        }
        pause *= 2;
    }
}

fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}
