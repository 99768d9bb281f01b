//! `Clear`: deletes many states, in steps that a busy server does not notice.

use std::time::Duration;

use tollgate_core::StoreError;

use super::names::{Held, name, pattern};
use super::states::{Ahead, SCANNED};
use super::{Command, Node};
use super::{Nodes, Reply, Sender, accepted, command, is_elsewhere};
use crate::fault::Effect;
use crate::runner::until;
use crate::store::WireStore;

/// How many keys are deleted in one round trip.
pub(super) const UNLINKED: usize = 25;

/// Selects the states that [`Operate::clear`](super::Operate::clear) deletes.
///
/// By default, all states of a store's prefix: of every limit, schedule and key, and all leases, by
/// the server's clock or a caller's, with or without scripts. Keys of other programs and of other
/// prefixes are never included.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate_wire::operate::Clear;
///
/// let everything = Clear::new();
/// let locked = Clear::new().with_limit("login").ahead_by(Duration::from_secs(1));
/// assert_ne!(everything, locked);
/// assert!(locked.dry_run().is_dry_run());
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Clear {
    limits: Vec<String>,
    ahead: Option<Duration>,
    is_dry_run: bool,
}

impl Clear {
    /// Selects all states of the store's prefix.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only states of the limit called `name`, whatever its algorithm and quota, events of
    /// the schedule called `name`, and leases of the concurrency limiter called `name`; call this
    /// again to add others.
    #[must_use]
    pub fn with_limit(mut self, name: impl Into<String>) -> Self {
        self.limits.push(name.into());
        self
    }

    /// Selects only states whose latest instant lies ahead of the server's clock by more than
    /// `least`.
    ///
    /// A clock that was wrong wrote these, and they deny calls until time catches up. Use at least
    /// a second: the clocks of healthy servers may differ by less.
    #[must_use]
    pub const fn ahead_by(mut self, least: Duration) -> Self {
        self.ahead = Some(least);
        self
    }

    /// Only counts what would be deleted, and changes nothing.
    #[must_use]
    pub const fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Returns whether this only counts.
    #[must_use]
    pub const fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }
}

/// The progress or the result of clearing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Cleared {
    /// How many servers are searched: one, or the masters of a cluster.
    pub servers: usize,
    /// How many keys these servers held at the start, including other programs' keys; `None` if the
    /// user may not run `DBSIZE`.
    pub keys: Option<u64>,
    /// About how many keys were looked at.
    pub scanned: u64,
    /// How many of the selected states were found. `SCAN` may return a key twice while the server
    /// resizes its table of keys, and then it counts twice.
    pub found: u64,
    /// How many states were deleted. Some may have expired just before.
    pub cleared: u64,
    /// How many keys of the prefix were skipped: another release wrote them, or, with
    /// [`Clear::ahead_by`], they hold no state or could not be read.
    pub skipped: u64,
}

impl<E: Nodes> WireStore<E> {
    /// Like [`Operate::clear`](super::Operate::clear).
    ///
    /// A step is about 100 keys for a `SCAN`, 50 for a read, where keys must be read, and 25 for an
    /// `UNLINK`. Each round trip has the store's deadline.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn clear(
        &self,
        what: &Clear,
        progress: &mut (dyn FnMut(&Cleared) + Send),
    ) -> Result<Cleared, StoreError> {
        let sender = self.sender();
        let masters = sender.masters().await?;
        let mut cleared = Cleared {
            servers: masters.len(),
            ..Cleared::default()
        };
        let mut sizes = Vec::with_capacity(masters.len());
        for master in &masters {
            let reply = sender.read(&master.node, command([b"DBSIZE"])).await?;
            sizes.push(reply.number());
        }
        cleared.keys = sizes
            .iter()
            .try_fold(0_u64, |sum, size| Some(sum.saturating_add((*size)?)));
        progress(&cleared);
        let run = Run {
            sender,
            what,
            prefix: self.options().prefix(),
        };
        for (master, size) in masters.iter().zip(sizes) {
            run.clear(&master.node, size, &mut cleared, progress)
                .await?;
        }
        Ok(cleared)
    }
}

