//! How `WireStore` decides a request: it sends the call by itself, or in a batch.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use tollgate_core::store::{Cover, Fingerprint, Operation, Request, Uncovered, Verdicts};
use tollgate_core::{CallId, StoreError, Timestamp};

use super::WireStore;
use crate::batch::{self, BatchedCall, Ended, InQueue, Member, Packed, Undecided};
use crate::codec::{self, Question};
use crate::engine::{Engine, ScriptCall};
use crate::failure::Failure;
use crate::fault::{self, Effect};
use crate::keyspace::Keys;
use crate::options::{Batches, Options};
use crate::runner::until;
use crate::script::Script;

/// Longer than any call takes, and short enough to be added to an instant.
const LONGEST: Duration = Duration::from_secs(1 << 31);

/// A valid request, as a call to the server.
struct Call<'r> {
    /// It has no id: that is `id`.
    request: &'r Request<'r>,
    /// `None` for the server's clock.
    instant: Option<Timestamp>,
    /// The periods that it brings, in a box because few calls bring any.
    cover: Option<Box<Cover>>,
    id: Option<&'r CallId<'r>>,
    effect: Effect,
}

/// What is sent for a call.
struct Sent {
    keys: Keys,
    argument: Vec<u8>,
    /// The hash of a call that has an id, which precedes the reply.
    hash: Option<[u8; 8]>,
}

/// How long the reply to a call may take, and what happens if it is lost.
#[derive(Clone, Copy)]
struct Patience {
    deadline: Duration,
    /// Whether the call is sent once more if it is lost.
    repeats: bool,
}

