//! `Operate`: what an operator does to the servers that a store counts on.
//!
//! It is written here once, for [`WireStore`](super::WireStore), over what a client crate brings:
//! [`Nodes`]. Every exchange has the store's deadline, and none is large: a server that answers
//! decisions meanwhile is never held for long.

mod clear;
mod diagnose;
mod names;
mod probe;
mod setup;
mod states;

pub use clear::{Clear, Cleared};
pub use diagnose::{Diagnosis, Finding, Severity};

use std::fmt;
use std::future;
use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;

use super::engine::{Engine, Failure};
use super::fault::{self, Effect};
use super::plain::Command;
use super::redact;
use super::store::until;
use crate::error::{ErrorKind, StoreError};
use crate::store::Store;

/// How often the nodes of a cluster are asked which masters there are, and how long to wait between.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// A store on servers, for those who run them.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::StoreError;
/// use tollgate_core::wire::{Clear, Operate, Severity};
///
/// /// Frees the keys that were counted by a clock that was ahead, and warns of what is set up
/// /// wrongly.
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
    /// Deletes the states that `what` names, on the server or on every master of a cluster, and
    /// calls `progress` after every step.
    ///
    /// Keys whose states are deleted start afresh. The servers go on to decide meanwhile: each step
    /// is small. Keys of other programs and other prefixes are not touched. A state that is written
    /// meanwhile, or whose slot moves, may be missed: clear again afterwards.
    ///
    /// # Errors
    ///
    /// As [`Store::reset`]. What was deleted before stays deleted, and clearing may be repeated.
    async fn clear(
        &self,
        what: &Clear,
        progress: &mut (dyn for<'c> FnMut(&'c Cleared) + Send),
    ) -> Result<Cleared, StoreError>;

    /// Looks at every server that this store counts on, and returns what endangers limits there,
    /// with what to do about each.
    ///
    /// It writes a few keys of its own under the store's prefix, which expire within seconds, and
    /// deletes them.
    async fn diagnose(&self) -> Diagnosis;
}

/// An [`Engine`] that can send any command to a given server.
///
/// This is all that a client crate implements for operators' commands.
pub trait Nodes: Engine {
    /// Sends `commands` to `node` without waiting in between, and returns a reply for each.
    ///
    /// An error that the server answers to one of the commands is a [`Reply::Error`] in its place.
    /// Where a client reports one error for all of them, that error stands in every place.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when the replies did not come.
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
    /// The master that serves this slot, for a node that does not know its own address.
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

/// What a server replied to one command.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a client crate has to translate into them"
)]
pub enum Reply {
    /// A string or a status, such as `OK`; also a number that is no integer, as text.
    Bytes(Vec<u8>),
    /// An error, its code first: `NOPERM this user has no permissions`.
    Error(String),
    /// An integer, or a boolean as 0 or 1.
    Integer(i64),
    /// Several replies; a map is its keys and values in turn.
    List(Vec<Self>),
    /// Nothing, as for a key that does not exist.
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

    /// Returns a number that is not negative, written as an integer or in digits.
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
            let replies = sent.map_err(|failure| redact::failure(failure, &words()))?;
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
            "the server answered with another number of replies than it was sent commands",
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
                // Any node may be the one that has just gone: another will know.
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
        // A node that has met no other may not know its own address.
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

/// Returns `reply` unless it is an error, which is then explained.
fn accepted(reply: Reply) -> Result<Reply, StoreError> {
    match reply {
        Reply::Error(line) => Err(refusal(&line)),
        reply => Ok(reply),
    }
}

/// Returns what an error of the server means, and what to do.
fn refusal(line: &str) -> StoreError {
    let refused = fault::error(Failure::refused(line, line), Effect::Nothing);
    // The advice for those who operate a server is not the one for a decision.
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

/// Returns whether the server refused a command because the key's slot is, or goes, elsewhere.
fn is_elsewhere(line: &str) -> bool {
    let code = line.split(' ').next().unwrap_or(line);
    matches!(code, "ASK" | "CLUSTERDOWN" | "MOVED" | "TRYAGAIN")
}
