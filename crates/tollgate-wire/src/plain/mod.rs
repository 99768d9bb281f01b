//! `PlainStore`: a store without scripts, which sends one transaction per decision.

mod call;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(doc)]
use tollgate_core::Store;
use tollgate_core::inside::twins::{CounterPlan, CounterReply};
use tollgate_core::store::{Check, Fingerprint, Request, Verdicts};
use tollgate_core::{ErrorKind, Limit, StoreError};

use self::call::{Answer, CounterCall, Step, counter_call, decision, plan, unsupported};

use super::engine::Engine;
use super::failure::Failure;
use super::fault::Effect;
use super::keyspace::Keyspace;
use super::options::{Options, TimeSource};
use super::runner::{place, until};

/// The most times that a call is sent if its window keeps ending before it arrives.
const ATTEMPTS: usize = 20;
/// How far two clocks may drift apart: 1 part in this many. NTP slews each by up to 500 ppm.
const DRIFT_PARTS: u64 = 1_000;

/// A command: its name and its arguments.
#[derive(Clone, Eq, PartialEq)]
pub struct Command(Vec<Vec<u8>>);

impl Command {
    pub(super) fn new(words: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }

    /// Returns the words to send, the command's name first.
    #[must_use]
    pub fn words(&self) -> &[Vec<u8>] {
        &self.0
    }
}

/// Shows only the name and the number of arguments, because keys may be addresses, names or
/// secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.first().map(|name| String::from_utf8_lossy(name));
        f.debug_struct("Command")
            .field("name", &name.unwrap_or_default())
            .field("arguments", &self.0.iter().skip(1).len())
            .finish()
    }
}

/// An [`Engine`] that can also run transactions.
pub trait Transact: Engine {
    /// Runs `commands`, which use one key, between `MULTI` and `EXEC`, in one round trip.
    ///
    /// Returns the numbers in each command's reply, with `None` for nil. A number may arrive as
    /// decimal text, as in the reply to `TIME`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says whether the server may have run them.
    fn transact(
        &self,
        commands: &[Command],
    ) -> impl Future<Output = Result<Vec<Vec<Option<i64>>>, Failure>> + Send;

    /// Returns the microseconds since some fixed instant, by a monotonic clock.
    fn monotonic_us(&self) -> u64;
}

/// A [`Store`] for servers that do not allow scripts: fixed windows only, one limit per request, by
/// the server's clock.
///
/// It shares no counters with a [`WireStore`](super::WireStore) on the same server. It needs Redis
/// 7.0, for `PEXPIRETIME` and for the `NX` option of `PEXPIRE` and `PEXPIREAT`.
///
/// Aligned windows are exact as long as the server's clock does not step. Each window has a counter
/// of its own, so the client must choose the window before it knows the time: it takes a lower
/// bound of the server's time from the last reply. The transaction also reads the server's clock;
/// if the chosen window was over, the call is sent again, for the next one. The bound allows for
/// clocks that drift apart by up to 1,000 ppm, so after the client was idle, a call early in a
/// window may take two transactions.
///
/// Changing a limit's amount starts new counters, unless the limit counts denied calls.
///
/// An anchored window starts up to two milliseconds after its first call, because Redis expires
/// keys by the millisecond. It cannot be refunded.
///
/// The inherent methods do what the methods of [`Store`] do, but do not box their futures: a store
/// that wraps this one calls them, and boxes once.
#[derive(Debug)]
pub struct PlainStore<E> {
    engine: E,
    options: Options,
    keyspace: Keyspace,
    /// One lock, because both readings belong together.
    last: Mutex<Reading>,
}

/// Both clocks at the last reply, in microseconds; 0 before the first reply.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// The server's clock when it ran the transaction.
    server: u64,
    /// The engine's monotonic clock when the reply arrived.
    local: u64,
}

