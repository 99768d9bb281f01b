//! Finds states on a server in small steps, and compares them with its clock.

use std::time::Duration;

use tollgate_core::{ErrorKind, StoreError};

use super::names::{Held, name};
use super::{Command, Node, Nodes, Reply, Sender, accepted, command, latest, refusal};
use crate::fault::Effect;

/// The `COUNT` of a `SCAN`, which takes a server a fraction of a millisecond.
pub(super) const SCANNED: u64 = 100;
/// How many keys are read in one round trip.
pub(super) const READ: usize = 50;

/// What one `SCAN` found.
pub(super) struct Scan {
    pub(super) keys: Vec<Vec<u8>>,
    /// The cursor to continue from, or `None` at the end.
    pub(super) next: Option<Vec<u8>>,
}

/// How the state at a key compares with the server's clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ahead {
    /// How far the latest instant of the state lies ahead of the server's clock, or zero.
    By(Duration),
    /// The key is gone.
    Gone,
    /// The key holds no state of this release, or could not be read.
    Unknown,
}

impl<E: Nodes> Sender<'_, E> {
    /// Looks for keys that match `pattern`, from `cursor` on.
    pub(super) async fn scan(
        &self,
        node: &Node,
        cursor: &[u8],
        pattern: &[u8],
    ) -> Result<Scan, StoreError> {
        let count = SCANNED.to_string();
        let words = command([
            b"SCAN",
            cursor,
            b"MATCH",
            pattern,
            b"COUNT",
            count.as_bytes(),
        ]);
        let reply = accepted(self.read(node, words).await?)?;
        let [Reply::Bytes(next), keys] = reply.items() else {
            return Err(StoreError::new(
                ErrorKind::Protocol,
                "the server's reply to SCAN is not understood",
            ));
        };
        let key = |reply: &Reply| match reply {
            Reply::Bytes(key) => Some(key.clone()),
            _ => None,
        };
        Ok(Scan {
            keys: keys.items().iter().filter_map(key).collect(),
            next: (next != b"0").then(|| next.clone()),
        })
    }

    /// Returns how far each of `keys` is ahead of the server's clock.
    pub(super) async fn ahead(
        &self,
        node: &Node,
        prefix: &str,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Ahead>, StoreError> {
        let mut ahead = Vec::with_capacity(keys.len());
        for keys in keys.chunks(READ) {
            let reads: Vec<Vec<Command>> = keys.iter().map(|key| reads(prefix, key)).collect();
            let (replies, now) = self.read_each(node, &reads).await?;
            for (key, own) in keys.iter().zip(&replies) {
                ahead.push(compared(prefix, key, own, now));
            }
        }
        Ok(ahead)
    }

    /// Returns the replies to each of `reads`, and the server's time after them. Those of another
    /// program's key may be errors of `WRONGTYPE`; any other error may be about a state.
    pub(super) async fn read_each(
        &self,
        node: &Node,
        reads: &[Vec<Command>],
    ) -> Result<(Vec<Vec<Reply>>, u64), StoreError> {
        let mut commands: Vec<Command> = reads.iter().flatten().cloned().collect();
        // Read the clock last, so that a state written just before does not seem to be ahead.
        commands.push(command([b"TIME"]));
        let mut replies = self.send(node, &commands, Effect::Nothing).await?;
        let time = accepted(replies.pop().unwrap_or(Reply::Nil))?;
        let now = time.instant().ok_or_else(|| {
            StoreError::new(
                ErrorKind::Protocol,
                "the server's reply to TIME is not understood",
            )
        })?;
        let mut errors = replies.iter().filter_map(Reply::error);
        if let Some(line) = errors.find(|line| !line.starts_with("WRONGTYPE")) {
            return Err(refusal(line));
        }
        let mut replies = replies.into_iter();
        let each = reads
            .iter()
            .map(|reads| replies.by_ref().take(reads.len()).collect());
        Ok((each.collect(), now))
    }
}

/// Returns the commands that read the latest instant of the state at `key`.
fn reads(prefix: &str, key: &[u8]) -> Vec<Command> {
    match name(prefix, key).map(|name| name.held) {
        Some(Held::ByScript(shape)) => shape.reads(key),
        Some(Held::CounterFor(_)) => vec![command([b"PTTL", key])],
        Some(Held::Leases) => vec![command([b"GET", key])],
        // A string or a hash.
        Some(Held::Schedule) => vec![
            command([b"GET", key]),
            command([b"HGET", key, latest::CLOCK]),
        ],
        Some(Held::Answer | Held::CounterOf(_) | Held::Otherwise) | None => Vec::new(),
    }
}

/// Returns how far the state at `key` lies ahead of `now`.
fn compared(prefix: &str, key: &[u8], replies: &[Reply], now: u64) -> Ahead {
    let latest = match name(prefix, key).map(|name| name.held) {
        Some(Held::ByScript(shape)) => {
            if replies.contains(&Reply::Nil) {
                return Ahead::Gone;
            }
            let value = |reply: &Reply| match reply {
                Reply::Bytes(value) => Some(value.clone()),
                _ => None,
            };
            let values: Option<Vec<_>> = replies.iter().map(value).collect();
            values.and_then(|values| shape.latest(&values))
        }
        // An answer keeps nobody waiting.
        Some(Held::Answer) => Some(0),
        Some(Held::CounterOf(start)) => Some(start),
        Some(Held::Leases) => match replies {
            [Reply::Nil] => return Ahead::Gone,
            [Reply::Bytes(state)] => latest::of_leases(state),
            _ => None,
        },
        Some(Held::Schedule) => match replies {
            [Reply::Nil, _] => return Ahead::Gone,
            [Reply::Bytes(state), _] | [_, Reply::Bytes(state)] => latest::of_events(state),
            _ => None,
        },
        Some(Held::CounterFor(window_us)) => match replies {
            // The window started `window_us` before the key expires. `PTTL` is in whole
            // milliseconds.
            [Reply::Integer(left)] if *left >= 0 => {
                let left = left.unsigned_abs().saturating_sub(1).saturating_mul(1_000);
                Some(now.saturating_add(left).saturating_sub(window_us))
            }
            [Reply::Integer(-2)] => return Ahead::Gone,
            _ => None,
        },
        Some(Held::Otherwise) | None => None,
    };
    latest.map_or(Ahead::Unknown, |latest| {
        Ahead::By(Duration::from_micros(latest.saturating_sub(now)))
    })
}