/// One run of [`WireStore::clear`].
struct Run<'a, E> {
    sender: Sender<'a, E>,
    what: &'a Clear,
    prefix: &'a str,
}

impl<E: Nodes> Run<'_, E> {
    /// Clears the states of `node`, which held `size` keys at the beginning.
    async fn clear(
        &self,
        node: &Node,
        size: Option<u64>,
        cleared: &mut Cleared,
        progress: &mut (dyn FnMut(&Cleared) + Send),
    ) -> Result<(), StoreError> {
        let limit = match self.what.limits.as_slice() {
            [limit] => Some(limit.as_str()),
            _ => None,
        };
        let pattern = pattern(self.prefix, limit);
        let before = cleared.scanned;
        let mut cursor = Some(b"0".to_vec());
        while let Some(from) = cursor {
            let scan = self.sender.scan(node, &from, &pattern).await?;
            let keys = self.choose(node, scan.keys, cleared).await?;
            cleared.found += count(keys.len());
            if !self.what.is_dry_run {
                for keys in keys.chunks(UNLINKED) {
                    cleared.cleared += self.sender.unlink(node, keys).await?;
                }
            }
            cursor = scan.next;
            let most = size.map_or(u64::MAX, |size| before.saturating_add(size));
            cleared.scanned = match (&cursor, size) {
                (None, Some(_)) => most,
                _ => cleared.scanned.saturating_add(SCANNED).min(most),
            };
            progress(cleared);
        }
        Ok(())
    }

    /// Returns those of `keys` that are to be cleared.
    async fn choose(
        &self,
        node: &Node,
        keys: Vec<Vec<u8>>,
        cleared: &mut Cleared,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let limits = &self.what.limits;
        let mut chosen = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(name) = name(self.prefix, &key) else {
                continue;
            };
            if !limits.is_empty() && !limits.iter().any(|limit| limit == name.limit) {
                continue;
            }
            if name.held == Held::Otherwise {
                cleared.skipped += 1;
                continue;
            }
            chosen.push(key);
        }
        let Some(least) = self.what.ahead else {
            return Ok(chosen);
        };
        let ahead = self.sender.ahead(node, self.prefix, &chosen).await?;
        let mut ahead = ahead.into_iter();
        chosen.retain(|_| match ahead.next() {
            Some(Ahead::By(by)) => by > least,
            Some(Ahead::Gone) => false,
            Some(Ahead::Unknown) | None => {
                cleared.skipped += 1;
                false
            }
        });
        Ok(chosen)
    }
}

impl<E: Nodes> Sender<'_, E> {
    /// Deletes `keys`, and returns how many existed.
    pub(super) async fn unlink(&self, node: &Node, keys: &[Vec<u8>]) -> Result<u64, StoreError> {
        let unlink = |keys: &[Vec<u8>]| -> Command {
            let name = [b"UNLINK".as_slice()].into_iter();
            Command::new(name.chain(keys.iter().map(Vec::as_slice)))
        };
        let commands: Vec<Command> = if self.engine.is_clustered() {
            // The keys of one command must be in one slot.
            keys.chunks(1).map(unlink).collect()
        } else {
            vec![unlink(keys)]
        };
        let replies = self.send(node, &commands, Effect::Forgets).await?;
        let mut deleted = 0;
        for (reply, key) in replies.into_iter().zip(keys) {
            match reply {
                // The slot is moving to another node, where `forget` follows it.
                Reply::Error(line) if is_elsewhere(&line) && self.engine.is_clustered() => {
                    let work = self.engine.forget(std::slice::from_ref(key));
                    let (deadline, engine) = (self.deadline, self.engine);
                    until(deadline, engine, Effect::Forgets, || true, work).await?;
                    deleted += 1;
                }
                reply => deleted += accepted(reply)?.number().unwrap_or(0),
            }
        }
        Ok(deleted)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
