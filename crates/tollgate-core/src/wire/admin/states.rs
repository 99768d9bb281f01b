//! States on a server: found in small steps, and compared with its clock.

use std::time::Duration;

use super::names::{Held, name};
use super::{Command, Node};
use super::{Nodes, Reply, Sender, accepted, command, refusal};
use crate::error::{ErrorKind, StoreError};
use crate::wire::fault::Effect;

/// How many keys a server looks at in one `SCAN`: a fraction of a millisecond's work.
pub(super) const SCANNED: u64 = 100;
/// How many keys are read in one exchange.
const READ: usize = 50;

/// What one `SCAN` found.
pub(super) struct Scan {
    pub(super) keys: Vec<Vec<u8>>,
    /// Where to go on, or `None` at the end.
    pub(super) next: Option<Vec<u8>>,
}

/// What a key says about the clock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ahead {
    /// How far the latest instant of the state lies ahead of the server's clock; zero if it does not.
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
            let mut commands: Vec<Command> = reads.iter().flatten().cloned().collect();
            // The clock is read last: what was written before cannot seem to lie ahead of it.
            commands.push(command([b"TIME"]));
            let replies = self.send(node, &commands, Effect::Nothing).await?;
            let (time, mut replies) = match replies.split_last() {
                Some((time, replies)) => (accepted(time.clone())?, replies),
                None => (Reply::Nil, &[][..]),
            };
            let now = time.instant().ok_or_else(|| {
                StoreError::new(
                    ErrorKind::Protocol,
                    "the server's reply to TIME is not understood",
                )
            })?;
            for (key, reads) in keys.iter().zip(&reads) {
                let (own, others) = replies.split_at_checked(reads.len()).unwrap_or_default();
                replies = others;
                // Whatever else is kept under such a key is none of ours; a state that may not be
                // read could be what was looked for.
                let mut errors = own.iter().filter_map(Reply::error);
                if let Some(line) = errors.find(|line| !line.starts_with("WRONGTYPE")) {
                    return Err(refusal(line));
                }
                ahead.push(compared(prefix, key, own, now));
            }
        }
        Ok(ahead)
    }
}

/// Returns the commands that tell the latest instant of the state at `key`.
fn reads(prefix: &str, key: &[u8]) -> Vec<Command> {
    match name(prefix, key).map(|name| name.held) {
        Some(Held::ByScript(shape)) => shape.reads(key),
        Some(Held::CounterFor(_)) => vec![command([b"PTTL", key])],
        Some(Held::CounterOf(_) | Held::Otherwise) | None => Vec::new(),
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
        Some(Held::CounterOf(start)) => Some(start),
        Some(Held::CounterFor(window_us)) => match replies {
            // It began a window before it ends. Servers count the end in whole milliseconds.
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
