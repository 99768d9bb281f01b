//! `WireStore`: a store on a server that speaks the Redis protocol.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::{Check, Checks, Fingerprint, Operation, Request, Verdicts};
use tollgate_core::{CallId, ErrorKind, Key, Store, StoreError, SyncStore, Timestamp};

use super::batch::{self, BatchedCall, Ended, InQueue, Member, Packed, Queues, Undecided};
use super::codec::{self, Question};
use super::engine::{Engine, ScriptCall};
use super::failure::Failure;
use super::fault::{self, Effect};
use super::keyspace::{Keys, Keyspace};
use super::options::{Batches, Options, TimeSource};
use super::runner::{Runner, place, until};
use super::script::Script;

/// Longer than any call takes, and short enough to be added to an instant.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// A [`Store`] on a server that speaks the Redis protocol, through any [`Engine`].
///
/// A decision takes one round trip. If the server does not have the script, the call takes two
/// more, to load it and to run it again; it is still counted once.
///
/// The inherent methods do what the methods of [`Store`] do, but do not box their futures: a store
/// that wraps this one calls them, and boxes once.
#[derive(Debug)]
pub struct WireStore<E> {
    runner: Arc<Runner<E>>,
    queues: Queues,
    keyspace: Keyspace,
}

impl<E: Engine> WireStore<E> {
    /// Returns a store that sends its commands through `engine`.
    pub fn new(engine: E, options: Options) -> Self {
        Self {
            keyspace: Keyspace::new(&options),
            queues: Queues::new(options.batches.gap()),
            runner: Arc::new(Runner::new(engine, options)),
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        self.runner.engine()
    }

    /// Returns the options: key prefix, clock and deadline.
    pub fn options(&self) -> &Options {
        self.runner.options()
    }

    /// Decides `request`, like [`Store::decide`].
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`].
    pub async fn execute(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        // In a box, because most calls have no id, and so their futures are small.
        let split = if request.has_id() {
            Some(Box::new(request.split_id()?))
        } else {
            None
        };
        let (id, request) = match split.as_deref() {
            Some((id, request)) => (id.as_ref(), request),
            None => (None, request),
        };
        request.validate(Fingerprint::of)?;
        if !self.supports(request) {
            return Err(unsupported(request));
        }
        let effect = match (request.operation(), id) {
            (Operation::Peek, _) => Effect::Nothing,
            (_, None) => Effect::Counts,
            (_, Some(_)) => Effect::CountsOnce,
        };
        let asked = Asked {
            question: Question {
                request,
                instant: self.instant(request.caller_time())?,
            },
            id,
            effect,
        };
        let mut alone = Alone {
            deadline: self.options().deadline,
            repeats: id.is_some_and(CallId::is_repeated),
        };
        let queue = self.enter(request);
        if let Some(queue) = queue.as_ref().filter(|queue| !queue.is_alone()) {
            let (packed, hash) = self.packed(&asked).unzip();
            // The batch gets it at once, so the first poll need not lock the batch again.
            let waker = batch::waker().await;
            let member = self.join(&asked, queue, packed, waker);
            let undecided = match batch::ended(&member, self.engine(), queue.runtime()).await {
                Ended::Answered => {
                    return member.decide(
                        &asked.question,
                        |reply| asked.decision(hash, reply),
                        |undecided| self.error(&asked, undecided),
                    );
                }
                Ended::Failed => member.failure(),
                Ended::Late(is_out) => Undecided::Late(is_out),
            };
            match again(&asked, queue, &member, &undecided) {
                Some(next) => alone = next,
                None => return Err(self.error(&asked, undecided)),
            }
        }
        // In a box, because clients have large futures, and calls that go together need none.
        Box::pin(self.alone(&asked, alone)).await
    }

    /// Returns the queue of a call, or `None` if every call is sent by itself.
    fn enter(&self, request: &Request<'_>) -> Option<InQueue> {
        let Options {
            batches, deadline, ..
        } = self.options();
        if *batches == Batches::Never || deadline.is_zero() {
            return None;
        }
        let runtime = self.engine().runtime()?;
        let key = request.checks().first()?.key();
        let partition = self.engine().is_clustered().then(|| key.partition());
        Some(InQueue::enter(&self.queues, runtime, partition.as_deref()))
    }

    /// Returns what is sent in a batch for a call that has an id, and the hash of the call.
    fn packed(&self, asked: &Asked<'_>) -> Option<(Box<Packed>, [u8; 8])> {
        asked.id?;
        let Question { request, instant } = asked.question;
        let slack = codec::slack_at(instant, self.options().caller_slack);
        let argument = codec::many_argument(request, instant, slack);
        let (keys, argument, hash) = self.sent(asked, argument);
        let packed = Packed {
            keys,
            argument,
            has_id: true,
        };
        Some((Box::new(packed), hash?))
    }

    /// Adds a call to those that are sent together. It is `packed` already if it has an id, and `waker`
    /// is woken when it has ended.
    fn join(
        &self,
        asked: &Asked<'_>,
        queue: &InQueue,
        packed: Option<Box<Packed>>,
        waker: Waker,
    ) -> Member {
        let (keyspace, options) = (&self.keyspace, self.options());
        let deadline = queue.now().checked_add(options.deadline);
        let deadline = deadline.unwrap_or_else(|| queue.now() + LONGEST);
        let call = BatchedCall::new(asked.question, keyspace, options, deadline, waker, packed);
        queue.add(&self.runner, call)
    }

    /// Returns the error of a call that went with others and was not decided.
    fn error(&self, asked: &Asked<'_>, undecided: Undecided) -> StoreError {
        match undecided {
            Undecided::NotUnderstood => codec::not_understood(),
            Undecided::Late(is_out) => {
                fault::too_late(self.options().deadline, asked.effect, is_out)
            }
            Undecided::Refused(line) => {
                let Question { request, instant } = asked.question;
                let keys = self.keyspace.of(request.checks(), instant.is_some());
                let failure = Failure::refused(line.clone(), line);
                fault::error(failure.redacted(&keys), asked.effect)
            }
            Undecided::Failed(failure) => fault::error(failure, asked.effect),
        }
    }

    /// Sends a call by itself.
    async fn alone(&self, asked: &Asked<'_>, alone: Alone) -> Result<Verdicts, StoreError> {
        let Asked {
            question: Question { request, instant },
            id,
            effect,
        } = *asked;
        let argument = codec::argument(request, instant, self.options().caller_slack);
        let (keys, argument, hash) = self.sent(asked, argument);
        let call = ScriptCall {
            script: Script::of(request, id.is_some()),
            keys: &keys,
            argument: &argument,
            ids: &[],
        };
        let reply = self.reply(&call, effect, alone).await?;
        asked.decision(hash, &reply)
    }

    /// Returns the keys and the argument of a call, and the hash of a call that has an id.
    fn sent(&self, asked: &Asked<'_>, mut argument: Vec<u8>) -> (Keys, Vec<u8>, Option<[u8; 8]>) {
        let Asked {
            question: Question { request, instant },
            id,
            ..
        } = *asked;
        let mut keys = self.keyspace.of(request.checks(), instant.is_some());
        let hash = id.map(|id| {
            let slack = codec::slack_at(instant, self.options().caller_slack);
            let hash = codec::push_id(&mut argument, request, &keys, (id, slack));
            let first = &request.checks()[0];
            keys.push(self.keyspace.answer(first, id.bytes(), instant.is_some()));
            hash
        });
        (keys, argument, hash)
    }

    /// Returns the reply of a script, which does `effect`, to a call that never is sent with others.
    pub(super) async fn once(
        &self,
        call: &ScriptCall<'_>,
        effect: Effect,
    ) -> Result<Vec<u8>, StoreError> {
        let once = Alone {
            deadline: self.options().deadline,
            repeats: false,
        };
        self.reply(call, effect, once).await
    }

    /// Returns the reply of a script, which does `effect`.
    async fn reply(
        &self,
        call: &ScriptCall<'_>,
        effect: Effect,
        Alone { deadline, repeats }: Alone,
    ) -> Result<Vec<u8>, StoreError> {
        let is_out = AtomicBool::new(false);
        let work = pin!(async {
            match self.runner.run(call, &is_out).await {
                Err(Failure::Lost(_)) if repeats => self.runner.run(call, &is_out).await,
                outcome => outcome,
            }
        });
        let is_out = || is_out.load(Ordering::Relaxed);
        until(deadline, self.engine(), effect, is_out, work).await
    }

    /// Deletes the states of `checks`, like [`Store::reset`].
    ///
    /// # Errors
    ///
    /// The same as [`Store::reset`].
    pub async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        let keys = |check: &Check<'_>| self.keyspace.both(check.limit().identity(), check.key());
        if !self.engine().is_clustered() || share_partition(checks) {
            let keys: Vec<_> = checks.iter().flat_map(keys).collect();
            return match keys.as_slice() {
                [] => Ok(()),
                keys => self.forget(keys).await,
            };
        }
        for check in checks {
            self.forget_states(check.limit().identity(), check.key())
                .await?;
        }
        Ok(())
    }

    /// Returns whether this store can decide `request`, like [`Store::supports`].
    pub fn supports(&self, request: &Request<'_>) -> bool {
        if request.has_id() {
            return request
                .split_id()
                .is_ok_and(|(_, request)| self.supports(&request));
        }
        let is_known = codec::operation_number(request.operation()).is_some();
        is_known
            && request.is_defined()
            && (!self.engine().is_clustered() || share_partition(request.checks()))
    }

    /// Returns the key of the state of `identity` for `key` that is decided at `instant`.
    pub(super) fn state_key(
        &self,
        identity: &str,
        key: Key<'_>,
        instant: Option<Timestamp>,
    ) -> Vec<u8> {
        self.keyspace.one(identity, key, instant.is_some())
    }

    /// Returns the instant to decide at, or `None` for the server's clock.
    pub(super) fn instant(
        &self,
        caller: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, StoreError> {
        match (caller, self.options().clock) {
            (Some(instant), _) => Ok(Some(instant)),
            (None, TimeSource::Server) => Ok(None),
            (None, TimeSource::Caller) => match Timestamp::try_from(self.engine().now()) {
                Ok(now) => Ok(Some(now)),
                Err(error) => Err(StoreError::new(
                    ErrorKind::Misconfigured,
                    "this machine's clock is out of range: set it",
                )
                .with_source(error)),
            },
        }
    }

    /// Deletes the states of `identity` for `key`.
    pub(super) async fn forget_states(
        &self,
        identity: &str,
        key: Key<'_>,
    ) -> Result<(), StoreError> {
        self.forget(&self.keyspace.both(identity, key)).await
    }

    /// Deletes `keys`, which are in one hash slot.
    async fn forget(&self, keys: &[Vec<u8>]) -> Result<(), StoreError> {
        let (engine, deadline) = (self.engine(), self.options().deadline);
        let is_out = AtomicBool::new(false);
        let work = pin!(async {
            let _place = place(engine, deadline).await?;
            is_out.store(true, Ordering::Relaxed);
            let forgotten = engine.forget(keys).await;
            forgotten.map_err(|failure| failure.redacted(keys))
        });
        let is_out = || is_out.load(Ordering::Relaxed);
        until(deadline, engine, Effect::Forgets, is_out, work).await
    }
}

/// How a call is sent by itself.
#[derive(Clone, Copy)]
struct Alone {
    deadline: Duration,
    /// Whether it is sent once more if it is lost.
    repeats: bool,
}

/// A call as it was asked for, without its id.
#[derive(Clone, Copy)]
struct Asked<'r> {
    question: Question<'r>,
    id: Option<&'r CallId<'r>>,
    effect: Effect,
}

impl Asked<'_> {
    /// Returns the verdicts that follow from the reply; a call that has an id has this `hash`.
    fn decision(&self, hash: Option<[u8; 8]>, reply: &[u8]) -> Result<Verdicts, StoreError> {
        match hash {
            None => codec::decision(&self.question, reply),
            // The answer may be one to an earlier call, at another instant.
            Some(hash) => {
                let question = Question {
                    request: self.question.request,
                    instant: None,
                };
                codec::decision(&question, codec::answer_to(hash, reply)?)
            }
        }
    }
}

/// Returns how to send a call by itself after its batch failed, if the server has run nothing or the
/// call may be sent once more, and if there is time.
fn again(
    asked: &Asked<'_>,
    queue: &InQueue,
    member: &Member,
    undecided: &Undecided,
) -> Option<Alone> {
    let repeats = asked.id.is_some_and(CallId::is_repeated);
    let repeats = match undecided {
        Undecided::Failed(failure) if fault::is_about_the_keys(failure) => repeats,
        Undecided::Failed(Failure::Lost(_)) if repeats => false,
        _ => return None,
    };
    let now = (queue.runtime().now)();
    let deadline = member.deadline().saturating_duration_since(now);
    (!deadline.is_zero()).then_some(Alone { deadline, repeats })
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<E: Engine> Store for WireStore<E> {
    async fn decide<'a>(&self, request: Request<'a>) -> Result<Verdicts, StoreError> {
        self.execute(&request).await
    }

    async fn reset<'a>(&self, checks: Checks<'a>) -> Result<(), StoreError> {
        self.reset(&checks).await
    }

    fn supports<'a>(&self, request: &Request<'a>) -> bool {
        self.supports(request)
    }

    fn as_sync(&self) -> Option<&dyn SyncStore> {
        None
    }
}

fn share_partition(checks: &[Check<'_>]) -> bool {
    checks
        .windows(2)
        .all(|pair| pair[0].key().partition() == pair[1].key().partition())
}

fn unsupported(request: &Request<'_>) -> StoreError {
    if codec::operation_number(request.operation()).is_none() {
        return fault::unknown_operation();
    }
    StoreError::new(
        ErrorKind::Unsupported,
        "a cluster can only decide keys of one hash slot together: give the keys of one request the \
         same partition (`Key::new(tenant).with_rest(...)`), or check them separately",
    )
}
