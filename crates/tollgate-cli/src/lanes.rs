//! `Run`: many calls to a server at once, those of each key in order, under keys that are deleted at
//! the end.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::{select, time};
use tollgate_core::{ErrorKind, StoreError};
use tollgate_wire::Options;

use crate::failure::{Failure, WithCauses};
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signal;
use crate::store::{LocationOptions, PATIENCE, Remote, Server, wait_for};
use crate::trace::KeyId;

/// The number of concurrent calls. Each key belongs to one lane, whose calls run one after another.
const LANES: usize = 64;
/// How many calls are begun before all of their answers are passed on.
const AHEAD: usize = 1_024;
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

    fn key_of(item: &Self::Item) -> KeyId;

    fn call(
        &self,
        item: &Self::Item,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;

    fn keys(&self) -> impl Iterator<Item = KeyId> + Clone + Send;

    /// Deletes what the server holds for `key`.
    fn forget(&self, key: KeyId) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The keys of one run on a server.
pub(crate) struct Run {
    server: Server,
    options: Options,
}

impl Run {
    /// Returns a run of `command`, under a unique prefix; `None` if it is to run in memory.
    pub(crate) fn at(location: &LocationOptions, command: &str) -> Result<Option<Self>, Failure> {
        let LocationOptions {
            store,
            prefix,
            tls_ca,
        } = location;
        let Some(server) = Server::unless_memory(store, tls_ca.as_deref())? else {
            return Ok(None);
        };
        if server.is_database() {
            let why = "this command needs keys of its own, which a database has not: give a server or memory";
            return Err(Failure::wrong("--store", server.shown(), why));
        }
        // The standard library's source of randomness: its seed comes from the system.
        let random = RandomState::new().build_hasher().finish();
        let own = format!("{prefix}-{command}-{random:016x}");
        let options = Options::new()
            .with_prefix(prefix)
            .and_then(|options| options.with_prefix(&own))
            .map_err(|error| Failure::wrong("--prefix", prefix, error))?;
        Ok(Some(Self {
            server,
            options: options.with_deadline(PATIENCE).with_caller_slack(SLACK),
        }))
    }

    /// Does the work that `begin` returns, and calls `see` with each answer in the order of the
    /// items. Deletes the run's keys at the end, also after a failure, Ctrl-C or SIGTERM.
    pub(crate) fn finish<W: Work>(
        &self,
        begin: impl FnOnce(Box<dyn Remote>) -> Result<W, Failure>,
        output: &Output,
        progress: &Progress,
        doing: &'static str,
        mut see: impl FnMut(&W::Item, W::Answer),
    ) -> Result<(), Failure> {
        wait_for(async {
            let store = self.server.connect(self.options.clone()).await?;
            let work = begin(store)?;
            progress.say(doing);
            let done = call_all(&work, |item, answer| {
                progress.advance(1);
                see(item, answer);
            })
            .await;
            progress.say("cleaning");
            let left = select! {
                biased;
                forgotten = forget_all(work.keys(), |key| work.forget(key)) => {
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

/// Calls in all lanes at once, some items at a time, and passes the answers on in the order of the
/// items. No call is abandoned, because the server could count it after its key was deleted.
async fn call_all<W: Work>(
    work: &W,
    mut see: impl FnMut(&W::Item, W::Answer),
) -> Result<(), Failure> {
    let mut signal = pin!(Signal::received());
    for items in work.items().chunks(AHEAD) {
        if let Some(signal) = signal.as_mut().now_or_never() {
            return Err(Failure::Interrupted(signal));
        }
        let lane_of = |item: &W::Item| W::key_of(item).index() % LANES;
        let lanes = (0..LANES).map(|lane| async move {
            let mut answers = Vec::new();
            for (index, item) in (0_usize..).zip(items) {
                if lane_of(item) == lane {
                    answers.push((index, work.call(item).await?));
                }
            }
            Ok::<_, StoreError>(answers)
        });
        let answers: Result<Vec<_>, _> = join_all(lanes).await.into_iter().collect();
        let mut answers: Vec<_> = answers?.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|&(index, _)| index);
        for (index, answer) in answers {
            see(&items[index], answer);
        }
    }
    Ok(())
}

async fn forget_all<F>(
    keys: impl Iterator<Item = KeyId> + Clone + Send,
    forget: impl Fn(KeyId) -> F + Sync,
) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>> + Send,
{
    let forget = &forget;
    let lanes = (0..LANES).map(|lane| {
        let keys = keys.clone().skip(lane).step_by(LANES);
        async move {
            for key in keys {
                retry(|| forget(key)).await?;
            }
            Ok(())
        }
    });
    join_all(lanes).await.into_iter().collect()
}

/// Deletes a key, with retries while the connection is lost.
async fn retry<F>(forget: impl Fn() -> F + Send) -> Result<(), StoreError>
where
    F: Future<Output = Result<(), StoreError>> + Send,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match forget().await {
            Err(error) if may_pass(&error) && pause <= LONGEST_PAUSE => time::sleep(pause).await,
            outcome => return outcome,
        }
        pause *= 2;
    }
}

fn may_pass(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown)
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tollgate_core::Timestamp;

    use super::*;
    use crate::trace::Trace;

    #[test]
    fn a_key_is_deleted_again_while_the_connection_is_lost() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        for (kind, failures, tries) in [
            (ErrorKind::Unknown, 2, Ok(3)),
            (ErrorKind::Unavailable, 2, Ok(3)),
            (ErrorKind::Unavailable, u32::MAX, Err(6)),
            (ErrorKind::Misconfigured, 2, Err(1)),
        ] {
            let mut keys = Trace::default();
            keys.push(Timestamp::UNIX_EPOCH, b"alice").unwrap();
            let counted = AtomicU32::new(0);
            let forget = |_| {
                let error = StoreError::new(kind, "on schedule");
                ready(match counted.fetch_add(1, Ordering::Relaxed) < failures {
                    true => Err(error),
                    false => Ok(()),
                })
            };
            let done = runtime.block_on(forget_all(keys.keys().ids(), forget));
            let (done, counted) = (done.map_err(|_| ()), counted.into_inner());
            let found = done.map(|()| counted).map_err(|()| counted);
            assert_eq!(found, tries, "{kind:?}");
        }
    }
}
