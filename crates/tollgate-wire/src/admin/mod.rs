//! `Operate`: commands for operators, to find and clear states, and to check servers.
//!
//! They are written once, for [`WireStore`], over [`Nodes`], which a client crate
//! implements. Each round trip has the store's deadline and is small, so that a server can decide
//! calls in between.

mod clear;
mod diagnose;
mod facts;
mod find;
mod finding;
mod latest;
mod names;
mod probe;
mod setup;
mod slot;
mod states;

pub use clear::{Clear, Cleared};
pub use facts::Facts;
pub use find::{Encoding, FoundState, Search};
pub use finding::{Diagnosis, Finding, Severity};

use std::fmt;
use std::future;
use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::store::Verdict;
use tollgate_core::{ErrorKind, Key, Limit, Store, StoreError};

use super::engine::Engine;
use super::failure::Failure;
use super::fault::{self, Effect};
use super::plain::Command;
use super::redact;
use super::runner::until;
use super::store::WireStore;

/// How many times to ask a cluster for its masters, and how long to wait in between.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// A store with commands for the operators of its servers.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::StoreError;
/// use tollgate_wire::operate::{Clear, Operate, Severity};
///
/// /// Prints serious problems of the servers, and deletes the states that a clock that was ahead
/// /// has written.
/// async fn repair(store: &impl Operate) -> Result<u64, StoreError> {
///     for finding in store.diagnose().await.findings() {
///         if finding.severity == Severity::Serious {
///             println!("{} {}", finding.found, finding.advice);
///         }
///     }
///     let locked = Clear::new().ahead_by(Duration::from_secs(1));
///     let cleared = store.clear(&locked, &mut |so_far| println!("{}", so_far.cleared)).await?;
///     Ok(cleared.cleared)
/// }
/// ```
#[async_trait]
pub trait Operate: Store {
    /// Deletes the states that `what` selects, on the server or on every master of a cluster, and
    /// calls `progress` after every step.
    ///
    /// A key whose state is deleted starts afresh. Keys of other programs and other prefixes are
    /// not touched. Servers keep deciding calls meanwhile, because each step is small. A state that
    /// is written meanwhile, or whose slot moves, may be missed: clear again afterwards.
    ///
    /// # Errors
    ///
    /// The same as [`Store::reset`]. States that were deleted before the error stay deleted, and it
    /// is safe to clear again.
    async fn clear(
        &self,
        what: &Clear,
        progress: &mut (dyn for<'c> FnMut(&'c Cleared) + Send),
    ) -> Result<Cleared, StoreError>;

    /// Checks every server of this store, and returns what endangers limits there, with advice.
    ///
    /// It writes a few keys of its own under the store's prefix, and deletes them. If that fails,
    /// they expire within a minute; under [`TimeSource::Caller`](super::TimeSource::Caller), within a minute
    /// after the caller slack.
    async fn diagnose(&self) -> Diagnosis;

    /// Returns the next states that `search` selects, on the server or on every master of a
    /// cluster, or `None` at the end. It writes nothing.
    ///
    /// A page takes one `SCAN` of about 100 keys, and may be empty. The masters take turns, so that
    /// the first pages are from all of them; a search with a key asks only the master of its slot.
    /// `SCAN` may return a key twice while the server resizes its table of keys. A state that is
    /// written meanwhile, or whose slot moves, may be missed.
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`]. The same page can be asked for again.
    async fn find(&self, search: &mut Search) -> Result<Option<Vec<FoundState>>, StoreError>;

    /// Returns the states that the server holds for `key` and that `limits` read, by either clock.
    /// It writes nothing, and scans no keys.
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`].
    async fn held(&self, limits: &[Limit], key: Key<'_>) -> Result<Vec<FoundState>, StoreError>;

    /// Deletes `states`, about 25 in one round trip, and returns how many of them existed. A key
    /// whose state is deleted starts afresh.
    ///
    /// # Errors
    ///
    /// The same as [`Store::reset`]. States that were deleted before the error stay deleted.
    async fn forget(&self, states: &[FoundState]) -> Result<u64, StoreError>;

    /// Reads each of `states`, about fifty in one round trip: what the state itself tells, or `None`
    /// if it is gone.
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`].
    async fn read(&self, states: &[FoundState]) -> Result<Vec<Option<Facts>>, StoreError>;

    /// Returns what `limit` says of each of `states`, which [it reads](FoundState::is_of), for a
    /// call of one unit that is not counted; or `None` if no limit writes such a state.
    ///
    /// About fifty are decided in one round trip, by the clock of the store's options. It also works
    /// for hashed keys.
    ///
    /// # Errors
    ///
    /// The same as [`Store::decide`].
    async fn peek_at(
        &self,
        limit: &Limit,
        states: &[FoundState],
    ) -> Result<Vec<Option<Verdict>>, StoreError>;
}

/// An [`Engine`] that can send any command to a given server.
///
/// A client crate implements only this for [`Operate`].
pub trait Nodes: Engine {
    /// Sends `commands` to `node` in a pipeline, and returns a reply for each.
    ///
    /// If the server answers a command with an error, its reply is a [`Reply::Error`]. A client
    /// that reports one error for the whole pipeline returns it for every command.
    ///
    /// # Errors
    ///
    /// A [`Failure`] if the replies did not arrive.
    fn send(
        &self,
        node: &Node,
        commands: &[Command],
    ) -> impl Future<Output = Result<Vec<Reply>, Failure>> + Send;
}

/// Which server a command goes to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a client crate has to reach every one of them"
)]
pub enum Node {
    /// The only server; in a cluster, any node.
    Any,
    /// The node of a cluster at this address, as `CLUSTER SLOTS` names it.
    At {
        /// The host name or IP address.
        host: String,
        /// The port.
        port: u16,
    },
    /// The master of this slot, if `CLUSTER SLOTS` does not say its address.
    Serving(u16),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("server"),
            Self::At { host, port } => write!(f, "{host}:{port}"),
            Self::Serving(slot) => write!(f, "master of slot {slot}"),
        }
    }
}

/// A server's reply to one command.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a client crate has to translate into them"
)]
pub enum Reply {
    /// A string or a status, such as `OK`, or a non-integer number as text.
    Bytes(Vec<u8>),
    /// An error, its code first: `NOPERM this user has no permissions`.
    Error(String),
    /// An integer, or a boolean as 0 or 1.
    Integer(i64),
    /// Several replies; a map alternates keys and values.
    List(Vec<Self>),
    /// Nil, as for a key that does not exist.
    Nil,
}

impl Reply {
    /// Returns the bytes as text, with `U+FFFD` for what is not UTF-8.
    fn text(&self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Returns a non-negative number, from an integer or from decimal text.
    fn number(&self) -> Option<u64> {
        match self {
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
            _ => None,
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    fn error(&self) -> Option<&str> {
        match self {
            Self::Error(line) => Some(line),
            _ => None,
        }
    }

    /// Returns the instant in a reply to `TIME`, in microseconds.
    fn instant(&self) -> Option<u64> {
        match self.items() {
            [seconds, micros] => {
                let seconds = seconds.number()?.checked_mul(1_000_000)?;
                seconds.checked_add(micros.number()?)
            }
            _ => None,
        }
    }
}

/// A server that decides: the only one, or a master of a cluster with its slots.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Master {
    node: Node,
    slots: Vec<RangeInclusive<u16>>,
}

/// Sends commands within a store's deadline.
#[derive(Debug)]
struct Sender<'a, E> {
    engine: &'a E,
    deadline: Duration,
}

impl<E: Nodes> WireStore<E> {
    fn sender(&self) -> Sender<'_, E> {
        Sender {
            engine: self.engine(),
            deadline: self.options().deadline(),
        }
    }
}

impl<E: Nodes> Sender<'_, E> {
    /// Sends `commands` to `node`; `effect` says what they do.
    async fn send(
        &self,
        node: &Node,
        commands: &[Command],
        effect: Effect,
    ) -> Result<Vec<Reply>, StoreError> {
        let work = async {
            // Any word may be a key.
            let words = || -> Vec<Vec<u8>> {
                let words = commands.iter().flat_map(Command::words);
                words.cloned().collect()
            };
            let sent = self.engine.send(node, commands).await;
            let replies = sent.map_err(|failure| failure.redacted(&words()))?;
            let redacted = replies.into_iter().map(|reply| match reply {
                Reply::Error(line) => Reply::Error(redact::text(&line, &words()).into_owned()),
                reply => reply,
            });
            Ok(redacted.collect::<Vec<_>>())
        };
        let replies = until(self.deadline, self.engine, effect, || true, work).await?;
        if replies.len() == commands.len() {
            return Ok(replies);
        }
        Err(StoreError::new(
            ErrorKind::Protocol,
            "the number of replies differs from the number of commands",
        ))
    }

    /// Sends one command that only reads.
    async fn read(&self, node: &Node, command: Command) -> Result<Reply, StoreError> {
        let mut replies = self.send(node, &[command], Effect::Nothing).await?;
        Ok(replies.pop().unwrap_or(Reply::Nil))
    }

    /// Returns the server, or the masters of a cluster as one of its nodes sees them.
    async fn masters(&self) -> Result<Vec<Master>, StoreError> {
        if !self.engine.is_clustered() {
            let node = Node::Any;
            let slots = Vec::new();
            return Ok(vec![Master { node, slots }]);
        }
        let mut attempts = 1..ATTEMPTS;
        let reply = loop {
            match self.read(&Node::Any, command([b"CLUSTER", b"SLOTS"])).await {
                // The node that was asked may just have failed: another will know.
                Err(error) if error.is_retryable() && attempts.next().is_some() => {
                    self.engine.within(PAUSE, future::pending::<()>()).await;
                }
                outcome => break accepted(outcome?)?,
            }
        };
        let mut masters: Vec<Master> = Vec::new();
        for range in reply.items() {
            let (node, slots) = range_of(range).ok_or_else(|| {
                StoreError::new(
                    ErrorKind::Protocol,
                    "the server's reply to CLUSTER SLOTS is not understood",
                )
            })?;
            match masters.iter_mut().find(|master| master.node == node) {
                Some(master) => master.slots.push(slots),
                None => masters.push(Master {
                    node,
                    slots: vec![slots],
                }),
            }
        }
        Ok(masters)
    }
}

/// Returns the master and the slots in one entry of the reply to `CLUSTER SLOTS`.
fn range_of(entry: &Reply) -> Option<(Node, RangeInclusive<u16>)> {
    let [first, last, master, ..] = entry.items() else {
        return None;
    };
    let slot = |reply: &Reply| u16::try_from(reply.number()?).ok();
    let (first, last) = (slot(first)?, slot(last)?);
    let [host, port, ..] = master.items() else {
        return None;
    };
    let host = host.text().unwrap_or_default();
    let node = match host.as_str() {
        // A node that has not met any other may not know its own address.
        "" | "?" | "0.0.0.0" | "::" => Node::Serving(first),
        _ => Node::At {
            port: slot(port)?,
            host,
        },
    };
    Some((node, first..=last))
}

fn command<const N: usize>(words: [&[u8]; N]) -> Command {
    Command::new(words)
}

/// Returns `reply`, or an error with advice if the server answered with an error.
fn accepted(reply: Reply) -> Result<Reply, StoreError> {
    match reply {
        Reply::Error(line) => Err(refusal(&line)),
        reply => Ok(reply),
    }
}

/// Returns the error for a server's error `line`, with advice for operators.
fn refusal(line: &str) -> StoreError {
    let refused = fault::error(Failure::refused(line, line), Effect::Nothing);
    // Operators need other advice than callers of a limiter.
    let advice = match refused.kind() {
        ErrorKind::Unsupported if line.contains("unknown command") => {
            "the server does not know a command that this needs: undo its renaming, or enable it, \
             for as long as this takes"
        }
        ErrorKind::Misconfigured if line.starts_with("CROSSSLOT") => {
            "this server is one node of a cluster: connect with a cluster client"
        }
        _ => return refused,
    };
    let said = redact::text(line, &[]);
    StoreError::new(refused.kind(), format!("{advice} ({said})"))
}

/// Returns whether the server refused a command because the key's slot is, or is moving, elsewhere.
fn is_elsewhere(line: &str) -> bool {
    let code = line.split(' ').next().unwrap_or(line);
    matches!(code, "ASK" | "CLUSTERDOWN" | "MOVED" | "TRYAGAIN")
}