impl<E: Engine> WireStore<E> {
    /// Decides `request`, like [`Store::decide`](tollgate_core::Store::decide).
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`](tollgate_core::Store::decide).
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
        let mut call = self.call(request, id)?;
        // A call that is sent by itself stays in its queue until it is over.
        let queue = self.enter(request);
        if let Some(queue) = queue.as_ref().filter(|queue| !queue.is_alone()) {
            return self.decide_in_batch(&mut call, queue).await;
        }
        let patience = Patience {
            deadline: self.options().deadline,
            repeats: call.is_repeated(),
        };
        // In a box, because clients have large futures, and calls in batches need none.
        Box::pin(self.decide_alone(&mut call, patience)).await
    }

    /// Returns a call for `request`, which had this `id`.
    ///
    /// # Errors
    ///
    /// An error if the request is not valid, or if this store cannot decide it.
    fn call<'r>(
        &self,
        request: &'r Request<'r>,
        id: Option<&'r CallId<'r>>,
    ) -> Result<Call<'r>, StoreError> {
        request.validate(Fingerprint::of)?;
        self.can_send(request)?;
        let effect = match (request.operation(), id) {
            (Operation::Peek, _) => Effect::Nothing,
            (Operation::Block(_), _) => Effect::Blocks,
            (Operation::Lower, _) => Effect::Lowers,
            (Operation::Give | Operation::Refund(_), None) => Effect::GivesBack,
            (_, None) => Effect::Counts,
            (_, Some(_)) => Effect::CountsOnce,
        };
        let instant = self.instant(request.caller_time())?;
        Ok(Call {
            request,
            instant,
            cover: self.cover(request, instant),
            id,
            effect,
        })
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

    /// Sends a call by itself; once more if it lacks the period that the server's clock is in.
    async fn decide_alone(
        &self,
        call: &mut Call<'_>,
        patience: Patience,
    ) -> Result<Verdicts, StoreError> {
        let (engine, deadline, effect) = (self.engine(), patience.deadline, call.effect);
        let is_out = AtomicBool::new(false);
        let work = pin!(async {
            let (hash, reply) = self.send(call, patience.repeats, &is_out).await?;
            let uncovered = match call.decided(hash, &reply) {
                Ok(decided) => return Ok(decided),
                Err(uncovered) => uncovered,
            };
            call.widen(uncovered);
            let (hash, reply) = self.send(call, patience.repeats, &is_out).await?;
            let decided = call.decided(hash, &reply);
            Ok(decided.unwrap_or_else(|_| Err(fault::still_uncovered())))
        });
        let is_out = || is_out.load(Ordering::Relaxed);
        until(deadline, engine, effect, is_out, work).await?
    }

    /// Returns the reply to a call, and its hash if it has an id.
    async fn send(
        &self,
        call: &Call<'_>,
        repeats: bool,
        is_out: &AtomicBool,
    ) -> Result<(Option<[u8; 8]>, Vec<u8>), Failure> {
        let argument = codec::argument(&call.question(), self.options().caller_slack);
        let sent = self.sent(call, argument);
        let script = ScriptCall {
            script: Script::of(call.request, call.id.is_some()),
            keys: &sent.keys,
            argument: &sent.argument,
            ids: &[],
        };
        let reply = match self.runner.run(&script, is_out).await {
            Err(Failure::Lost(_)) if repeats => self.runner.run(&script, is_out).await,
            outcome => outcome,
        };
        Ok((sent.hash, reply?))
    }

    /// Sends a call in a batch; if the server did not run that, by itself.
    async fn decide_in_batch(
        &self,
        call: &mut Call<'_>,
        queue: &InQueue,
    ) -> Result<Verdicts, StoreError> {
        // The batch gets it at once, so the first poll need not lock the batch again.
        let waker = batch::waker().await;
        let (packed, hash) = self.packed(call).unzip();
        let member = self.join(call, queue, packed, waker);
        let undecided = match batch::ended(&member, queue.runtime().now).await {
            Ended::Answered => {
                let decided = |reply: &[u8]| {
                    let decided = call.decided(hash, reply);
                    decided.map_err(Undecided::Uncovered)
                };
                let now = (queue.runtime().now)();
                match member.decide(&call.question(), now, decided) {
                    Ok(decided) => return decided,
                    Err(undecided) => undecided,
                }
            }
            Ended::Failed => member.failure(),
            Ended::Late(is_out) => Undecided::Late(is_out),
        };
        match again(call, queue, &member, &undecided) {
            Some(patience) => {
                if let Undecided::Uncovered(uncovered) = undecided {
                    call.widen(uncovered);
                }
                Box::pin(self.decide_alone(call, patience)).await
            }
            None => Err(self.error(call, undecided)),
        }
    }

    /// Returns what a batch sends for a call that has an id, and the hash of the call.
    fn packed(&self, call: &Call<'_>) -> Option<(Box<Packed>, [u8; 8])> {
        call.id?;
        let slack = codec::slack_at(call.instant, self.options().caller_slack);
        let argument = codec::many_argument(&call.question(), slack);
        let sent = self.sent(call, argument);
        let packed = Packed {
            keys: sent.keys,
            argument: sent.argument,
            has_id: true,
        };
        Some((Box::new(packed), sent.hash?))
    }

    /// Adds a call to those that wait for a batch. It is `packed` already if it has an id, and
    /// `waker` is woken when it has ended.
    fn join(
        &self,
        call: &Call<'_>,
        queue: &InQueue,
        packed: Option<Box<Packed>>,
        waker: Waker,
    ) -> Member {
        let (keyspace, options) = (&self.keyspace, self.options());
        let deadline = queue.now().checked_add(options.deadline);
        let deadline = deadline.unwrap_or_else(|| queue.now() + LONGEST);
        let call = BatchedCall::new(call.question(), keyspace, options, deadline, waker, packed);
        queue.add(&self.runner, call)
    }

    /// Returns the error of a call that its batch did not decide.
    fn error(&self, call: &Call<'_>, undecided: Undecided) -> StoreError {
        match undecided {
            Undecided::NotUnderstood => codec::not_understood(),
            Undecided::Late(is_out) => {
                fault::too_late(self.options().deadline, call.effect, is_out)
            }
            Undecided::Uncovered(_) => fault::still_uncovered(),
            Undecided::Refused(line) => {
                let checks = call.request.checks();
                let keys = self.keyspace.of(checks, call.instant.is_some());
                let failure = Failure::refused(line.clone(), line);
                fault::error(failure.redacted(&keys), call.effect)
            }
            Undecided::Failed(failure) => fault::error(failure, call.effect),
        }
    }

    /// Returns what is sent for a call: `argument`, and for a call that has an id also what the
    /// script needs to keep the answer.
    fn sent(&self, call: &Call<'_>, mut argument: Vec<u8>) -> Sent {
        let (request, instant) = (call.request, call.instant);
        let mut keys = self.keyspace.of(request.checks(), instant.is_some());
        let hash = call.id.map(|id| {
            let slack = codec::slack_at(instant, self.options().caller_slack);
            let hash = codec::push_id(&mut argument, request, &keys, id, slack);
            let first = &request.checks()[0];
            keys.push(self.keyspace.answer(first, id.bytes(), instant.is_some()));
            hash
        });
        Sent {
            keys,
            argument,
            hash,
        }
    }
}

impl<'r> Call<'r> {
    /// Returns what the decision depends on.
    fn question(&self) -> Question<'_> {
        Question {
            request: self.request,
            instant: self.instant,
            cover: self.cover.as_deref(),
        }
    }

    /// Brings the periods around the instant that none held.
    fn widen(&mut self, Uncovered(instant): Uncovered) {
        self.cover = Some(Box::new(self.request.cover(instant)));
    }

    /// Returns the verdicts that follow from the reply, or that the call lacks a period; a call that has an id
    /// has this `hash`.
    fn decided(
        &self,
        hash: Option<[u8; 8]>,
        reply: &[u8],
    ) -> Result<Result<Verdicts, StoreError>, Uncovered> {
        let (mut question, mut reply) = (self.question(), reply);
        if let Some(hash) = hash {
            reply = match codec::answer_to(hash, reply) {
                Ok(reply) => reply,
                Err(error) => return Ok(Err(error)),
            };
        }
        // Most calls have no periods.
        if self.cover.is_some()
            && let Some(uncovered) = codec::uncovered(&question, reply)
        {
            return Err(uncovered);
        }
        if hash.is_some() {
            // The answer may be one to an earlier call, at another instant.
            question.instant = None;
        }
        Ok(codec::decision(&question, reply))
    }

    /// Returns whether the call is sent once more if it is lost.
    fn is_repeated(&self) -> bool {
        self.id.is_some_and(CallId::is_repeated)
    }
}

/// Returns how to send a call by itself after its batch, if the server has run nothing or the call may be
/// sent once more, and if there is time.
fn again(
    call: &Call<'_>,
    queue: &InQueue,
    member: &Member,
    undecided: &Undecided,
) -> Option<Patience> {
    let mut repeats = call.is_repeated();
    match undecided {
        Undecided::Uncovered(_) => {}
        Undecided::Failed(failure) if fault::is_about_the_keys(failure) => {}
        Undecided::Failed(Failure::Lost(_)) if repeats => repeats = false,
        _ => return None,
    }
    let now = (queue.runtime().now)();
    let deadline = member.deadline().saturating_duration_since(now);
    (!deadline.is_zero()).then_some(Patience { deadline, repeats })
}