impl Reading {
    /// Returns a lower bound of the server's time when the engine's clock shows `local`.
    fn earliest(self, local: u64) -> u64 {
        let elapsed = local.saturating_sub(self.local);
        // Clocks read in whole microseconds, so `elapsed` may be up to one too long.
        let margin = elapsed / DRIFT_PARTS + 1;
        self.server.saturating_add(elapsed.saturating_sub(margin))
    }
}

impl<E: Transact> PlainStore<E> {
    /// Returns a store for `limits` that sends its commands through `engine`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if plain commands cannot serve some of `limits`; the message
    /// names each with the reason. [`ErrorKind::Misconfigured`] if `options` set [`TimeSource::Caller`].
    pub fn new(engine: E, options: Options, limits: &[Limit]) -> Result<Self, StoreError> {
        if options.clock == TimeSource::Caller {
            return Err(StoreError::new(
                ErrorKind::Misconfigured,
                "scriptless counters expire by the server's clock: use TimeSource::Server in the options",
            ));
        }
        let refused: Vec<String> = limits
            .iter()
            .filter_map(|limit| match plan(limit) {
                Ok(_) => None,
                Err(reason) => Some(format!("{limit}: {reason}")),
            })
            .collect();
        if !refused.is_empty() {
            return Err(unsupported(&refused.join("; ")));
        }
        Ok(Self {
            engine,
            keyspace: Keyspace::new(&options),
            options,
            last: Mutex::default(),
        })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &E {
        &self.engine
    }

    /// Runs `call`, and runs it again if its window was over before it arrived; returns `None`
    /// after [`ATTEMPTS`] tries.
    ///
    /// If the server's clock stepped back to before the window, the call stays counted in the
    /// window: a state machine, too, counts at the latest instant that it has seen.
    async fn run(&self, call: &CounterCall<'_>) -> Result<Option<Answer>, Failure> {
        for _ in 0..ATTEMPTS {
            let (window, step) = self.aim(call);
            let key = self.keyspace.plain(&call.check, &call.plan.variant(window));
            let reply = self.ask(&call.plan, step, &key, window).await?;
            if window >= call.plan.window(reply.now) {
                return Ok(Some(Answer { window, reply }));
            }
            // The window is over, so what was counted or refunded in it has no effect.
        }
        Ok(None)
    }

    /// Returns the window to use, from a lower bound of the server's time, and what to do there.
    fn aim(&self, call: &CounterCall<'_>) -> (Option<u64>, Step) {
        let window = call.plan.window(self.server_time());
        match call.step {
            // There is nothing to refund in a window that is over.
            Step::GiveBack { at, .. } if call.plan.window(at) < window => (window, Step::Look),
            Step::GiveBack { at, .. } => (call.plan.window(at), call.step),
            step => (window, step),
        }
    }

    /// Returns a lower bound of the server's time now.
    fn server_time(&self) -> u64 {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.earliest(self.engine.monotonic_us())
    }

    /// Runs one transaction.
    async fn ask(
        &self,
        plan: &CounterPlan,
        step: Step,
        key: &[u8],
        window: Option<u64>,
    ) -> Result<CounterReply, Failure> {
        let change = match step {
            Step::Add(cost) => Some(plan.add(cost)),
            Step::GiveBack { amount, .. } => Some(plan.give_back(amount)),
            Step::Look => None,
        };
        let mut commands = vec![Command::new(["TIME"])];
        let writes = change.is_some();
        commands.push(bitfield(key, change));
        if writes {
            commands.push(Command(plan.expire(key, window)));
        }
        commands.push(Command::new([b"PEXPIRETIME".as_slice(), key]));
        let replies = self.engine.transact(&commands).await;
        let keys = [key.to_vec()];
        let replies = replies.map_err(|failure| failure.redacted(&keys))?;
        let local = self.engine.monotonic_us();
        let reply =
            reply(&replies).ok_or_else(|| Failure::malformed("a reply of an unexpected form"))?;
        let server = reply.now;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Reading { server, local };
        Ok(reply)
    }
}

/// Returns the command that reads a counter, and may change it.
fn bitfield(key: &[u8], change: Option<[Vec<u8>; 6]>) -> Command {
    // `BITFIELD_RO` also works on servers that refuse writes.
    let name = if change.is_some() {
        "BITFIELD"
    } else {
        "BITFIELD_RO"
    };
    let mut words = vec![name.into(), key.to_vec()];
    words.extend(["GET", "u63", "0"].map(Vec::from));
    words.extend(change.into_iter().flatten());
    Command(words)
}

fn reply(replies: &[Vec<Option<i64>>]) -> Option<CounterReply> {
    let [time, counter, .., expires] = replies else {
        return None;
    };
    let (&[Some(seconds), Some(micros)], &[Some(expires)]) = (time.as_slice(), expires.as_slice())
    else {
        return None;
    };
    let now = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some(CounterReply {
        now: u64::try_from(now).ok()?,
        before: u64::try_from((*counter.first()?)?).ok()?,
        counted: counter.get(1).map(Option::is_some),
        expires,
    })
}

impl<E: Transact> PlainStore<E> {
    /// Decides `request`, like [`Store::decide`].
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`].
    pub async fn execute(&self, request: &Request<'_>) -> Result<Verdicts, StoreError> {
        request.validate(Fingerprint::of)?;
        let call = counter_call(request).map_err(unsupported)?;
        let effect = match call.step {
            Step::Look => Effect::Nothing,
            Step::Add(_) => Effect::Counts,
            Step::GiveBack { .. } => Effect::GivesBack,
        };
        let is_out = AtomicBool::new(false);
        let work = async {
            let _place = place(&self.engine, self.options.deadline).await?;
            is_out.store(true, Ordering::Relaxed);
            self.run(&call).await
        };
        let is_out = || is_out.load(Ordering::Relaxed);
        let answer = until(self.options.deadline, &self.engine, effect, is_out, work).await?;
        let Some(answer) = answer else {
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "each time the call arrived, its window had already ended: use a longer window, or the store with scripts",
            ));
        };
        decision(request, &call, &answer).ok_or_else(|| {
            StoreError::new(
                ErrorKind::Protocol,
                "the reply does not fit these commands: check that no other program writes to keys of this prefix, and that no proxy changes replies",
            )
        })
    }

    /// Deletes the counters of `checks`, like [`Store::reset`].
    ///
    /// # Errors
    ///
    /// The same as [`Store::reset`].
    pub async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        for check in checks {
            let Ok(plan) = plan(check.limit()) else {
                continue;
            };
            let is_out = AtomicBool::new(false);
            let work = async {
                let _place = place(&self.engine, self.options.deadline).await?;
                is_out.store(true, Ordering::Relaxed);
                let window = plan.window(self.server_time());
                let key = self.keyspace.plain(check, &plan.variant(window));
                let now = self.ask(&plan, Step::Look, &key, window).await?.now;
                // The current window, and the next, which may begin before the keys are deleted.
                let windows = [plan.window(now), plan.window(now).map(|window| window + 1)];
                let keys = windows.map(|window| self.keyspace.plain(check, &plan.variant(window)));
                let forgotten = self.engine.forget(&keys).await;
                forgotten.map_err(|failure| failure.redacted(&keys))
            };
            let (effect, is_out) = (Effect::Forgets, || is_out.load(Ordering::Relaxed));
            until(self.options.deadline, &self.engine, effect, is_out, work).await?;
        }
        Ok(())
    }

    /// Returns an error if this store cannot decide `request`, like [`Store::supports`].
    ///
    /// # Errors
    ///
    /// Same as [`Store::supports`].
    pub fn supports(&self, request: &Request<'_>) -> Result<(), StoreError> {
        request.validate_operation()?;
        counter_call(request).map(|_| ()).map_err(unsupported)
    }
}

crate::__decides!(PlainStore<E: Transact>);

#[cfg(test)]
mod tests;
